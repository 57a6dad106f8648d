"""Attempts that one implementation after the other confines."""

from collections.abc import Iterator

import pytest
from sandboxes import Neighbourhood

from coterie.agents.backends.sandbox import choice


@pytest.fixture(params=[one.NAME for one in choice.IMPLEMENTATIONS], scope="module")
def around(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbourhood]:
    """A neighbourhood whose attempts are confined by one implementation."""
    if why := choice.probe(request.param):
        pytest.skip(f"{request.param} does not work here: {why}")
    one = next(one for one in choice.IMPLEMENTATIONS if request.param == one.NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "IMPLEMENTATIONS", (one,))
        yield Neighbourhood(tmp_path_factory.mktemp("around").resolve())
