"""Forged messages: only the token of a living attempt, or an operator, is heard, and for what it may say."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from bundles import bundle

from coterie.execution.runs.messages import RunMessage, Verdict
from coterie.execution.runs.messages.inbox import collect, in_order, load_message
from coterie.execution.runs.messages.tokens import Tokens
from coterie.execution.runs.messages.verdicts import OF_AGENTS, sender_of

RUN, OURS, THEIRS = "r", Tokens(b"o" * 32), Tokens(b"t" * 32)
KINDS = ("answer", "permit", "emit", "memory", "task", "interrupt", "guide", "stop", "withdraw", "setting", "nonsense")
"""What a message may be; an attempt may only send `OF_AGENTS`."""


def of_attempt(kind: str, turn: str = "a#1", attempt: int = 1, epoch: int = 1, **fields: object) -> RunMessage:
    """A message of an attempt, with its true token."""
    token = OURS.attempt(RUN, turn, attempt, epoch)
    known = {"id": "m", "kind": kind, "turn": turn, "attempt": attempt, "epoch": epoch, "token": token}
    return msgspec.convert({**known, **fields}, RunMessage)


def of_operator(kind: str, **fields: object) -> RunMessage:
    """A message that an operator has signed."""
    message = msgspec.convert({"id": "m", "kind": kind, "turn": "boss#1", "text": "go", **fields}, RunMessage)
    return msgspec.structs.replace(message, token=OURS.operator(message.signed))


def changed(message: RunMessage, **fields: object) -> RunMessage:
    return msgspec.structs.replace(message, **fields)  # type: ignore[arg-type]


OTHER = {"guide": "stop"}

FORGERIES: dict[str, Callable[[str], tuple[RunMessage, tuple[str, ...] | None]]] = {
    "without a token": lambda kind: (of_attempt(kind, token=""), ()),
    "token of another turn": lambda kind: (of_attempt(kind, token=OURS.attempt(RUN, "b#1", 1, 1)), ()),
    "token of an ended attempt": lambda kind: (of_attempt(kind, attempt=2, token=OURS.attempt(RUN, "a#1", 1, 1)), ()),
    "token of an earlier owner": lambda kind: (of_attempt(kind, epoch=2, token=OURS.attempt(RUN, "a#1", 1, 1)), ()),
    "token of another run": lambda kind: (of_attempt(kind, token=THEIRS.attempt(RUN, "a#1", 1, 1)), ()),
    "token of a child run": lambda kind: (of_attempt(kind, token=OURS.attempt("r/b#1.1", "a#1", 1, 1)), ()),
    "joined fields": lambda kind: (of_attempt(kind, token=OURS.attempt(RUN + "a#1", "", 1, 1)), ()),
    "an operator's signature": lambda kind: (of_attempt(kind, token=of_operator(kind).token), ()),
    "a node's signature": lambda kind: (of_attempt(kind, token=OURS.node(of_attempt(kind).signed)), ()),
    "half a token": lambda kind: (changed(of_attempt(kind), token=of_attempt(kind).token[:32]), ()),
    "a token in capitals": lambda kind: (changed(of_attempt(kind), token=of_attempt(kind).token.upper()), ()),
    "a token and a blank": lambda kind: (changed(of_attempt(kind), token=of_attempt(kind).token + " "), ()),
    "no text as a token": lambda kind: (of_attempt(kind, token="\u2028\N{BLACK SQUARE}"), ()),
    "from a sibling's process": lambda kind: (of_attempt(kind), ("r/b#1.1",)),
    "from another run's process": lambda kind: (of_attempt(kind), ("other/a#1.1",)),
    "a negative attempt": lambda kind: (of_attempt(kind, attempt=-1, token=OURS.attempt(RUN, "a#1", 1, 1)), ()),
    "operator, unsigned": lambda kind: (changed(of_operator(kind), token=""), ()),
    "operator, another text": lambda kind: (changed(of_operator(kind), text="evil"), ()),
    "operator, another turn": lambda kind: (changed(of_operator(kind), turn="deploy#1"), ()),
    "operator, another id": lambda kind: (changed(of_operator(kind), id="n"), ()),
    "operator, with outputs": lambda kind: (changed(of_operator(kind), outputs={"verdict": "approve"}), ()),
    "operator, of another kind": lambda kind: (changed(of_operator(OTHER.get(kind, "guide")), kind=kind), ()),
    "operator, of another run": lambda kind: (changed(m := of_operator(kind), token=THEIRS.operator(m.signed)), ()),
    "operator, by an attempt's token": lambda kind: (changed(of_operator(kind), token=of_attempt(kind).token), ()),
    "operator, by an attempt's process": lambda kind: (of_operator(kind), ("r/a#1.1",)),
    "operator, by its own word an agent": lambda kind: (of_operator(kind, by="r/a#1.1"), ()),
    "operator, from nowhere": lambda kind: (of_operator(kind), None),
}  # fmt: skip


@pytest.mark.parametrize("how", FORGERIES)
@bundle("kind", KINDS)
def test_a_forged_message_is_not_heard(how: str, kind: str) -> None:
    """Whatever it says: it has a problem, and its sender counts as an agent."""
    message, marks = FORGERIES[how](kind)
    sender = sender_of(message, RUN, OURS, marks)

    assert sender.source == "agent"
    assert sender.problem


@bundle("kind", KINDS)
def test_a_true_message_is_heard_for_what_its_sender_may_say(kind: str) -> None:
    """The control of what stands above."""
    assert bool(sender_of(of_attempt(kind), RUN, OURS).problem) is (kind not in OF_AGENTS)
    assert sender_of(of_operator(kind), RUN, OURS).source == "operator"


def plant(path: Path | bytes, kind: str, victim: Path) -> None:
    """Make something of *kind* at *path* that is no message; see `JUNK`."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            os.mknod(path, 0o600 | stat.S_IFSOCK)
        case "device":
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
        case "folder":
            os.mkdir(path)
        case "link":
            os.symlink(victim, path)
        case "dangling":
            os.symlink(victim.with_name("new"), path)
        case "loop":
            os.symlink(os.path.basename(path), path)
        case "hard link":
            os.link(victim, path)
        case "huge":
            os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40)
        case "another user's":
            os.close(os.open(path, os.O_CREAT))
            os.chown(path, 12345, 12345)


