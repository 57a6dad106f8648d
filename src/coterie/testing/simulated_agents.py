"""Simulated agents of known accuracy: find out what a pattern would gain before calling a model.

Every question has one right answer, `[right]`, and some wrong ones, `[wrong 1]`, …. The answer of an agent follows from
its skill, from the answers it sees, and from draws that depend only on the seed, the question, the agent and its turn:
two variants of a team get the same questions and draws, whatever their order of calls. `Assumptions` lists all
assumptions. Nothing else is assumed about the agents, in particular not whether an argument could convince them.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from coterie.agents.backends.base import Answer, Failure, OnEvent, Request, Result, Session
from coterie.agents.backends.pending import Pending
from coterie.agents.backends.scripted import path_of
from coterie.errors import UsageError
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import AgentPlan, Plan, Wanted

RIGHT = "[right]"
"""The right answer to every question."""

_ANSWER = re.compile(r"\[(?:right|wrong \d+)\]")
_AGREES = "agreement: 1"
_PROPONENT, _OPPONENT, _PRIMARY, _AGGREGATOR = "proponent", "opponent", "primary", "aggregator"
"""The slots whose agents do not just answer."""
_COUNTED = re.compile(r"_\d+\Z")
_EIGHT = struct.Struct("<8Q")


class Skill(Struct, frozen=True):
    """The skill of one agent.

    Attributes:
        accuracy: The probability of a right answer; for a judge, of approving a right one; for a chooser, of choosing
            the right one.
        rejects: The probability of rejecting a wrong answer; None: equal to *accuracy*.
    """

    accuracy: float
    rejects: float | None = None

    def __post_init__(self) -> None:
        _within("an accuracy", self.accuracy)
        _within("how often a wrong answer is rejected", 0.0 if self.rejects is None else self.rejects)


class Assumptions(Struct, frozen=True, kw_only=True):
    """The assumptions about the agents of a team.

    Attributes:
        skill: The skill of every slot.
        skills: The skills of single slots, by name (`checker` also applies to `checker_0`, `checker_1`, …), or
            `sub/slot` in a team at a slot.
        correlation: The probability that one draw answers a question for all agents.
        habit: The probability that an agent repeats its answer to a question in every turn.
        wrong: The number of different wrong answers; with 1, all errors agree.
        bias: The probability that a chooser takes the first answer it reads, whatever it is.
        conformity: The probability that an agent adopts an answer it is shown; in a debate, that a side gives in.
        overconfidence: The excess of stated confidence over accuracy: 0 is calibrated, 1 is always certain.
        failures: The probability that an attempt fails.
    """

    skill: Skill
    skills: Mapping[str, Skill] = {}
    correlation: float = 0.0
    habit: float = 0.0
    wrong: int = 1
    bias: float = 0.0
    conformity: float = 0.0
    overconfidence: float = 0.0
    failures: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.skill, Skill):
            raise UsageError(f"skill must be a Skill(accuracy), not {self.skill!r}")
        for name in ("correlation", "habit", "bias", "conformity", "overconfidence", "failures"):
            _within(name, getattr(self, name))
        if self.wrong < 1:
            raise UsageError(f"wrong must be at least 1, not {self.wrong}")

    def of(self, path: str) -> Skill:
        """The skill at *path*: that of the first of its names with one, else the skill of every slot."""
        return next((self.skills[name] for name in names_of(path) if name in self.skills), self.skill)


def names_of(path: str) -> tuple[str, ...]:
    """The names of the slot at *path* for skills: `sub/checker_1`, `checker_1`, `checker`."""
    slot = path.rpartition("/")[2]
    return path, slot, _COUNTED.sub("", slot)


class SimulatedTurn(Struct, frozen=True, gc=False):
    """The turn of a simulated agent.

    Attributes:
        question: The question of the whole run.
        path: The agent: its slot, or `sub/slot` in a team at a slot.
        pattern: The type of its pattern; empty: none.
        turn, attempt: The number of its turn, and of the attempt.
        prompt: Without the chat before.
        wanted: The requested JSON.
    """

    question: str
    path: str
    pattern: str
    turn: int
    attempt: int
    prompt: str
    wanted: tuple[Wanted, ...] = ()


class SimulatedAgents:
    """Answers for all agents of *plan* by *assumptions*; a backend, and a plain function of a turn.

    As a backend it identifies the question by the id of the root run.

    Args:
        seed: Equal seeds give equal answers.
    """

    def __init__(self, plan: Plan, assumptions: Assumptions, seed: int = 0) -> None:
        self._plan, self._assumptions, self._seed = plan, assumptions, seed

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Answer one attempt at once."""
        path = path_of(request)
        asked = SimulatedTurn(
            question=request.run.partition("/")[0],
            path=path,
            pattern=_pattern_at(self._plan, path.split("/")),
            turn=turn_number(request.turn),
            attempt=request.attempt,
            prompt=request.latest,
            wanted=request.wanted or request.agent.outputs,
        )
        session = Pending()
        session.settle(self.says(asked))
        return session

    async def close(self) -> None:
        """Do nothing: it holds no resources."""

    def says(self, asked: SimulatedTurn) -> Result:
        """Return the answer of the agent, or the failure of its attempt."""
        draw = _Draws(f"{self._seed}/{asked.question}/{asked.path}#{asked.turn}.{asked.attempt}")
        if draw.failure < self._assumptions.failures:
            return Failure(kind="failed", reason="this attempt was drawn to fail")
        shared = _Draws(f"{self._seed}/{asked.question}")
        if self._assumptions.habit:
            draw.follow(_Draws(f"{self._seed}/{asked.question}/{asked.path}"), self._assumptions.habit)
        draw.follow(shared, self._assumptions.correlation)
        return Answer(text=self._reply(asked, draw, proponent_is_right=shared.side < 0.5))

    def _reply(self, asked: SimulatedTurn, draw: "_Draws", proponent_is_right: bool) -> str:
        """The reply, by the agent's role in its pattern."""
        slot, skill = asked.path.rpartition("/")[2], self._assumptions.of(asked.path)
        names = {want.name for want in asked.wanted}
        shown = _ANSWER.findall(asked.prompt)
        if "approved" in names:
            return self._verdict(skill, draw, shown)
        if "route_to" in names:
            slots = next(want.values for want in asked.wanted if want.name == "route_to")
            return _json({"route_to": slots[int(draw.which * len(slots))]})
        if "subtasks" in names:
            return _json({"approach": "by halves", "subtasks": ["the first half", "the second half"]})
        match asked.pattern:
            case "debate" if "answer" not in names:
                if slot in (_PROPONENT, _OPPONENT):
                    stands = RIGHT if (slot == _PROPONENT) == proponent_is_right else "[wrong 1]"
                    gives_in = shown and draw.conform < self._assumptions.conformity
                    agrees = gives_in or _AGREES in asked.prompt  # with a side that gave in
                    return f"It is {stands}.\n{_AGREES if agrees else 'agreement: 0'}"
                chosen = self._choose(skill, draw, shown)
                winner = _PROPONENT if (chosen == RIGHT) == proponent_is_right else _OPPONENT
                return f"SUMMARY: both were heard\nVERDICT: {winner}\nCONCLUSION: {chosen}"
            case _ if slot == _AGGREGATOR:
                return self._choose(skill, draw, shown)
            case "chain" | "pipeline" | "delegation" | "compound":
                return self._work(skill, draw, shown)
            case _:
                others = shown if slot != _PRIMARY else []  # a primary is shown the issues of its own answer
                return self._answer(skill, draw, others, names)

    def _answer(self, skill: Skill, draw: "_Draws", shown: Sequence[str], names: set[str]) -> str:
        """The agent's answer, or one it was shown."""
        said = self._own(skill, draw)
        if shown and draw.conform < self._assumptions.conformity:
            said = shown[int(draw.pick * len(shown))]
        return _json({"answer": said, "confidence": self._sure(skill.accuracy)}) if "answer" in names else said

    def _work(self, skill: Skill, draw: "_Draws", shown: Sequence[str]) -> str:
        """The agent's part of the work, which is right if the agent and all its inputs are right."""
        return next((one for one in shown if one != RIGHT), None) or self._own(skill, draw)

    def _own(self, skill: Skill, draw: "_Draws") -> str:
        if draw.answer < skill.accuracy:
            return RIGHT
        return f"[wrong {int(draw.which * self._assumptions.wrong) + 1}]"

    def _verdict(self, skill: Skill, draw: "_Draws", shown: Sequence[str]) -> str:
        """The verdict on the answer that the agent is shown, the first in its prompt."""
        rejects = skill.accuracy if skill.rejects is None else skill.rejects
        approved = draw.verdict < skill.accuracy if shown[:1] == [RIGHT] else draw.verdict >= rejects
        issues = [] if approved else ["it is wrong"]
        sure = self._sure(skill.accuracy if approved else rejects)
        return _json({"approved": approved, "confidence": sure, "issues": issues, "feedback": ""})

    def _choose(self, skill: Skill, draw: "_Draws", shown: Sequence[str]) -> str:
        """One of the answers that the agent is shown: the first one by bias, else the right one with its accuracy."""
        if not shown:
            return self._own(skill, draw)
        if draw.bias < self._assumptions.bias:
            return shown[0]
        others = [one for one in dict.fromkeys(shown) if one != RIGHT]
        if not others or (RIGHT in shown and draw.answer < skill.accuracy):
            return RIGHT
        return others[int(draw.which * len(others))]

    def _sure(self, accuracy: float) -> float:
        return round(accuracy + self._assumptions.overconfidence * (1 - accuracy), 4)


