"""`coterie state letters`: the dead letters that a NATS server keeps for a system with durable mailboxes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from coterie.interfaces.cli.options import AsJson
from coterie.interfaces.cli.output import print_result, say
from coterie.interfaces.cli.parameters import Arg, Opt
from coterie.interfaces.cli.system_options import DEFAULT

if TYPE_CHECKING:
    from coterie.agents.actors.transports.kept_letters import KeptLetter
    from coterie.team.topology.system.model import System


def letters(
    message: Annotated[str, Arg("[ID]", "Show the letter of this message.")] = "",
    again: Annotated[bool, Opt("--send-again", "Send the message again, and drop the letter.")] = False,
    drop: Annotated[bool, Opt("--drop", "Delete the letter.")] = False,
    topology: Annotated[Path, Opt("-t, --topology FILE", "The system, by default topology.yaml.")] = DEFAULT,
    nats_url: Annotated[str, Opt("--nats-url URL", "Instead of the servers in FILE.")] = "",
    as_json: AsJson = False,
) -> int:
    """List the messages that killed their workers again and again; show one, send it again or drop it.

    With `jetstream: true`, a message whose handling had begun when its process died, three times after its first
    delivery, is handled no more.
    """
    import asyncio

    from coterie.errors import UsageError
    from coterie.execution.runs.authority import check_operator

    if (again or drop) and not message:
        raise UsageError("name the letter: coterie state letters ID --send-again, or --drop")
    if again and drop:
        raise UsageError("choose one of --send-again and --drop")
    if again or drop:
        check_operator()
    return asyncio.run(_act(_system(topology), nats_url, message, again, drop, as_json))


async def _act(system: "System", url: str, id: str, again: bool, drop: bool, as_json: bool) -> int:
    import secrets

    from coterie.agents.actors.transports.kept_letters import KeptLetters
    from coterie.agents.actors.transports.names import plain_name
    from coterie.agents.actors.transports.nats import NatsCarrier
    from coterie.errors import CoterieError

    fields, root = system.transport, system.root.name
    carrier = NatsCarrier((url,) if url else fields.servers, system=root, timeout=fields.connect_timeout)
    await carrier.connect(f"_letters.{secrets.token_hex(6)}", lambda packet: None)
    try:
        kept = KeptLetters(carrier.client.jetstream(timeout=5), fields.stream_name, plain_name(root))
        if not id:
            _list(await kept.kept(), as_json)
            return 0
        letter = await kept.get(id)
        if letter is None:
            raise CoterieError(f"no dead letter {id!r} of the system {root!r}: `coterie state letters` lists them")
        if again:
            sent = await kept.send_again(letter)
            say(f"sent again to {sent.recipient} as {sent.id}")
        elif drop:
            await kept.drop(letter)
            say(f"dropped {id}")
        else:
            _show(letter, as_json)
        return 0
    finally:
        await carrier.close()


def _list(letters: "list[KeptLetter]", as_json: bool) -> None:
    from coterie.base.clock import iso_time
    from coterie.interfaces.cli.text.words import table

    rows = [[one.message.id, one.message.recipient, one.message.type, iso_time(one.at), one.reason] for one in letters]
    text = table(rows, ("id", "agent", "type", "at", "reason")) if rows else "no dead letters"
    print_result(as_json, [_plain(one) for one in letters], lambda: text)


def _show(letter: "KeptLetter", as_json: bool) -> None:
    import json

    plain = _plain(letter)
    print_result(as_json, plain, lambda: json.dumps(plain, indent=2, ensure_ascii=False, default=str))


def _plain(letter: "KeptLetter") -> dict[str, Any]:
    from coterie.base.clock import iso_time

    message = letter.message
    return {
        "id": message.id,
        "agent": message.recipient,
        "sender": message.sender,
        "type": message.type,
        "sent": iso_time(message.sent_at),
        "at": iso_time(letter.at),
        "reason": letter.reason,
        "payload": message.payload,
    }


def _system(path: Path) -> "System":
    from importlib.util import find_spec

    from coterie.errors import ExtraMissing, UsageError
    from coterie.team import formats

    system = formats.read(path).valid().system
    if system is None or system.transport.type != "nats" or not system.transport.jetstream:
        raise UsageError(
            f"{path} has no durable mailboxes (transport.type: nats, jetstream: true): dead letters of other systems "
            "are records of their run: coterie logs"
        )
    if find_spec("nats") is None:
        raise ExtraMissing("nats", "nats-py", "the dead letters of a NATS server")
    return system