JUNK = ("pipe", "socket", "folder", "link", "dangling", "loop", "hard link")
ALL_JUNK = (*JUNK, *(("device", "another user's") if os.geteuid() == 0 else ()))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with one attempt, beside a file of the user."""
    (tmp_path / "run" / "inbox").mkdir(parents=True)
    (tmp_path / "run" / "turns" / "a#1.1" / "own" / "outbox").mkdir(parents=True)
    (tmp_path / "mine").write_bytes(msgspec.json.encode(of_operator("answer")))
    return tmp_path / "run"


@bundle("kind", ALL_JUNK)
def test_nothing_but_a_file_of_the_agent_leaves_its_outbox(tmp_path: Path, kind: str) -> None:
    """Neither a link nor what it leads to, and what the user owns stays where and as it is."""
    (tmp_path / "run" / "inbox").mkdir(parents=True)
    outbox = tmp_path / "run" / "a" / "own" / "outbox"
    outbox.mkdir(parents=True)
    (victim := tmp_path / "mine").write_text("mine")
    plant(outbox / "m.json", kind, victim)
    collect(tmp_path / "run" / "a", tmp_path / "run")

    assert list((tmp_path / "run" / "inbox").iterdir()) == []
    assert victim.read_text() == "mine"
    assert not (tmp_path / "new").exists()


@bundle("level", ["attempt", "own", "outbox", "inbox"])
def test_no_folder_on_the_way_may_be_a_link(tmp_path: Path, level: str) -> None:
    """The user's own messages elsewhere are not moved, and none is moved there."""
    folders = {"attempt": "run/a", "own": "run/a/own", "outbox": "run/a/own/outbox", "inbox": "run/inbox"}
    (tmp_path / "run").mkdir()
    elsewhere = tmp_path / "elsewhere"
    inner = {"attempt": "own/outbox", "own": "outbox"}.get(level, "")
    (elsewhere / inner).mkdir(parents=True)
    (elsewhere / inner / "m.json").write_text("{}")
    for name, path in folders.items():
        place = tmp_path / path
        if name == level:
            place.symlink_to(elsewhere)
        elif not place.exists():
            place.mkdir(parents=True, exist_ok=True)
    if level == "inbox":
        (tmp_path / folders["outbox"] / "n.json").write_text("{}")
    if level == "attempt":
        return  # the owner makes this folder itself, below one that no agent writes
    collect(tmp_path / "run" / "a", tmp_path / "run")

    assert (elsewhere / inner / "m.json").exists()
    assert not (elsewhere / "n.json").exists()
    assert level == "inbox" or list((tmp_path / "run" / "inbox").iterdir()) == []


