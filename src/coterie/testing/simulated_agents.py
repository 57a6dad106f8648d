"""Agents that know how often they are right: what a pattern would buy, found out before a model is asked.

Every question has one right answer, `[right]`, and some wrong ones, `[wrong 1]`, …. What an agent says follows from its
skill, from what it is shown, and from draws that depend on the seed, the question, the agent and its turn alone: two
variants of a team meet the same questions in the same mood, whoever is asked first. What is assumed is in
`Assumptions`; nothing else is known about the agents, least of all whether an argument could convince them.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from coterie.backends.base import Answer, Failure, OnEvent, Request, Result, Session
from coterie.backends.pending import Pending
from coterie.backends.scripted import path_of
from coterie.errors import UsageError
from coterie.planning.pattern import PatternPlan
from coterie.planning.plan import AgentPlan, Plan, Wanted
from coterie.topology.patterns.slots import AGGREGATOR, PRIMARY, SIDES

RIGHT = "[right]"
"""The right answer to every question."""

_ANSWER = re.compile(r"\[(?:right|wrong \d+)\]")
_COUNTED = re.compile(r"_\d+\Z")
_PROPONENT, _OPPONENT = SIDES
_EIGHT = struct.Struct("<8Q")


class Skill(Struct, frozen=True):
    """What one agent can do.

    Attributes:
        accuracy: How often it answers right; where it judges, how often it approves what is right; where it chooses
            among answers, how often it takes the right one.
        rejects: How often it rejects what is wrong; None: as often as *accuracy*.
    """

    accuracy: float
    rejects: float | None = None

    def __post_init__(self) -> None:
        _within("an accuracy", self.accuracy)
        _within("how often a wrong answer is rejected", 0.0 if self.rejects is None else self.rejects)


class Assumptions(Struct, frozen=True, kw_only=True):
    """What is taken for granted about the agents of a team.

    Attributes:
        skill: That of every slot.
        skills: That of single slots, by name (`checker` is that of `checker_0`, `checker_1`, … as well), or `sub/slot`
            in a team that answers at a slot.
        correlation: How often a question is one on which all stand or fall together: one draw answers it for all.
        habit: How often an agent has one answer to a question however often it is asked.
        wrong: In how many ways an answer can be wrong; with 1, whoever errs agrees.
        bias: How often whoever chooses among answers takes the first it reads, unseen.
        conformity: How often somebody who is shown answers of others takes one of them over instead of thinking; in a
            debate, how often a side gives in.
        overconfidence: How far what agents say of their confidence lies above how often they are right: 0 is
            calibrated, 1 is always certain.
        failures: How often an attempt fails.
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
        for name in ("correlation", "habit", "bias", "conformity", "overconfidence", "failures"):
            _within(name, getattr(self, name))
        if self.wrong < 1:
            raise UsageError(f"there is at least 1 wrong answer, not {self.wrong}")

    def of(self, path: str) -> Skill:
        """The skill at *path*, by the first of its names that has one, else that of all."""
        return next((self.skills[name] for name in names_of(path) if name in self.skills), self.skill)


def names_of(path: str) -> tuple[str, ...]:
    """What a skill may call the slot at *path*: `sub/checker_1`, `checker_1`, `checker`."""
    slot = path.rpartition("/")[2]
    return path, slot, _COUNTED.sub("", slot)


class SimulatedTurn(Struct, frozen=True, gc=False):
    """What is asked of a simulated agent.

    Attributes:
        question: Which question the whole run is about.
        path: The agent: its slot, or `sub/slot` in a team that answers at a slot.
        pattern: The type of the pattern it stands in; empty: none.
        turn, attempt: Which of its turns, and of the attempts of that.
        prompt: Without what was said before.
        wanted: The JSON that is asked for.
    """

    question: str
    path: str
    pattern: str
    turn: int
    attempt: int
    prompt: str
    wanted: tuple[Wanted, ...] = ()


