"""What decides whether a coding agent may use a tool, and what it says about that."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from asking import Heard, agent

from coterie.agents.backends.base import Permission
from coterie.agents.backends.coding.permissions import ApprovalDecision, ApprovalRequest, ToolPermissions

REQUEST = ApprovalRequest(id="1", tool="Bash", detail="make test", command="make test")


@pytest.mark.parametrize(("trusts", "decision"), [(True, "allowed"), (False, "denied")])
def test_without_a_person_trust_decides(trusts: bool, decision: str) -> None:
    heard = Heard()
    permissions = ToolPermissions(agent(options={"trust_all_tools": trusts}), heard, no_time)

    assert asyncio.run(permissions.decide(REQUEST)).is_allowed is trusts
    assert heard == [Permission(id="1", tool="Bash", detail="make test", decision=decision, why="trust_all_tools")]


@pytest.mark.parametrize("options", [{}, {"attention": "ask"}])
def test_the_floor_refuses_first_and_names_its_rule(options: dict[str, str]) -> None:
    """Nothing is put to a person then."""
    heard = Heard()
    request = ApprovalRequest(id="1", tool="Bash", command="rm -rf /")

    assert asyncio.run(ToolPermissions(agent(options=options), heard, no_time).decide(request)).is_allowed is False
    [said] = heard
    assert isinstance(said, Permission)
    assert said.decision == "denied"
    rule, _, reason = said.why.partition(": ")
    assert rule
    assert reason


@pytest.mark.parametrize("allowed", [True, False])
def test_a_person_decides_and_the_time_out_does_not_run_meanwhile(allowed: bool) -> None:
    """The first answer counts; a question that is not open takes none."""
    held = []

    @contextmanager
    def hold() -> Iterator[None]:
        held.append("begin")
        yield
        held.append("end")

    async def main() -> None:
        heard = Heard()
        permissions = ToolPermissions(agent(options={"attention": "ask", "trust_all_tools": not allowed}), heard, hold)
        asking = asyncio.create_task(permissions.decide(REQUEST))
        await heard.until(len)
        assert held == ["begin"]
        assert permissions.answer("2", ApprovalDecision(True)) is False
        assert permissions.answer("1", ApprovalDecision(allowed)) is True
        assert permissions.answer("1", ApprovalDecision(not allowed)) is False
        assert (await asking).is_allowed is allowed
        assert held == ["begin", "end"]
        assert permissions.answer("1", ApprovalDecision(True)) is False
        decision = "allowed" if allowed else "denied"
        assert heard == [
            Permission(id="1", tool="Bash", detail="make test", rule="Bash(make test)"),
            Permission(id="1", tool="Bash", detail="make test", decision=decision, why="answered"),
        ]

    asyncio.run(main())


@contextmanager
def no_time() -> Iterator[None]:
    """For wishes that no person decides on."""
    raise AssertionError("the time-out was stopped")
    yield