NAMES = {
    "not utf-8": b"\xff\xfe.json",
    "a line": b"a\nb.json",
    "an escape": b"\x1b[2J.json",
    "hidden": b".json",
    "dots": b"...json",
    "an option": b"-rf.json",
    "a template": b"{id}%s$HOME.json",
    "long": b"x" * 244 + b".json",
    "tags": "\U000e0041\u202e.json".encode(),
}


@bundle("what", NAMES)
def test_any_name_of_a_message_is_a_name(run: Path, what: str) -> None:
    """It is moved once, or refused once, and leads nowhere."""
    outbox = os.fsencode(run / "turns" / "a#1.1" / "own" / "outbox")
    with open(os.path.join(outbox, NAMES[what]), "wb") as file:
        file.write(b"{")
    collect(run / "turns" / "a#1.1", run)
    for path in in_order(run / "inbox"):
        found = load_message(path)
        assert isinstance(found, Verdict) or found.kind == "unreadable"
    assert in_order(run / "inbox") == []
    for name in os.listdir(os.fsencode(run / "inbox")):
        os.unlink(os.path.join(os.fsencode(run / "inbox"), name))


@bundle("kind", [*ALL_JUNK[:2], "folder", "link", "dangling", "loop", "huge"])
def test_what_is_no_message_is_moved_aside(tmp_path: Path, kind: str) -> None:
    """Nothing blocks, no link is followed, and nothing of any size is read."""
    (victim := tmp_path / "mine").write_bytes(msgspec.json.encode(of_operator("answer")))
    (tmp_path / "inbox").mkdir()
    plant(tmp_path / "inbox" / "m.json", kind, victim)
    found = load_message(tmp_path / "inbox" / "m.json")

    assert isinstance(found, RunMessage)
    assert found.kind == "unreadable"
    assert victim.exists()
    assert in_order(tmp_path / "inbox") == []


def test_a_huge_outbox_costs_one_look(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries beyond the bound wait; the true message of another attempt is found all the same."""
    from coterie.execution.runs.messages import inbox

    monkeypatch.setattr(inbox, "COLLECTED", 10)
    outbox = run / "turns" / "a#1.1" / "own" / "outbox"
    for n in range(100):
        (outbox / f"{n}.json").write_text("{")
    other = run / "turns" / "b#1.1" / "own" / "outbox"
    other.mkdir(parents=True)
    (other / "true.json").write_text("{}")
    collect(run / "turns" / "a#1.1", run)
    collect(run / "turns" / "b#1.1", run)

    assert len(in_order(run / "inbox")) <= 11
    assert (run / "inbox" / "true.json").exists()


def test_a_message_does_not_replace_one_that_waits(run: Path) -> None:
    """An agent that knows the name of the operator's message cannot put its own in that place."""
    (run / "inbox" / "answer.json").write_bytes((run.parent / "mine").read_bytes())
    (run / "turns" / "a#1.1" / "own" / "outbox" / "answer.json").write_text('{"id":"m","kind":"stop"}')
    collect(run / "turns" / "a#1.1", run)

    assert (run / "inbox" / "answer.json").read_bytes() == (run.parent / "mine").read_bytes()


@bundle("what", ["[" * 100_000, '{"a":' * 100_000, "1" * 100_000, '{"id":1}', "null", '{"id":"a"}', "\ufeff{}", ""])
def test_nonsense_is_refused_as_what_it_is(tmp_path: Path, what: str) -> None:
    """Depth, numbers and missing fields are no crash of the owner."""
    (tmp_path / "m.json").write_text(what)
    found = load_message(tmp_path / "m.json")
    assert isinstance(found, RunMessage)
    assert found.text.startswith("the message cannot be read: ")
