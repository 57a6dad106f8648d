"""What commands hand on for a run that is there already: several runs, a stop, an answer, a letter."""

import asyncio
import contextlib
import io
import itertools
import json
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_runs import ASKS, played
from stage import Cast, flow

from coterie.agents.backends.base import Text
from coterie.errors import UsageError
from coterie.execution.runs import attention, control, quotas, removal
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.messages import Verdict
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import OperatorSaid, RunOwned
from coterie.interfaces.cli import run as running
from coterie.interfaces.cli.app import main
from coterie.interfaces.cli.fork import _answers

# -- several runs that wait -------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=3), min_size=1, max_size=4)
)
def test_each_run_is_resumed_when_its_quota_opens_until_none_waits(runs: list[list[tuple[int, int]]]) -> None:
    """In the order in which they open, whatever each ended with; the status is the highest of the last ones.

    *runs*: for each run how long it waits the next time, and the status of its resume then.
    """
    now, resumed, seen = [1000.0], list[str](), Counter[str]()
    opens_at = {f"r{n}": 1000.0 + turns[0][0] for n, turns in enumerate(runs)}
    worst = max(turns[-1][1] for turns in runs)
    left = {f"r{n}": list(turns) for n, turns in enumerate(runs)}

    def again(name: str) -> int:
        assert opens_at[name] <= now[0]
        assert opens_at[name] == min(opens_at[other] for other in left if left[other])
        resumed.append(name)
        seen[name] += 1
        _, status = left[name].pop(0)
        opens_at[name] = now[0] + left[name][0][0] if left[name] else 0.0
        return status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotas, "opens", lambda name, where: opens_at[name])
        patch.setattr(quotas, "sleep_until", lambda due: now.__setitem__(0, due))
        patch.setattr(running, "time", SimpleNamespace(time=lambda: now[0]))
        with contextlib.redirect_stderr(io.StringIO()):
            status = running._resume_when_open([*opens_at, "r0"], again, Path())
    assert status == worst
    assert seen == {name: len(runs[int(name[1:])]) for name in opens_at}


# -- a run that is being stopped --------------------------------------------------------------------------------------


