"""Messages from people to runs: answers to attempts, decisions on turns, guidance and interruptions."""

from functools import partial

import msgspec

from coterie.execution.kernel.attempt_inputs import AttemptInputs
from coterie.execution.kernel.driven_run import AnswerApproval, AwaitApproval, DrivenRun, InterruptAttempt, Steer
from coterie.execution.kernel.prompts import decisions, how_to_decide, said_with
from coterie.execution.kernel.run_tree import RunTree
from coterie.history.journal.records import (
    LASTING,
    PARKED,
    AttemptFailed,
    AttemptInterrupted,
    AttentionAnswered,
    AttentionAsked,
    OperatorSaid,
)


class Approvals:
    """Handles messages from people to the runs of *tree*."""

    def __init__(self, tree: RunTree, inputs: AttemptInputs) -> None:
        self._tree, self._inputs, self._clock = tree, inputs, tree.ports.clock

    def interrupt(self, live: DrivenRun, said: OperatorSaid, source: str = "operator") -> bool:
        """Interrupt the attempts of a turn or a set, or all of *live* and its child runs; False if there is none."""
        meant = partial(live.core.is_part, name=said.turn)
        below = [one for one in live.children.values() if meant(one.turn) and one.core.is_live]
        attempts = [one for name, one in live.attempts.items() if meant(name)]
        found = [one.name for one in attempts if one.session is not None or one.check is not None]
        if not found and not below:
            return False
        live.core.write(self._clock.now(), said, source=source)
        live.send(*(InterruptAttempt(turn=name) for name in found))
        for child in below:
            self.interrupt(child, msgspec.structs.replace(said, turn=""), source)
        self._tree.pump(live)
        return True

    def guide(self, live: DrivenRun, said: OperatorSaid, now: float, source: str = "operator") -> None:
        """Record guidance for one turn of *live* or for all, and pass it to running attempts that can be steered."""
        live.core.write(now, said, source=source)
        steered = [one.name for one in live.attempts.values() if one.session is not None]
        live.send(*(Steer(turn=turn, said=said) for turn in steered if said.turn in ("", turn)))

    def request(self, live: DrivenRun, asked: AttentionAsked, seconds: float | None) -> None:
        """Record that an attempt of *live* needs a person, under the next id; its policy answers after *seconds*.

        An adopted attempt may repeat a request that it made under its earlier owner.
        """
        core = live.core
        known = (one for one in core.attention.values() if one.turn == asked.turn and one.question == asked.question)
        again = next((one for one in known if one.question and one.attempt == asked.attempt), None)
        if again is None:
            due = None if seconds is None else max(self._clock.now(), core.at) + seconds
            asked = msgspec.structs.replace(asked, id=f"{asked.turn}?{core.questions + 1}", due=due)
            if self._inputs.accept(live, asked) is None:
                return
            if said := core.said_before(asked):
                self.answer(live, asked.id, f"{said.what} {said.text}", said.message)
                return
        live.send(AwaitApproval(asked=again or core.attention[asked.id]))

    def answer(self, live: DrivenRun, id: str, answer: str, message: str = "", source: str = "operator") -> str:
        """Answer an open request of an attempt of *live*; return why that is not possible, or an empty text.

        Args:
            answer: One of `ATTENTION_ANSWERS` for its kind; text after `deny` is passed to the agent.
            message: The id of the message from the operator or the *source*; empty: the policy answers.
        """
        core, now = live.core, self._clock.now()
        asked = core.attention.get(id)
        if asked is None or not core.accepts(asked.turn, asked.attempt):
            what = f"nothing with the id {id!r}" if id else "nothing"
            return f"{what} waits for a person; open: {', '.join(core.attention) or 'none'}"
        given, (answer, text) = answer, said_with(answer)
        if answer not in (known := asked.answers):
            return f"{given!r} is no answer to {id}: write {', '.join(known[:-1])} or {known[-1]}"
        if answer in LASTING and (problem := self._allow(live, answer, asked.rule, message, source)):
            return problem
        turn, attempt = asked.turn, asked.attempt
        answered = AttentionAnswered(id=id, turn=turn, attempt=attempt, answer=answer, message=message, text=text)
        core.write(now, answered, source=source if message else "harness")
        match answer:
            case "park":
                self._inputs.accept(live, AttemptInterrupted(turn=turn, attempt=attempt, reason=PARKED))
            case "fail":
                reason = f"{asked.tool} was not permitted: {asked.detail}".removesuffix(": ")
                self._inputs.accept(live, AttemptFailed(turn=turn, attempt=attempt, kind="refused", reason=reason))
            case "interrupt":
                live.send(InterruptAttempt(turn=turn))
            case "allow" | "always" | "project" | "deny":
                permit = AnswerApproval(turn=turn, question=asked.question, allowed=answer != "deny", message=text)
                live.send(permit)
        self._tree.pump(live)
        for other in list(self._tree.runs.values()) if answer in LASTING else ():
            for same in [one for one in other.core.attention.values() if one.rule == asked.rule]:
                self.answer(other, same.id, "allow", message, source)
        return ""

    def _allow(self, live: DrivenRun, word: str, rule: str, message: str, source: str) -> str:
        """Record that an operator always allows *rule*; return why that is not possible, or an empty text."""
        if word == "project" and source != "operator":
            return "only an operator may allow it for the project: write 'always' for this run"
        said = OperatorSaid(message=message, what=word, text=rule)
        live.top.core.write(self._clock.now(), said, source=source)
        return ""

    def decide(self, live: DrivenRun, turn: str, word: str, message: str, source: str = "operator") -> str:
        """Apply a person's decision on a turn that a crash cut off; return why it is not valid, or an empty text."""
        parked = live.core.parked_for(turn)
        what, text = said_with(word) if parked else (word.strip(), "")
        if what not in decisions(parked):
            return f"{how_to_decide(turn, parked)} (not {word!r})"
        if parked and what in LASTING:
            if problem := self._allow(live, what, parked.rule, message, source):
                return problem
            what = "allow"
        known = live.core.turns[turn]
        cause, known.held = known.held, None
        assert cause is not None
        said = OperatorSaid(message=message, what=what, turn=turn, text=text)
        live.core.write(self._clock.now(), said, source=source)
        if said.what == "cancel":
            live.send(*live.core.cancel(self._clock.now(), turn, "an operator cancelled it", source))
        else:
            live.core.due(cause)
        self._tree.pump(live)
        return ""
