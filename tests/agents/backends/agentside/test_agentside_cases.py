"""What `emit` says and how it ends, held against an earlier system where the pages agree with it."""

import pytest
from loop_cases import cases

from coterie.agents.backends.agentside.client import tell
from coterie.execution.kernel.commands import refusal
from coterie.history.engines.commands import Emit
from coterie.history.engines.loop import View, verdict

ONLY_COORDINATION = "only coordination events are accepted wherever they come; all else has to be allowed"
OTHERWISE = {
    "emit_cli-007": ONLY_COORDINATION,
    "emit_cli-008": ONLY_COORDINATION,
    "emit_cli-015": "an event without a name is a mistake, and nobody hears of it: exit 2",
    "emit_cli-032": "evidence in payloads is no part of the pages",
    "emit_cli-034": "evidence in payloads is no part of the pages",
    "emit_cli-038": "evidence in payloads is no part of the pages",
}


@pytest.mark.parametrize("case", cases("emit_cli"), ids=lambda case: case["id"])
def test_an_emit_ends_as_it_did(case: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status, what is printed where, and the facts in a rejection."""
    env: dict[str, str] = case["env"]  # type: ignore[assignment]
    allowed = tuple(filter(None, env.get("AUTOLOOP_ALLOWED_EVENTS", "").split(",")))
    view = View(
        recent=env.get("AUTOLOOP_RECENT_EVENT", ""),
        suggested=tuple(filter(None, env.get("AUTOLOOP_ALLOWED_ROLES", "").split(","))),
        allowed=allowed,
        anything=not allowed,
        completion="task.complete",
        branches=3 if "parallel.enabled = true" in str(case["autoloops_toml"]) else 0,
    )
    event = str(case["topic"])
    record = verdict(view, Emit(turn="iteration#3", attempt=1, event=event, payload=str(case["payload"])))
    refused = refusal(record)

    status = tell({"event": event}, "refused" if refused else "accepted", refused)
    said = capsys.readouterr()

    if case["id"] in OTHERWISE:
        assert (status, said.out) != (case["exit_code"], case["stdout"])
        return
    assert (status, said.out) == (case["exit_code"], case["stdout"])
    if status:
        assert f"recent event: {view.recent}\n" in said.err
        assert f"suggested roles: {', '.join(view.suggested)}\n" in said.err
        assert f"allowed events: {', '.join(allowed)}\n" in said.err
