"""The example of a supervised system: agents in Python, a model, a flow and a program; the clerk crashes on purpose."""

import re
from pathlib import Path

import pytest
from command_line import Place

pytestmark = pytest.mark.once

SHOP = Path(__file__).parents[2] / "examples" / "shop"
POST = """\
Ada: [sent] Dear Ada, your order is on its way and arrives on Friday.
Bob: put aside, the clerk crashed (KeyError: 'subject')
Cyd: [sent] We have sent the money for order 12 back. We are sorry for the trouble.
"""


@pytest.mark.slow  # it loads the libraries of models
def test_the_post_is_answered_although_the_clerk_crashes(tmp_path: Path) -> None:
    """The clerk comes back, the others go on, each thing that is run is a turn with its cost; readers show it."""
    place = Place(tmp_path)
    words = ["run", "-t", str(SHOP / "topology.yaml"), "Answer the post", "--cassette", str(SHOP / "cassette.jsonl")]
    ran = place.call(*words)
    assert ran.out == POST
    said = ran.err

    assert re.search(
        r"clerk crashed at a message from desk: KeyError: 'subject'\n.*shop restarts clerk in 0\.1 s", said
    )
    assert "clerk started again (incarnation 2)" in said
    assert re.search(r"^completed: 5 turns, .*, 60 tokens in, 20 out", said, re.MULTILINE)
    assert said.index("desk was stopped") < said.index("stamp was stopped") < said.index("writer was stopped")

    assert re.search(r" shop  .* completed ", place.look("runs").out)
    why = place.look("inspect", "last", "why", "clerk").out
    assert why.index("clerk started again") < why.index("clerk crashed")
    assert "writer#1 | Dear Ada" in place.look("logs", "last").out
    usage = place.look("inspect", "last", "usage", "--by", "role").out
    assert "writer" in usage
    assert "clerk started again (incarnation 2)" in place.call("watch", "last").out
    assert "nothing" in place.look("attention", "last").out
