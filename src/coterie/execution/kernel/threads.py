"""Show agents the thread that their run continues.

The run's first record has it (`ThreadStart`), so that a prompt follows from the journal. An agent with `thread: true`
is shown the earlier inputs and its own answers, the newest first until `thread-budget` is spent: a model as messages,
a coding agent by its session or as a section of its prompt, any other as such a section.
"""

from collections.abc import Mapping, Sequence

from coterie.agents.backends.base import PastExchange
from coterie.execution.kernel.fold import Fold
from coterie.history.engines.commands import Ask
from coterie.history.journal.records import ThreadExchange
from coterie.team.options.agents import OPTIONS
from coterie.team.planning.plan import AgentPlan


def readers(agents: Mapping[str, AgentPlan]) -> dict[str, int]:
    """The agents that read the thread of their run, each with its budget in characters."""
    budget = OPTIONS["thread_budget"].default
    return {
        name: agent.options.get("thread_budget", budget)
        for name, agent in agents.items()
        if agent.options.get("thread") is True
    }


def shown(fold: Fold, role: str) -> tuple[PastExchange, ...]:
    """The earlier exchanges that the agent *role* is shown, oldest first."""
    if fold.thread is None or (budget := readers(fold.agents).get(role)) is None:
        return ()
    return within(fold.thread.exchanges, role, budget)


def within(exchanges: Sequence[ThreadExchange], role: str, budget: int) -> tuple[PastExchange, ...]:
    """The latest of *exchanges*, as many as *budget* characters hold; of the very latest, what they hold of it."""
    found: list[PastExchange] = []
    for one in reversed(exchanges):
        said, answer = one.prompt, one.answers.get(role, "")
        if not found:
            said, answer = _cut(said, budget // 2), _cut(answer, budget - min(len(said), budget // 2))
        budget -= len(said) + len(answer)
        if budget < 0:
            break
        found.append(PastExchange(run=one.run, prompt=said, answer=answer))
    return tuple(reversed(found))


def session_for(fold: Fold, ask: Ask) -> str:
    """The session of the thread in which the first turn of an agent goes on; empty: it has none.

    A fork begins its own: the original may have gone on in that of the thread.
    """
    first, thread = fold.started, fold.thread
    if first is None or thread is None or first.forked_from is not None or not ask.turn.endswith("#1"):
        return ""
    return thread.sessions.get(ask.role, "") if ask.role in readers(fold.agents) else ""


def _cut(text: str, most: int) -> str:
    """*text* with at most *most* characters, the note on what is left out included where there is room for it."""
    if len(text) <= most:
        return text
    note = f"\n… {len(text) - most} more characters"
    return text[: most - len(note)] + note if most > 2 * len(note) else text[:most]
