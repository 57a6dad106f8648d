"""A chain of command: the top plans, lower levels divide the work, the last does it, the top combines the results.

The subtasks of one level run at once, each on the slot of that level with the fewest subtasks. A subtask that fails, is
blocked or has too little confidence is escalated once to its superior, which answers itself or reassigns it. When the
top combines the results, it gets a list of the parts that are still not done.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta

from coterie.base.diagnostics import Severity
from coterie.history.engines.patterns import structured
from coterie.history.engines.patterns.registry import Calls, Team, pattern
from coterie.history.engines.patterns.result import PatternResult, SlotFailure, loss, one_kind, said
from coterie.history.engines.patterns.shown import as_json
from coterie.history.engines.patterns.structured import Answered
from coterie.history.engines.questions import AgentFailed, Conversation, PatternFailed, Question, Tell, Together
from coterie.history.journal.records import TurnFinished
from coterie.patterns.builtin.chain_jobs import CUT, Strategy, Subtask, SubtaskResult, failures, leaves, parts, tree
from coterie.patterns.constructors import Filler, called_as, make_team
from coterie.team.planning.plan import Wanted
from coterie.team.topology.model import ArrowGroup, Topology
from coterie.team.topology.patterns import faults
from coterie.team.topology.patterns.configs import Config, Positive, Share, arrow
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import task_of
from coterie.team.topology.patterns.kinds import PatternSpec


class ChainSettings(Config, frozen=True, kw_only=True):
    """Levels of a chain of command, delegation depth and escalation.

    Attributes:
        authority_levels: From the top down; a slot belongs to the level it is named after (`worker_2`).
        escalation_threshold: A result with less confidence goes back to the delegating agent.
        max_delegation_depth: How often a task may be delegated further.
        max_subtasks: Maximum subtasks of one plan; further ones are ignored.
        max_concurrency: Maximum subtasks of one level that run at once; None: unlimited.
    """

    authority_levels: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)] = (
        "commander",
        "lieutenant",
        "worker",
    )
    escalation_threshold: Share = 0.5
    max_delegation_depth: Positive = 3

    max_subtasks: Positive = 10
    max_concurrency: Positive | None = None

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Check that a chain has an agent at the top level and one at a lower level."""
        levels = self.authority_levels
        if repeated := [level for level in dict.fromkeys(levels) if levels.count(level) > 1 or not level]:
            message = f"authority_levels must be different names, but repeats {', '.join(map(repr, repeated))}"
            yield Fault("bad-config", message, "config.authority_levels")
            return
        found = by_level(levels, names)
        if not found[levels[0]]:
            hint = f"name a slot {levels[0]!r}"
            yield Fault("missing-slot", f"No agent assigned to top level: {levels[0]}", "slots", hint=hint)
        if len(levels) > 1 and not any(found[level] for level in levels[1:]):
            message = f"no level below {levels[0]!r} has an agent to do the work"
            yield Fault("missing-slot", message, "slots", hint=f"name a slot {levels[-1]!r}")
        else:
            for level in levels[1:]:
                if not found[level]:
                    message = f"no slot belongs to level {level!r}, which is skipped"
                    yield Fault("empty-level", message, "config.authority_levels", Severity.WARNING)
        yield from faults.foreign("Chain of command", names, [name for level in found.values() for name in level])

    def handoffs(self, names: Sequence[str]) -> Iterator[ArrowGroup]:
        """The arrows between slots: which slot passes work to which."""
        levels = [slots for slots in by_level(self.authority_levels, names).values() if slots]
        for above, below in pairwise(levels):
            for name in above:
                yield arrow(name, below, what="delegates")
        for name in levels[-1] if len(levels) > 1 else ():
            yield arrow(name, levels[0][:1], 1, "results")


