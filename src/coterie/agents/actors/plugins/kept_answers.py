"""Keep what models answer an agent in Python during a turn, so that the turn's next attempt does not ask for it again.

An agent's handler begins anew in each attempt, so there is no conversation to go on with: a request that is equal to
one that was answered gets that answer, and equal calls of a tool the same result, each once and in the order in which
they were kept. The rules of durability and of secrets are those of `Steps`.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from coterie.agents.backends.base import OnEvent, Request, Stepped
from coterie.agents.backends.models.response import ModelResponse
from coterie.agents.backends.models.steps import AnswerLine, CallLine, HeadLine, ResultLine, Steps, digest
from coterie.agents.backends.secrets import Secrets
from coterie.history.journal.records import Usage


class KeptAnswers(Steps):
    """The kept answers and results of a turn; those of earlier attempts are given once."""

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[str, deque[ModelResponse]] = {}
        self._results: dict[str, deque[str]] = {}
        self._begun: list[str] = []
        self._report: Callable[[Stepped], object] = str
        self._n = 0

    @classmethod
    def of(cls, request: Request, secrets: Secrets, on_event: OnEvent) -> "KeptAnswers":
        """Those of the turn of *request*: none if its last attempt gave an answer that did not count."""
        continues = request.attempt > 1 and request.tail.refused != request.attempt - 1
        begin = HeadLine(library="0", model="", question=digest(request.question), tools="")
        kept = cls.open(msgspec.structs.replace(request, continues=continues, answered=0), begin, secrets)
        assert isinstance(kept, cls)
        kept._report, kept._n = on_event, request.answered
        return kept

    def _take(self, line: object) -> None:
        match line:
            case AnswerLine(messages=[[key, answer]]):
                self._answers.append([])
                self._given.setdefault(key, deque()).append(msgspec.convert(answer, ModelResponse))
            case CallLine(id=id):
                self._begun.append(id)
            case ResultLine(id=id, value=value):
                if id in self._begun:
                    self._begun.remove(id)
                self._results.setdefault(id, deque()).append(value)

    def answer(self, key: str) -> ModelResponse | None:
        """The kept answer to the request with the hash *key*."""
        return self._given[key].popleft() if self._given.get(key) else None

    async def keep(self, key: str, answer: ModelResponse, used: Usage) -> None:
        """Keep *answer*; return once it is on disk, since the agent may act on it."""
        hash = self.append(AnswerLine(messages=[[key, msgspec.to_builtins(answer)]], usage=used))
        await self.sync()
        self._n += 1
        self._report(Stepped(n=self._n, usage=used, calls=tuple(one.name for one in answer.tool_calls), hash=hash))

    def result(self, id: str) -> str | None:
        """The kept result of the call *id*."""
        return self._results[id].popleft() if self._results.get(id) else None

    async def begin_once(self, id: str) -> bool:
        """Keep that a call that is made at most once begins; False if it has begun in an earlier attempt."""
        if id in self._begun:
            self._begun.remove(id)
            return False
        self.append(CallLine(id=id))
        await self.sync()
        return True

    def keep_result(self, id: str, name: str, result: str) -> None:
        """Keep the *result* of the call *id* of the tool *name*."""
        self.append(ResultLine(id=id, name=name, arguments="", outcome="result", value=result))
