"""The order in which a rehearsal takes a way by itself: each turn lasts a second, and who starts first ends first."""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence

from coterie.proofs.state import Started, Step
from coterie.proofs.system import FlowSystem


def unforced(system: FlowSystem, way: Sequence[Step]) -> list[Step] | None:
    """The steps of *way* as they come when nobody takes longer than others; None: it would be another run then.

    The same turns must be answered alike, start on the same marks and fire the same arrows.
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
    """What a way shows, but for the order: every turn that starts, and what every turn that ends leads to."""
    started = Counter([*begins, *(turn for step in steps for turn in step.started)])
    ended = Counter(step._replace(started=(), over="") for step in steps)
    return started, ended, steps[-1].over if steps else ""
