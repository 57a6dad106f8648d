"""The natural order of a rehearsal: each turn lasts a second, and turns end in the order of their starts."""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence

from coterie.proofs.state import Started, Step
from coterie.proofs.system import FlowSystem


def unforced(system: FlowSystem, way: Sequence[Step]) -> list[Step] | None:
    """The steps of *way* in natural order; None if that would be another run.

    The same turns must have the same answers, start on the same marks and fire the same arrows.
    """
    answers: dict[int, deque[Step]] = {}
    for step in way:
        answers.setdefault(step.node, deque()).append(step)
    begins, state = system.start()
    running = deque(turn.node for turn in begins)  # in the order in which they end
    found: list[Step] = []
    while running:
        wanted = answers.get(running[0])
        if not wanted:
            return None
        said = _said(wanted.popleft())
        for step, after in system.steps(state, [running.popleft()]):
            if _said(step) == said:
                found.append(step)
                running.extend(turn.node for turn in step.started)
                state = after
                break
        else:
            return None
        if found[-1].over:
            break
    return found if _shows(begins, found) == _shows(begins, way) else None


def _said(step: Step) -> Hashable:
    return step.place, step.how, step.answer


def _shows(begins: Iterable[Started], steps: Sequence[Step]) -> object:
    """The order-independent content of a path: every turn that starts, and the effects of every turn that ends."""
    started = Counter([*begins, *(turn for step in steps for turn in step.started)])
    ended = Counter(step._replace(started=(), over="") for step in steps)
    return started, ended, steps[-1].over if steps else ""