class SimulatedAgents:
    """Answers for all agents of *plan*, as *assumptions* say; a backend, and a plain function of what is asked.

    As a backend it is told apart which question a run is about by the id of its root.

    Args:
        seed: Equal seeds give equal answers.
    """

    def __init__(self, plan: Plan, assumptions: Assumptions, seed: int = 0) -> None:
        self._plan, self._assumptions, self._seed = plan, assumptions, seed
        self._last = "", _Draws("")

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
        """Nothing is held."""

    def says(self, asked: SimulatedTurn) -> Result:
        """What the agent says, or how its attempt fails."""
        draw = _Draws(f"{self._seed}/{asked.question}/{asked.path}#{asked.turn}.{asked.attempt}")
        if draw.failure < self._assumptions.failures:
            return Failure(kind="failed", reason="this attempt was drawn to fail")
        shared = self._shared(asked.question)
        if self._assumptions.habit:
            draw.follow(_Draws(f"{self._seed}/{asked.question}/{asked.path}"), self._assumptions.habit)
        draw.follow(shared, self._assumptions.correlation)
        return Answer(text=self._reply(asked, draw, proponent_is_right=shared.side < 0.5))

    def _shared(self, question: str) -> "_Draws":
        """What is drawn once for all agents; the last question's is kept, since all are asked about one."""
        if self._last[0] != question:
            self._last = question, _Draws(f"{self._seed}/{question}")
        return self._last[1]

    def _reply(self, asked: SimulatedTurn, draw: "_Draws", proponent_is_right: bool) -> str:
        """What is said, by the part that the agent plays in its pattern."""
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
                if slot in SIDES:
                    stands = RIGHT if (slot == _PROPONENT) == proponent_is_right else "[wrong 1]"
                    gives_in = shown and draw.conform < self._assumptions.conformity
                    return f"It is {stands}.\nagreement: {int(bool(gives_in))}"
                chosen = self._choose(skill, draw, shown)
                winner = _PROPONENT if (chosen == RIGHT) == proponent_is_right else _OPPONENT
                return f"SUMMARY: both were heard\nVERDICT: {winner}\nCONCLUSION: {chosen}"
            case "ensemble" if slot == AGGREGATOR:
                return self._choose(skill, draw, shown)
            case "chain" | "pipeline" | "delegation" | "compound":
                return self._work(skill, draw, shown)
            case _:
                others = shown if slot != PRIMARY else []  # what a primary is shown is what was wrong with its own
                return self._answer(skill, draw, others, names)

    def _answer(self, skill: Skill, draw: "_Draws", shown: Sequence[str], names: set[str]) -> str:
        """An answer of its own, or one it was shown."""
        said = self._own(skill, draw)
        if shown and draw.conform < self._assumptions.conformity:
            said = shown[int(draw.pick * len(shown))]
        return _json({"answer": said, "confidence": self._sure(skill.accuracy)}) if "answer" in names else said

    def _work(self, skill: Skill, draw: "_Draws", shown: Sequence[str]) -> str:
        """Its part of a work, which is right when it is and all that it was given was."""
        return next((one for one in shown if one != RIGHT), None) or self._own(skill, draw)

    def _own(self, skill: Skill, draw: "_Draws") -> str:
        if draw.answer < skill.accuracy:
            return RIGHT
        return f"[wrong {int(draw.which * self._assumptions.wrong) + 1}]"

    def _verdict(self, skill: Skill, draw: "_Draws", shown: Sequence[str]) -> str:
        """Whether the answer it is shown, the first in its question, is right."""
        rejects = skill.accuracy if skill.rejects is None else skill.rejects
        approved = draw.verdict < skill.accuracy if shown[:1] == [RIGHT] else draw.verdict >= rejects
        issues = [] if approved else ["it is wrong"]
        sure = self._sure(skill.accuracy if approved else rejects)
        return _json({"approved": approved, "confidence": sure, "issues": issues, "feedback": ""})

    def _choose(self, skill: Skill, draw: "_Draws", shown: Sequence[str]) -> str:
        """One of the answers it is shown: the first one by habit, else the right one as often as it can tell."""
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
    """Which of its agent's turns *turn* is."""
    return int(turn.rpartition("#")[2])


class _Draws:
    """Numbers from 0 to 1, each for one thing, that follow from a name alone."""

    __slots__ = ("answer", "bias", "conform", "failure", "pick", "side", "together", "verdict", "which")

    def __init__(self, name: str) -> None:
        numbers = [(n >> 11) * 2.0**-53 for n in _EIGHT.unpack(blake2b(name.encode()).digest())]
        self.answer, self.which, self.verdict, self.bias, self.conform, self.pick, self.failure, self.side = numbers
        self.together = self.failure  # what a question has, and no attempt

    def follow(self, other: "_Draws", often: float) -> None:
        """Answer and judge as *other* does, if it is one of those that are followed."""
        if other.together < often:
            self.answer, self.which, self.verdict = other.answer, other.which, other.verdict


def _pattern_at(plan: Plan, path: Sequence[str]) -> str:
    """The type of the pattern in which the agent at *path* stands."""
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