def is_right(text: str) -> bool:
    """Whether *text* gives the right answer, and no other."""
    return set(_ANSWER.findall(text)) == {RIGHT}


def turn_number(turn: str) -> int:
    """The number of *turn* among its agent's turns."""
    return int(turn.rpartition("#")[2])


class _Draws:
    """Numbers from 0 to 1, each for one purpose, derived from a name alone."""

    __slots__ = ("answer", "bias", "conform", "failure", "pick", "side", "together", "verdict", "which")

    def __init__(self, name: str) -> None:
        numbers = [(n >> 11) * 2.0**-53 for n in _EIGHT.unpack(blake2b(name.encode()).digest())]
        self.answer, self.which, self.verdict, self.bias, self.conform, self.pick, self.failure, self.side = numbers
        self.together = self.failure  # what a question has, and no attempt

    def follow(self, other: "_Draws", often: float) -> None:
        """Answer and judge like *other*, with the probability *often*."""
        if other.together < often:
            self.answer, self.which, self.verdict = other.answer, other.which, other.verdict


def _pattern_at(plan: Plan, path: Sequence[str]) -> str:
    """The type of the pattern that contains the agent at *path*."""
    for name in path[:-1]:
        agent: AgentPlan | None = plan.agents.get(name)
        if agent is None or agent.child is None:
            return ""
        plan = agent.child
    return plan.coordination.type if isinstance(plan.coordination, PatternPlan) else ""


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode()


def _within(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UsageError(f"{name} is {value:g}; it must be from 0 to 1")
