"""Run the gates of an agent, one after the other, once what it said is recorded.

Each result is a record, so a killed owner's successor runs only the gates that have none. A gate is started through the
same port as an attempt, with the attempt's mark, in its working directory, and without secrets or the means to speak to
the run.
"""

import shlex
from collections.abc import Callable
from functools import partial

import msgspec

from coterie.backends.base import Event, Failure, Launched, Request, Result, Tool
from coterie.journal.records import AttemptInterrupted, AttemptLaunched, GateChecked
from coterie.kernel.attempt_events import AttemptEvents
from coterie.kernel.attempt_inputs import AttemptInputs
from coterie.kernel.commands import HeldBack
from coterie.kernel.driven_run import DrivenRun
from coterie.kernel.run_tree import RunTree
from coterie.kernel.turns import ask
from coterie.planning.plan import AgentPlan

TIMEOUT = 600.0
"""Seconds that a gate may take, if the agent's plan does not say."""
_ENDED = ("exit", "transient")
"""Kinds of failures of a program that ended with a status: 75 is transient for an action."""
OUTPUT_MOST = 1_500
"""Characters of the end of a gate's output that are kept."""


class Gates:
    """Runs the gates of all runs of one owner.

    Args:
        lack: As for `Attempts`.
    """

    def __init__(
        self,
        tree: RunTree,
        inputs: AttemptInputs,
        events: AttemptEvents,
        lack: Callable[[str], object],
    ) -> None:
        self._tree, self._inputs, self._events, self._lack = tree, inputs, events, lack
        self._turns, self._workspace, self._cwd = tree.ports.turns, tree.ports.workspace, tree.ports.cwd

    def check(self, live: DrivenRun, turn: str) -> None:
        """Run the next gate of *turn*, or give the verdict if none is left."""
        held = live.core.gated.get(turn)
        if held is None or turn in live.checks:
            return
        if (argv := held.next) is None:
            self._inputs.settle(live, turn)
            return
        request = self._request(live, held, argv)
        shown = Tool(id=f"gate {len(held.checked) + 1}", name="gate", detail=shlex.join(argv))
        ref = live.core.ref(turn, held.due.attempt)
        self._events.publish(ref, shown)
        live.checks[turn] = self._tree.external_reads.ask(
            lambda: ask(self._turns.start(request, partial(self._event, live, held)), lambda session: None),
            partial(self._checked, live, held, argv, shown),
        )

    def interrupt(self, live: DrivenRun, turn: str) -> None:
        """End the gate that runs for *turn*, if one does, and the attempt with it."""
        if turn in live.checks and (held := live.core.gated.get(turn)) is not None:
            cut = AttemptInterrupted(turn=turn, attempt=held.due.attempt, reason="interrupted")
            self._inputs.accept(live, cut, at_once=True)

    def _request(self, live: DrivenRun, held: HeldBack, argv: tuple[str, ...]) -> Request:
        turn = held.due.turn
        agent = live.core.agents[live.core.turns[turn].ask.agent]
        gate = AgentPlan(
            name=agent.name,
            kind="gate",
            backend="command",
            steps=(argv,),
            cwd=agent.cwd,
            timeout=agent.options.get("gate_timeout", TIMEOUT),
            queue=agent.queue,
        )
        return Request(
            run=live.run,
            turn=turn,
            attempt=held.due.attempt,
            agent=gate,
            prompt="",
            key=f"{live.run}/{turn}",
            nodes=live.nodes,
            cwd=self._workspace.cwd(live.run) or self._cwd,
            here=live.here,
            epoch=live.core.epoch,
            clean=True,
        )

    def _event(self, live: DrivenRun, held: HeldBack, event: Event) -> None:
        if isinstance(event, Launched):
            launched = AttemptLaunched(
                turn=held.due.turn, attempt=held.due.attempt, pid=event.pid, group=event.group, started=event.started
            )
            self._tree.post(partial(self._inputs.accept, live, launched))

    def _checked(self, live: DrivenRun, held: HeldBack, argv: tuple[str, ...], shown: Tool, result: Result) -> None:
        turn, attempt = held.due.turn, held.due.attempt
        if live.core.gated.get(turn) is not held:
            return  # of an attempt that was cut off; a later one may have a gate here
        live.checks.pop(turn, None)
        failed = result if isinstance(result, Failure) else None
        if failed is not None and failed.kind == "shortage":
            self._lack(failed.reason)
            return
        command = shlex.join(argv)
        reason = ""
        if failed is not None:
            ended = f"ended with status {failed.exit_code}" if failed.kind in _ENDED else f"failed: {failed.reason}"
            reason = f"the gate `{command}` {ended}"
        output = "\n".join(filter(None, (result.text.rstrip(), "" if failed is None else failed.log.rstrip())))
        checked = GateChecked(
            turn=turn,
            attempt=attempt,
            argv=argv,
            passed=failed is None,
            status=0 if failed is None else failed.exit_code,
            reason=reason,
            output=output if len(output) <= OUTPUT_MOST else f"(…)\n{output[-OUTPUT_MOST:]}",
            seconds=round(result.usage.seconds, 3),
        )
        shown = msgspec.structs.replace(shown, state="failed" if reason else "finished", result=reason)
        self._events.publish(live.core.ref(turn, attempt), shown)
        if self._inputs.accept(live, checked) is not None:
            self.check(live, turn)