def by_level(levels: Sequence[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The slots of each level: those named after it, `worker` or `worker_2`, the longest level's name first."""
    longest = sorted(levels, key=len, reverse=True)
    found: dict[str, list[str]] = {level: [] for level in levels}
    for name in names:
        for level in longest:
            if name == level or name.startswith(f"{level}_"):
                found[level].append(name)
                break
    return {level: tuple(slots) for level, slots in found.items()}


_NAMED = 20
"""The number of subtasks beyond the limit that a message names."""

_SPLIT = (Wanted(name="subtasks", type="list"),)
_PLAN = (
    Wanted(name="approach", type="text", declared=False),
    *_SPLIT,
    Wanted(name="success_criteria", type="list", declared=False),
)
_APPROACH = (Wanted(name="approach", type="text"),)
_REASSIGN = (Wanted(name="reassign_to", type="text", declared=False),)

_Work = Generator[Question | Together | Tell, Any, None]


class ChainResult(PatternResult, frozen=True, kw_only=True):
    """The result of a chain of command.

    Attributes:
        level_results: The results as a tree: `slot:task` maps to the results below it, or to task, result and
            confidence.
        parts: The same as a list, each part after its parent.
    """

    task: str
    strategy: Strategy
    level_results: dict[str, Any]
    final_result: str
    parts: tuple[SubtaskResult, ...]


@called_as('chain_of_command({"commander": …, "worker_1": …})')
def chain_of_command(
    slots: Mapping[str, Filler], /, *, name: str = "chain", description: str = "", **config: Any
) -> Topology:
    """Upper levels plan and delegate, lower ones work; the input is a `task`.

    Args:
        slots: The agents, each named after its level: `commander`, `lieutenant_1`, `worker_2`.
        config: Fields of `ChainConfig`: `authority_levels`, `escalation_threshold`, …
    """
    return make_team("chain", slots, config, name, description)


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: the top plans and combines; each subtask takes one turn, or at most four when escalated.

    Args:
        subtasks: The number of subtasks at each level below the top; by default one for each slot there, and at most as
            many as the configuration allows.
    """
    config: ChainSettings = team.config
    top, ranks = _ranks(config, team.slots)
    given: Sequence[int] | None = numbers.get("subtasks")
    if given is not None:
        usual = most = [*given, *([0] * len(ranks))]
    else:
        usual = [min(len(slots), config.max_subtasks) for _, slots in ranks]
        most = [config.max_subtasks**n for n in range(1, len(ranks) + 1)]
    counted = Calls({top: 2}, {top: 2 + structured.REPAIRS + most[0]})
    for depth, (_, slots) in enumerate(ranks):
        below = most[depth + 1] if depth + 1 < len(ranks) else 0
        asked = 1 + structured.REPAIRS if below else 1
        for n, slot in enumerate(slots):
            own, first = _share(usual[depth], n, len(slots)), _share(most[depth], n, len(slots))
            counted.usual[slot] = counted.usual.get(slot, 0) + own
            counted.most[slot] = counted.most.get(slot, 0) + asked * (first + most[depth]) + below
    return counted


SPEC = PatternSpec(
    "chain",
    "Chain of command",
    ChainSettings,
    "A commander plans, others work, the commander combines the results.",
    keys=("task",),
    results=(ChainResult,),
    roles={"commander": "coordinator"},
)


@pattern(SPEC, calls=calls)
def play(team: Team, given: dict[str, Any]) -> Conversation:
    """Plan, delegate level by level, and combine the results."""
    config: ChainSettings = team.config
    task = task_of(SPEC.keys, given)
    top, ranks = _ranks(config, team.slots)
    command = _Command(team, config, task)
    strategy = yield from command.plan(top)
    jobs = layer = command.jobs(strategy.subtasks, top)
    for depth, (level, slots) in enumerate(ranks, 1):
        last = depth == len(ranks)
        yield from command.assign(layer, level, slots, depth)
        yield from command.carry_out(layer, slots, depth, last=last)
        layer = [below for job in layer for below in job.jobs]
        if not layer:
            break
    if not any(job.result for job in leaves(jobs)):
        reasons = "; ".join(f"{job.slot}: {job.failed}" for job in leaves(jobs))
        raise PatternFailed(f"no part of the task was done: {reasons}", one_kind(failures(jobs)))
    results = tree(jobs)
    cut = (SlotFailure(top, CUT, command.cut),) if command.cut else ()
    lost = (*cut, *failures(jobs))
    final: TurnFinished = yield Question(top, _synthesis_prompt(task, strategy, results, lost))
    return ChainResult(
        text=final.text,
        task=task,
        strategy=strategy,
        level_results=results,
        final_result=final.text,
        parts=tuple(parts(jobs)),
        failures=(*lost, *command.tolerated),
        warnings=(*_warnings(config, team.slots), *command.warnings),
    )


class _Command:
    """Distributes the work on *task* in one run, and tracks the load of each slot.

    Attributes:
        cut: The message about subtasks of the top beyond the limit.
        tolerated: Failures after which an earlier outcome counts.
    """

    def __init__(self, team: Team, config: ChainSettings, task: str) -> None:
        self._team, self._config, self._task = team, config, task
        self._load = dict.fromkeys(team.slots, 0)
        self.cut = ""
        self.tolerated: list[SlotFailure] = []
        self.warnings: list[str] = []

    def plan(self, top: str) -> Generator[Question | Together | Tell, Any, Strategy]:
        """Ask the top for a strategy; an answer in prose becomes its approach, and the task stays whole.

        A plan without subtasks is one subtask, its approach.
        """
        question = Question(top, _plan_prompt(self._task))
        answer = yield from structured.ask(question, _PLAN, prose=True, instead=_APPROACH)
        value = self._value(top, answer)
        subtasks, self.cut = self._counted(value, value.get("approach", "").strip() or self._task)
        return Strategy(
            approach=value.get("approach", "" if value else answer.reply.text),
            subtasks=subtasks,
            success_criteria=tuple(value.get("success_criteria", ())),
        )

    def jobs(self, subtasks: Sequence[str], superior: str, parent: str = "") -> list[Subtask]:
        """The subtasks that *superior* delegates."""
        prefix = f"{parent}." if parent else ""
        return [
            Subtask(id=f"{prefix}{n}", task=task, superior=superior, parent=parent)
            for n, task in enumerate(subtasks, 1)
        ]

    def assign(self, jobs: Sequence[Subtask], level: str, slots: Sequence[str], depth: int) -> _Work:
        """Give each subtask to the slot of *slots* with the fewest."""
        for job in jobs:
            job.level = level
            yield from self._give(job, min(slots, key=self._load.__getitem__), depth)

    def carry_out(self, jobs: Sequence[Subtask], slots: Sequence[str], depth: int, *, last: bool) -> _Work:
        """Let the slots of one level do or divide the subtasks, all at once; escalate each failure once."""
        yield from self._ask(jobs, last=last)
        stuck = [job for job in jobs if job.trouble and job.superior != job.slot]
        for job in stuck:
            job.escalated = job.trouble
            yield Tell(job.slot, job.superior, "escalation", {"task": job.task, "reason": job.trouble}, depth)
        questions = [Question(job.superior, _escalation_prompt(job, slots)) for job in stuck]
        replies = yield Together(*questions, most=self._config.max_concurrency)
        again: dict[str, Subtask] = {}
        for job, reply in zip(stuck, replies, strict=True):
            if (lost := loss(reply)) is not None:
                kind, reason = lost
                self.tolerated.append(SlotFailure(job.superior, kind, f"{job.task}: {reason}"))
                continue
            named = (structured.parse(reply, _REASSIGN) or {}).get("reassign_to")
            if named is not None:
                again[job.id] = job
                yield from self._give(job, self._other(named.strip(), job.slot, slots), depth)
            else:
                job.result, job.confidence = said(reply), structured.confidence(reply)
                job.answered_by, job.failed, job.jobs = job.superior, "", []
        yield from self._ask(list(again.values()), last=last)

    def _other(self, named: str, had: str, slots: Sequence[str]) -> str:
        """The slot that tries again: the *named* one, else one other than *had*, if possible."""
        if named in slots:
            return named
        return min([slot for slot in slots if slot != had] or slots, key=self._load.__getitem__)

    def _give(self, job: Subtask, slot: str, depth: int) -> _Work:
        job.slot = slot
        self._load[slot] += 1
        yield Tell(job.superior, slot, "request", {"task": job.task, "type": "delegation"}, depth)

    def _ask(self, jobs: Sequence[Subtask], *, last: bool) -> _Work:
        """Ask the slots of *jobs* to do or divide them; an earlier result stays if this attempt gives none."""
        most = self._config.max_concurrency
        if last:
            replies = yield Together(*(self._to_do(job) for job in jobs), most=most)
            for job, reply in zip(jobs, replies, strict=True):
                if (came := self._usable(job, reply)) is not None:
                    job.result, job.confidence, job.done_by = said(came), structured.confidence(came), job.slot
            return
        questions = [Question(job.slot, _split_prompt(job.task, self._task)) for job in jobs]
        answers = yield from structured.ask_all(questions, _SPLIT, most=most, prose=True)
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, AgentFailed):
                self._usable(job, answer)
            elif self._usable(job, answer.reply) is not None:
                subtasks, job.cut = self._counted(self._value(job.slot, answer), job.task)
                job.jobs, job.done_by = self.jobs(subtasks, job.slot, job.id), job.slot

    def _to_do(self, job: Subtask) -> Question:
        return Question(job.slot, _work_prompt(job.task, self._task), given={self._team.keys(job.slot)[0]: job.task})

    def _usable(self, job: Subtask, reply: TurnFinished | AgentFailed) -> TurnFinished | None:
        """Return *reply* if it is usable; otherwise record its fault in *job*."""
        if (lost := loss(reply)) is not None:
            kind, job.trouble = lost
            if job.has_something:
                self.tolerated.append(SlotFailure(job.slot, kind, f"{job.task}: {job.trouble}"))
            else:
                job.failed, job.kind = job.trouble, kind
            return None
        assert isinstance(reply, TurnFinished)
        sure, least = structured.confidence(reply), self._config.escalation_threshold
        unsure = sure is not None and sure < least
        job.failed, job.trouble = "", f"confidence {sure:g} is below {least:g}" if unsure else ""
        return reply

    def _value(self, slot: str, answer: Answered) -> Mapping[str, Any]:
        """The plan in *answer*; empty without one, with a warning unless the answer is prose."""
        if answer.value is None and answer.asked > 1:
            self.warnings.append(f"{slot} gave no readable plan, so its task was not divided: {answer.fault}")
        return answer.value or {}

    def _counted(self, value: Mapping[str, Any], task: str) -> tuple[tuple[str, ...], str]:
        """The subtasks of a plan within the limit, and a message about the rest; without any, the task itself."""
        found = [one for one in value.get("subtasks", ()) if one.strip()] or [task]
        most = self._config.max_subtasks
        lost = ", ".join(found[most : most + _NAMED])
        more = f" and {len(found) - most - _NAMED} more" if len(found) > most + _NAMED else ""
        message = f"{len(found)} subtasks, of which {most} count; not done: {lost}{more}" if lost else ""
        return tuple(found[:most]), message


def _share(jobs: int, n: int, hands: int) -> int:
    """The number of *jobs* that the *n*-th of *hands* slots gets when they are dealt out in turn."""
    return max(0, -((n - jobs) // hands))


def _ranks(config: ChainSettings, names: Sequence[str]) -> tuple[str, list[tuple[str, tuple[str, ...]]]]:
    """The top, and the levels below it that have slots, down to the maximal depth; a single level is its own top."""
    found = by_level(config.authority_levels, names)
    (first, tops), *lower = found.items()
    if not lower:
        return tops[0], [(first, tops)]
    return tops[0], [(level, slots) for level, slots in lower if slots][: config.max_delegation_depth]


def _warnings(config: ChainSettings, names: Sequence[str]) -> Iterator[str]:
    found = by_level(config.authority_levels, names)
    for level, slots in found.items():
        if not slots:
            yield f"no slot belongs to level {level!r}, which was skipped"
    filled = [level for level, slots in list(found.items())[1:] if slots]
    for level in filled[config.max_delegation_depth :]:
        yield f"level {level!r} had no work: max_delegation_depth is {config.max_delegation_depth}"


def _plan_prompt(task: str) -> str:
    """The prompt for a strategy."""
    return (
        f"You command a team. This is its task:\n\n{task}\n\n"
        "Say how you go about it, which subtasks the team is to do, independent of each other, and how you will know "
        "that it is done. Answer with JSON:\n"
        '{"approach": "…", "subtasks": ["…", "…"], "success_criteria": ["…"]}'
    )


def _split_prompt(task: str, whole: str) -> str:
    """The prompt that divides *task*, a part of the *whole*."""
    return (
        f"You were given this task to coordinate:\n\n{task}\n\n{_part_of(task, whole)}"
        "Divide it into pieces of work for your people, independent of each other. Answer with JSON:\n"
        '{"subtasks": ["…", "…"]}\n'
        "If it cannot be done, begin your answer with `BLOCKED:` and say why."
    )


def _work_prompt(task: str, whole: str) -> str:
    """The prompt to do *task*, a part of the *whole*."""
    return (
        f"This task is yours:\n\n{task}\n\n{_part_of(task, whole)}"
        "Do it, and give the result with all that matters about it. If you can tell how sure you are, end with a line "
        "`confidence: X`, X from 0 to 1. If you cannot do it, begin your answer with `BLOCKED:` and say why."
    )


def _escalation_prompt(job: Subtask, slots: Sequence[str]) -> str:
    """The prompt to the superior of an escalated subtask."""
    what = job.result or "\n".join(f"- {below.task}" for below in job.jobs)
    came = f"\n\nThis is what came:\n\n{what}" if what else ""
    return (
        f"You gave this task to {job.slot}:\n\n{job.task}\n\nIt came back: {job.escalated}.{came}\n\n"
        "Either do it yourself and answer with the result, or have somebody try again and answer with nothing but "
        f'JSON: {{"reassign_to": "one of {", ".join(slots)}"}}.'
    )


def _synthesis_prompt(
    task: str, strategy: Strategy, results: Mapping[str, Any], failures: Sequence[SlotFailure]
) -> str:
    """The prompt to combine *results*, which names the missing parts."""
    parts = [f"This was the task:\n\n{task}"]
    if strategy.approach:
        parts.append(f"You went about it like this:\n\n{strategy.approach}")
    if strategy.success_criteria:
        parts.append("It is done when:\n\n" + "\n".join(f"- {one}" for one in strategy.success_criteria))
    parts.append(f"Your team's results, as JSON:\n\n{as_json(results)}")
    if failures:
        lost = "\n".join(f"- {one.slot}: {one.reason}" for one in failures)
        parts.append(f"These parts were not done; say so where it matters:\n\n{lost}")
    parts.append("Put them together into the final result.")
    return "\n\n".join(parts)


def _part_of(task: str, whole: str) -> str:
    return "" if task == whole else f"It is a part of this task:\n\n{whole}\n\n"
