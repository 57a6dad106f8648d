"""Steer, interrupt and watch a turn that an agent works on, without its mailbox and its handler."""

from coterie.agents.actors.child import AgentChild
from coterie.agents.actors.message import INTERRUPT, STEER, TURN, Message
from coterie.errors import TurnFailure


def control_turn(child: AgentChild, message: Message) -> None:
    """Carry out *message* about a turn; the reply has the turn's `phase`: `working`, `queued` or `unknown`."""
    turn = message.payload.get("turn") if type(message.payload) is dict else None

    def is_it(one: Message) -> bool:
        return one.type == TURN and type(one.payload) is dict and one.payload.get("turn") == turn

    phase = "unknown"
    if child.current is not None and is_it(child.current):
        phase = "working"
        if message.type == STEER and child.agent is not None:
            child.start_task(child.agent.on_guidance(str(message.payload.get("text", ""))))
        elif message.type == INTERRUPT:
            child.interrupt()
    elif (queued := child.mailbox.find(is_it)) is not None:
        phase = "queued"
        if message.type == INTERRUPT and child.mailbox.withdraw(queued) and queued.reply_to is not None:
            child.fail_turn(queued, TurnFailure("interrupted", "the turn was interrupted before it began"))
    elif message.type == INTERRUPT and (later := child.withdraw(is_it)) is not None:
        child.fail_turn(later, TurnFailure("interrupted", "the turn was interrupted"))
    if message.reply_to is not None:
        child.node.answer(message, {"turn": turn, "phase": phase})
