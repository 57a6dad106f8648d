"""An operator's guidance to turns of a run, kept until a turn that had it has finished.

A loop's engine does this for its iterations; here it is done for every other kind of run.
"""

from collections.abc import Iterable


class Guidance:
    """The guidance that further prompts of a run must show.

    Each attempt of a turn is given the guidance to that turn. When the turn ends, the agent's next turn is given what
    no attempt received, and all of it if the turn did not finish.
    """

    def __init__(self) -> None:
        self._by_turn: dict[str, dict[str, str]] = {}
        self._by_agent: dict[str, dict[str, str]] = {}
        self._delivered: set[tuple[str, str]] = set()

    def add(self, turn: str, message: str, text: str) -> None:
        """Add the *text* of an operator's *message* to *turn*."""
        self._by_turn.setdefault(turn, {})[message] = text

    def shown(self, turn: str, agent: str) -> list[str]:
        """The texts in the prompt of the next attempt of *turn*, which calls *agent*."""
        return list((self._by_agent.get(agent, {}) | self._by_turn.get(turn, {})).values())

    def start(self, turn: str, agent: str) -> tuple[str, ...]:
        """Give an attempt that starts now all that is `shown`; return the messages that are new to *turn*."""
        shown = self._by_agent.pop(agent, {}) | self._by_turn.get(turn, {})
        if shown:
            self._by_turn[turn] = shown
        return tuple(self.undelivered(turn))

    def deliver(self, turn: str, messages: Iterable[str]) -> None:
        """Note that an attempt of *turn* received *messages*."""
        self._delivered.update((turn, message) for message in messages)

    def undelivered(self, turn: str) -> dict[str, str]:
        """The texts by message that no attempt of *turn* received."""
        given = self._by_turn.get(turn, {})
        return {message: text for message, text in given.items() if (turn, message) not in self._delivered}

    def end(self, turn: str, agent: str, *, finished: bool) -> None:
        """Leave to the next turn of *agent* what *turn*, which has ended, did not follow."""
        left = self.undelivered(turn) if finished else self._by_turn.get(turn, {})
        if left:
            self._by_agent[agent] = self._by_agent.get(agent, {}) | left
        self._delivered -= {(turn, message) for message in self._by_turn.pop(turn, ())}
