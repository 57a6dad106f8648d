"""Questions and messages before a run: the objective, the backend, the risks, the work tree."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.base.waits import mark_shown
from coterie.errors import TopologyError, UsageError
from coterie.interfaces.cli.output import at_terminal, complain, prompt

if TYPE_CHECKING:
    from coterie.proofs.preflight import Preflight
    from coterie.team.planning.plan import AgentPlan, Limits, Plan

Ready = tuple["Plan", "Preflight | None"]


def ask_objective(preset: str, *, asks: bool) -> str:
    """Ask for the objective of *preset*.

    Raises:
        UsageError: If the user cannot be asked, or answers nothing.
    """
    answer = _line(f"What is {preset} to do? ").strip() if asks else ""
    if not answer:
        raise UsageError(f'{preset} has no objective: coterie run {shlex.quote(preset)} "…"')
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """How a command begins a run.

    Attributes:
        asks: Whether the user can be asked.
        as_json: The block is for a document, and not printed.
        yes: Do not ask: the default answer counts.
        limits: Those of the run.
        is_recorded: All models answer from a cassette.
        home: Where the run of a plan is kept.
        replan: Plans the target again, with a backend and a further setting; each may be empty.
    """

    asks: bool
    as_json: bool
    yes: bool
    limits: "Limits"
    is_recorded: bool
    home: Callable[["Plan"], Path]
    replan: Callable[[str, str], "Plan"]

    def ready(self, plan: "Plan", *, is_preset: bool) -> Ready:
        """Return *plan* with a backend and a place to work, after printing what its run may do.

        Raises:
            TopologyError: If an agent has no backend, and none is used, or its backend cannot be called.
            KeyboardInterrupt: If the user does not want the run.
        """
        from coterie.execution.runs.backend_setup import agents_of

        if without := [(name, agent) for name, agent in agents_of(plan) if not agent.backend]:
            return self._with_backend(without)
        found = self._shown(plan)
        offers_tree = is_preset and found is not None and found.worktree is None and found.uncommitted
        if offers_tree and self.asks and not self.yes:
            choices = {"": "work in these files, uncommitted changes included"}
            choices |= {"w": "work in a separate git work tree, which begins at the last commit"}
            if _choose(choices) == "w":
                return self.replan("", "worktree.enabled=true"), found
        return plan, found

    def _shown(self, plan: "Plan") -> "Preflight | None":
        home = str(self.home(plan))
        return show_risks(plan, self.limits, home, as_json=self.as_json, is_recorded=self.is_recorded)

    def _with_backend(self, without: "Sequence[tuple[str, AgentPlan]]") -> Ready:
        """A plan with this project's remembered backend, or with a ready one that the user chooses."""
        from coterie.execution.runs.backend_offers import backend_offers
        from coterie.execution.runs.backend_setup import REHEARSE, no_backend
        from coterie.team.formats.settings import remembered

        project, file = remembered.project_of(Path()), remembered.file_of(os.environ)
        if flag := remembered.backend_for(Path(), os.environ):
            complain(f"-b {flag} is remembered for {project} in {file}")
            plan = self.replan(flag, "")
            return plan, self._shown(plan)
        offers = backend_offers(without)
        ready = {one.flag: one for one in offers if not one.needs}
        if not ready or not (self.asks or self.yes):
            raise TopologyError([no_backend([name for name, _ in without], [*map(str, offers), REHEARSE])])
        flag, *others = ready
        complain(f"no backend is configured; ready here: {'; '.join(str(one.has) for one in ready.values())}")
        plan = self.replan(flag, "")
        found = self._shown(plan)
        if not self.yes:
            choices = {"": f"run with -b {flag}", "r": f"the same, and remember it for {project}"}
            chosen = _choose(choices | {other: f"run with -b {other}" for other in others})
            if chosen == "r":
                remembered.remember(Path(), flag, os.environ)
                complain(f"remembered in {file}")
            elif chosen:
                plan = self.replan(chosen, "")
        return plan, found


def show_risks(
    plan: "Plan",
    limits: "Limits",
    results: str,
    *,
    folder: Path | None = Path(),
    on_nodes: bool = False,
    as_json: bool,
    is_recorded: bool = False,
) -> "Preflight | None":
    """Print what a run of *plan* may do: on a terminal if it costs or changes something, else if it costs.

    Args:
        results: Where it is kept.
        folder, on_nodes: See `coterie.proofs.preflight.preflight`.
        as_json, is_recorded: See `Beginning`.

    Raises:
        TopologyError: If a backend cannot be called here, where it is to be called.
    """
    from coterie.execution.runs.backend_setup import check_ready, spends
    from coterie.interfaces.cli.text.preflight import before

    asks = not as_json and at_terminal()
    if not (asks or as_json or spends(plan, is_recorded=is_recorded)):
        return None  # which saves the time that it takes
    if not on_nodes:
        check_ready(plan, is_offline=is_recorded)
    from coterie.proofs.preflight import preflight

    found = preflight(plan, limits, folder, results, on_nodes=on_nodes, is_recorded=is_recorded)
    if (found.spends or (found.acts and asks)) and not as_json:
        complain(before(found))
    return found


def _choose(choices: Mapping[str, str]) -> str:
    """Ask for one of *choices*, which are by the word to type; `n` raises KeyboardInterrupt."""
    choices = {**choices, "n": "do not run"}
    width = max(len("Enter"), *map(len, choices))
    complain("\n".join(f"{word or 'Enter':{width}}  {what}" for word, what in choices.items()))
    while (answer := _line("> ").strip().lower()) not in choices:
        complain(f"{answer!r} is none of {', '.join(word or 'Enter' for word in choices)}")
    if answer == "n":
        raise KeyboardInterrupt
    return answer


def _line(shown: str) -> str:
    """The line that the user types."""
    mark_shown()
    prompt(shown)
    if not (line := sys.stdin.readline()):
        complain("")
        raise KeyboardInterrupt
    return line
