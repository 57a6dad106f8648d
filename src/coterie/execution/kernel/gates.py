"""Run the gates of an agent, one after the other, once its reply or emit is recorded.

Each result is a record, so a killed owner's successor runs only the gates that have none. A gate is started through the
same port as an attempt, with the attempt's mark and in its working directory, but without secrets and without access to
the run.
"""

import shlex
from collections.abc import Callable
from functools import partial

import msgspec

from coterie.agents.backends.base import Answer, Event, Failure, Launched, Request, Result, Tool
from coterie.agents.backends.needs import gate_sandbox, guards_team
from coterie.agents.workspace.base import place_of
from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.commands import MERGE, HeldBack
from coterie.execution.kernel.driven_run import Attempt, DrivenRun
from coterie.execution.kernel.run_tree import RunTree
from coterie.execution.kernel.turns import ask
from coterie.history.journal.records import AttemptInterrupted, AttemptLaunched, GateChecked
from coterie.team.planning.plan import AgentPlan

TIMEOUT = 600.0
"""Seconds that a gate may take, unless the agent's plan sets them."""
_ENDED = ("exit", "transient")
"""Kinds of failures of a program that ended with an exit status: 75 is transient for an action."""
OUTPUT_MOST = 1_500
"""How many characters at the end of a gate's output are kept."""


class Gates:
    """Runs the gates of all runs of one owner.

    Args:
        publish, lack: As for `Attempts`.
    """

    def __init__(
        self,
        tree: RunTree,
        inputs: AttemptInputs,
        publish: Callable[[Attempt, Event], object],
        lack: Callable[[str], object],
    ) -> None:
        self._tree, self._inputs, self._publish, self._lack = tree, inputs, publish, lack
        self._turns, self._workspace, self._cwd = tree.ports.turns, tree.ports.workspace, tree.ports.cwd

    def check(self, live: DrivenRun, turn: str) -> None:
        """Run the next gate of *turn*, or give the verdict if none is left."""
        if (held := live.core.turns[turn].gated) is None:
            return
        attempt = live.attempts.setdefault(turn, live.attempt(turn))
        if attempt.check is not None:
            return
        if (argv := held.next) is None:
            self._inputs.settle(attempt)
            return
        if argv == MERGE and not live.kind.may_merge(turn):
            return  # it is checked again when another turn ends
        shown = Tool(id=f"gate {len(held.checked) + 1}", name="gate", detail=shlex.join(argv))
        self._publish(attempt, shown)
        attempt.check = self._tree.external_reads.ask(
            partial(self._run, attempt, argv), partial(self._checked, attempt, held, argv, shown)
        )

    def interrupt(self, live: DrivenRun, turn: str) -> None:
        """End the running gate of *turn*, if there is one, and the attempt with it."""
        if (attempt := live.attempts.get(turn)) is not None and attempt.check is not None and attempt.turn.gated:
            cut = AttemptInterrupted(turn=turn, attempt=attempt.n, reason="interrupted")
            self._inputs.accept(live, cut, at_once=True)

    async def _run(self, attempt: Attempt, argv: tuple[str, ...]) -> Result:
        if argv == MERGE:
            place = place_of(attempt.live.run, attempt.name, attempt.n, attempt.agent)
            problem = await self._workspace.merge_tree(place)
            return Failure(kind="failed", reason=problem) if problem else Answer(text="")
        request = self._request(attempt, argv)
        return await ask(self._turns.start(request, partial(self._event, attempt)), lambda session: None)

    def _request(self, attempt: Attempt, argv: tuple[str, ...]) -> Request:
        live, agent = attempt.live, attempt.agent
        gate = AgentPlan(
            name=agent.name,
            kind="gate",
            backend="command",
            steps=(argv,),
            cwd=agent.cwd,
            timeout=agent.options.get("gate_timeout", TIMEOUT),
            queue=agent.queue,
            options={"sandbox": gate_sandbox([agent], agent.options.get("gate_sandbox", ""))},
        )
        place, key = attempt.place.of_gate(), attempt.key
        return Request(
            run=live.run,
            turn=attempt.name,
            attempt=attempt.n,
            agent=gate,
            prompt="",
            nodes=live.nodes,
            cwd=self._workspace.cwd(key) or self._cwd,
            here=live.here,
            repository=self._workspace.repository(key),
            epoch=live.core.epoch,
            folder=place.folder,
            root=place.root,
            team=self._workspace.team_files(key, live.top.plan, texts=True) if guards_team(gate) else (),
            clean=True,
        )

    def _event(self, attempt: Attempt, event: Event) -> None:
        if isinstance(event, Launched):
            launched = AttemptLaunched(
                turn=attempt.name, attempt=attempt.n, pid=event.pid, group=event.group, started=event.started
            )
            self._tree.external_reads.post(partial(self._inputs.accept, attempt.live, launched))

    def _checked(self, attempt: Attempt, held: HeldBack, argv: tuple[str, ...], shown: Tool, result: Result) -> None:
        live, turn = attempt.live, attempt.name
        if attempt.turn.gated is not held:
            return  # of an attempt that was cut off; a later one may have a gate here
        attempt.check = None
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
            attempt=attempt.n,
            argv=argv,
            passed=failed is None,
            status=0 if failed is None else failed.exit_code,
            reason=reason,
            output=output if len(output) <= OUTPUT_MOST else f"(…)\n{output[-OUTPUT_MOST:]}",
            seconds=round(result.usage.seconds, 3),
        )
        shown = msgspec.structs.replace(shown, state="failed" if reason else "finished", result=reason)
        self._publish(attempt, shown)
        if self._inputs.accept(live, checked) is not None:
            self.check(live, turn)