def test_a_resume_after_a_stop_waits_until_its_owner_has_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not say that the run is owned, which the reader has just seen to."""
    place = played(tmp_path / "state", ASKS)
    monkeypatch.chdir(tmp_path)
    looks = itertools.count()

    async def stopping() -> Any:
        owner = Runs(tmp_path / "state").store.claim("r1")  # type: ignore[attr-defined]
        owner.append([RunOwned(seq=owner.last + 1, epoch=2, at=time.time())])
        owner.append([OperatorSaid(seq=owner.last + 1, what="stop", message="m1", at=time.time())])
        await owner.durable(owner.last)
        return owner

    with asyncio.Runner() as runner:
        owner = runner.run(stopping())

        def let_go(seconds: float) -> None:
            if (look := next(looks)) == 1:
                runner.run(owner.close())
            assert look < 2, "it waits although no process owns the run"

        monkeypatch.setattr(control, "time", SimpleNamespace(sleep=let_go))
        status = main(["resume", "r1", "--park", "--state-dir", str(tmp_path / "state")])
    said = capsys.readouterr()
    assert (status, next(looks)) == (4, 2), said
    assert place.runs.status("r1") == "stopped: waiting"


# -- an answer --------------------------------------------------------------------------------------------------------

ANSWERS: list[tuple[list[str], str, tuple[str, str] | None]] = [
    (["boss#1", "fine"], "", ("boss#1", "fine")),
    (["fine"], "", ("", "fine")),
    (["boss#1", "-"], "from a file\n", ("boss#1", "from a file\n")),
    (["boss#1", "deny"], "", ("boss#1", "deny")),
    (["boss#1", "deny", "-m", "use make"], "", ("boss#1", "deny use make")),
    (["deny", "--message", "use make"], "", ("", "deny use make")),
    (["boss#1", "allow", "-m", "use make"], "", None),
    (["-m", "use make"], "", None),
    (["boss#1", "two", "words"], "", None),
    (["boss#1", "fine", "--watch"], "", None),
    (["--all"], "", None),
]


@pytest.mark.parametrize(("words", "given", "wanted"), ANSWERS, ids=[" ".join(one[0]) for one in ANSWERS])
@pytest.mark.parametrize("refused", [False, True], ids=["accepted", "refused"])
def test_an_answer_is_handed_on_as_it_was_typed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    given: str,
    wanted: tuple[str, str] | None,
    refused: bool,
) -> None:
    """With the message to the agent; a refusal is on standard error, with status 1; a wrong line is status 2."""
    played(tmp_path / "state", ASKS)
    answers = list[tuple[str, str]]()

    def answer(runs: Runs, run: str, id: str, word: str) -> Verdict:
        assert (runs.root, run) == (tmp_path / "state", "r1")
        answers.append((id, word))
        return Verdict(status="refused" if refused else "accepted", detail="so it is")

    monkeypatch.setattr(attention, "answer", answer)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    status = main(["attention", "r1", *words, "--state-dir", str(tmp_path / "state")])
    said = capsys.readouterr()
    assert answers == ([wanted] if wanted is not None else [])
    assert status == (2 if wanted is None else int(refused))
    line = f"run r1: {'refused' if refused else 'accepted'}: so it is\n"
    assert (said.out, said.err.endswith(line)) == (("", True) if refused else (line, False)) or wanted is None
    assert wanted is not None or (said.out == "" and said.err.startswith("coterie: "))


# -- a dead letter ----------------------------------------------------------------------------------------------------


class Kept:
    """The dead letters of a server that is not there."""

    there: "dict[str, Any]" = {}
    sent: "list[str]" = []

    def __init__(self, *given: object) -> None:
        pass

    async def kept(self) -> list[Any]:
        return [*self.there.values()]

    async def get(self, id: str) -> Any:
        return self.there.get(id)

    async def drop(self, letter: Any) -> None:
        del self.there[letter.message.id]

    async def send_again(self, letter: Any) -> Any:
        del self.there[letter.message.id]
        self.sent.append(letter.message.id)
        return SimpleNamespace(recipient=letter.message.recipient, id="m9")


class Carrier:
    """A connection that is closed once."""

    client = SimpleNamespace(jetstream=lambda timeout: None)
    open = 0

    def __init__(self, servers: Any, **given: Any) -> None:
        pass

    async def connect(self, *given: object) -> None:
        type(self).open += 1

    async def close(self) -> None:
        type(self).open -= 1


SYSTEM = """transport: {type: nats, jetstream: true}
supervision: {name: root, children: [{type: dynamic_supervisor, name: pool}]}
"""
LETTERS: list[tuple[list[str], int, str, set[str], list[str]]] = [
    ([], 0, "m1", {"m1", "m2"}, []),
    (["m1"], 0, '"agent": "seller"', {"m1", "m2"}, []),
    (["m1", "--drop"], 0, "dropped m1\n", {"m2"}, []),
    (["m1", "--send-again"], 0, "sent again to seller as m9\n", {"m2"}, ["m1"]),
    (["m3", "--drop"], 1, "no dead letter 'm3' of the system 'root'", {"m1", "m2"}, []),
    (["m1", "--drop", "--send-again"], 2, "choose one of --send-again and --drop", {"m1", "m2"}, []),
    (["--drop"], 2, "name the letter", {"m1", "m2"}, []),
]


@pytest.mark.parametrize(
    ("words", "status", "says", "left", "sent"), LETTERS, ids=[" ".join(one[0]) or "list" for one in LETTERS]
)
def test_a_dead_letter_is_dropped_or_sent_as_it_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    says: str,
    left: set[str],
    sent: list[str],
) -> None:
    """The others stay; the connection is closed again."""
    (file := tmp_path / "topology.yaml").write_text(SYSTEM)
    there = {
        id: SimpleNamespace(
            message=SimpleNamespace(id=id, recipient="seller", sender="buyer", type="order", sent_at=0.0, payload={}),
            at=0.0,
            reason="it killed its workers",
        )
        for id in ("m1", "m2")
    }
    monkeypatch.setattr(Kept, "there", there)
    monkeypatch.setattr(Kept, "sent", [])
    monkeypatch.setattr("coterie.agents.actors.transports.kept_letters.KeptLetters", Kept)
    monkeypatch.setattr("coterie.agents.actors.transports.nats.NatsCarrier", Carrier)

    assert main(["state", "letters", *words, "-t", str(file)]) == status
    said = capsys.readouterr()
    assert says in (said.err if status else said.out), said
    assert (set(there), Kept.sent, Carrier.open) == (left, sent, 0)


# -- what is left out, and what is said twice -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "out", "err"),
    [
        ([], "nothing to remove\n", ""),
        ([("old", "")], "removed old\n", ""),
        ([("old", ""), ("held", "a process drives it"), ("older", "")], "removed old\nremoved older\n", "kept held: "),
        ([("held", "a process drives it")], "nothing to remove\n", "kept held: a process drives it\n"),
    ],
    ids=["none", "one", "some", "kept"],
)
def test_pruned_runs_are_the_output_and_kept_ones_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: list[tuple[str, str]],
    out: str,
    err: str,
) -> None:
    """With the reason; both are in the JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(removal, "prune", lambda state_dir, before: iter(found))
    assert main(["runs", "prune", "--older-than", "1d"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err[: len(err) or None]) == (out, err)
    assert main(["runs", "prune", "--older-than", "1d", "--json"]) == 0
    removed, kept = [run for run, why in found if not why], {run: why for run, why in found if why}
    assert json.loads(capsys.readouterr().out) == {"removed": removed, "kept": kept}


@pytest.mark.parametrize(
    ("outputs", "answers"),
    [
        ([], {}),
        (["a#1.x=1", "a#1.y:=2", "b.z=3"], {"a#1": {"x": "1", "y": 2}, "b": {"z": "3"}}),
        (["a#1.x=1", "a#1.x=2"], {"a#1": {"x": "2"}}),
        (["x=1"], {"x": "1"}),
    ],
)
def test_other_answers_of_a_fork_are_collected_by_turn(outputs: list[str], answers: dict[str, Any]) -> None:
    """Several outputs of a turn are one answer."""
    assert _answers(outputs) == answers


@pytest.mark.parametrize("output", [".x=1", "a#1.=1"])
def test_another_answer_names_its_turn_and_its_output(output: str) -> None:
    """The error says how."""
    with pytest.raises(UsageError, match=r"write --output TURN\.NAME=VALUE"):
        _answers([output])


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "at work"])
@pytest.mark.parametrize("text", ["one\ntwo\n", "one\ntwo"], ids=["whole", "half a line"])
def test_the_last_line_of_an_agent_is_shown_however_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, ended: bool
) -> None:
    """Without a newline, too, and while the agent works."""
    place = played(tmp_path / "state", flow("a -> b"), "r1", Cast({}, seconds=0))
    journal = place.runs.file("r1")
    if not ended:
        lines = journal.read_bytes().splitlines(keepends=True)
        begun = next(n for n, line in enumerate(lines, 1) if b"turn.started" in line)
        journal.write_bytes(b"".join(lines[:begun]))
    place.runs.printed("r1/a#1.1", 0)
    stream = place.runs.folder("r1/a#1.1") / "stream.jsonl"
    stream.unlink(missing_ok=True)
    AttemptFolders(place.runs).stream(stream.parent, Text(text=text))
    assert main(["logs", "r1", "a#1", "--state-dir", str(tmp_path / "state")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in shown] == ["one", "two"]
