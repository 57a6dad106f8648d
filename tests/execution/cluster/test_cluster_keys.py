"""Keys, seals and orders, without a server: what counts, and what is refused however little it differs."""

import asyncio
import dataclasses
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from cluster_stage import MemoryExport
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sealing import EXECUTION, charter, orders, performance, raw
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from coterie.errors import ClusterFailed, NotSigned, UsageError
from coterie.execution.cluster.claims import TextClaims
from coterie.execution.cluster.files import Head, RunFiles
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.orders import Desk, NodeOrder
from coterie.execution.cluster.seals import Sealed, peek, read, read_charter, seal, unseal
from coterie.execution.cluster.submit import files_of_begin
from coterie.execution.cluster.turns import ActivitySession, ActivityTurns
from coterie.execution.cluster.values import to_json
from coterie.execution.cluster.wire import Begin, TurnHeard, read_begin
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import TreeSaved
from coterie.interfaces.cli.app import main

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=1500),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
ABOUT = st.lists(st.text(max_size=9), min_size=1, max_size=3).map(tuple)


@pytest.fixture(scope="session")
def rings(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyRing, KeyRing]:
    folder = tmp_path_factory.mktemp("rings")
    return KeyRing(folder / "own"), KeyRing(folder / "stranger")


@given(value=JSON, about=ABOUT, other=ABOUT, changed=JSON)
def test_a_seal_counts_for_its_value_its_subject_and_its_key_alone(
    rings: tuple[KeyRing, KeyRing], value: Any, about: tuple[str, ...], other: tuple[str, ...], changed: Any
) -> None:
    """Whatever the value, and however close the other one is."""
    own, stranger = rings
    sealed = read(raw(seal(value, own, *about)).payload.data)
    assert unseal(sealed, own.trusted, Any, *about) == value
    others = [(sealed, own, (*about, "")), (sealed, stranger, about), (seal(value, stranger, *about), own, about)]
    if other != about:
        others.append((sealed, own, other))
    if to_json((more := seal(changed, own, *about)).value) != to_json(sealed.value):
        others.append((Sealed(more.value, sealed.seals), own, about))
    for one, ring, what in others:
        with pytest.raises(NotSigned):
            unseal(one, ring.trusted, Any, *what)


@given(value=JSON | st.text(max_size=9).map(lambda text: {"text": text + "\ud800"}))
def test_a_seal_outlasts_the_way_through_the_export(
    rings: tuple[KeyRing, KeyRing], tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    """Long texts lie there, and what the server has is written anew."""
    codec = TextClaims(FolderExport(tmp_path_factory.getbasetemp() / "claims-of-seals"))

    async def there_and_back() -> bytes:
        found = await codec.decode(await codec.encode([raw(seal(value, rings[0], "it")).payload]))
        return found[0].data

    found = read(asyncio.run(there_and_back()))
    assert unseal(found, rings[0].trusted, Any, "it") == value
    order = NodeOrder(charter=charter("r", rings[0])[0], args=[value])
    copy = read(to_json(seal(order, rings[0], "order")))
    assert unseal(copy, rings[0].trusted, NodeOrder, "order").args == [value]
    assert read_charter(peek(copy, NodeOrder).charter, "r").run == "r"


@bundle(
    ("made", "said"),
    [
        (lambda ring, other: Begin(run="r"), "a begin .* carries no signature"),
        (lambda ring, other: Begin(run="r", charter=charter("r", other)[0]), "unknown key .* cluster key trust"),
        (lambda ring, other: Begin(run="r", charter=charter("s", ring)[0]), "a charter"),
    ],
    ids=["none", "a stranger's", "another run's"],
)
def test_a_run_begins_only_with_a_charter_that_is_trusted(
    rings: tuple[KeyRing, KeyRing], made: Callable[[KeyRing, KeyRing], Begin], said: str
) -> None:
    """Signed by a key that its node has, for that run."""
    own, stranger = rings
    for ring in own, stranger:
        with pytest.raises(NotSigned, match=said):
            read_begin(seal(made(own, stranger), ring, "begin", "r"), "r", own.trusted)


def test_a_beginning_needs_more_than_a_copied_charter(rings: tuple[KeyRing, KeyRing]) -> None:
    """The charter names the keys that may sign it, and all of it is signed."""
    own, stranger = rings
    begin = Begin(run="r", plan="{}", charter=charter("r", own)[0])
    sealed = seal(begin, own, "begin", "r")
    assert read_begin(sealed, "r", own.trusted)[0] == begin
    changed = seal(replace(begin, plan='{"other": 1}'), stranger, "begin", "r")
    for copy in (
        changed,
        Sealed(changed.value, sealed.seals),
        Sealed(changed.value, changed.seals | sealed.seals),
        Sealed(sealed.value, {}),
        seal(begin, own, "begin", "s"),
    ):
        with pytest.raises(NotSigned):
            read_begin(copy, "r", own.trusted)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"value": 1, "seals": []}', b"[" * 10_000, b"\xff"])
def test_what_cannot_be_read_is_signed_by_nobody(data: bytes) -> None:
    """It is refused like anything else."""
    with pytest.raises(NotSigned, match="carries no signature"):
        read(data)


# -- orders -----------------------------------------------------------------------------------------------------------


class Node:
    """Takes orders with its own *ring*; *performed* are the texts that it got."""

    def __init__(self, ring: KeyRing | None = None) -> None:
        self.performed, self.said = list[str](), list[str]()
        self.export: Any = MemoryExport()
        self._desk = Desk(ring or KeyRing.of_user(), self.export, self.said.append)

    async def say(self, text: str) -> str:
        self.performed.append(text)
        return f"{text}!"

    def gets(self, order: Any, *, activity: str = "say 1", run: str = "r", once: bool = False, again: int = 1) -> Any:
        """What becomes of *order* if the server gives it to this node as that activity of that run."""
        environment = ActivityEnvironment()
        about = {"workflow_id": run, "workflow_run_id": EXECUTION, "activity_id": activity}
        environment.info = dataclasses.replace(environment.info, **about)
        perform = self._desk.performing(self.say, once=once)
        for _ in range(again):
            found = asyncio.run(environment.run(perform, order if isinstance(order, RawValue) else raw(order)))
        return found


def test_an_order_of_the_run_is_performed_and_its_result_is_signed() -> None:
    """For that activity of that execution."""
    node, asks = Node(), orders()
    found = node.gets(asks.written("say", "say 1", "hello"))
    assert (asks.heard(found, str, "result", "say 1"), node.performed) == ("hello!", ["hello"])
    for what, name in ("result", "say 2"), ("heard", "say 1"):
        with pytest.raises(NotSigned, match="was copied from elsewhere, or changed"):
            asks.heard(found, str, what, name)
    with pytest.raises(NotSigned):
        orders(execution="another").heard(found, str, "result", "say 1")


@bundle(
    ("order", "how"),
    [
        (lambda asks: ["hello"], {}),
        (lambda asks: asks.written("say", "say 1", "hello"), {"activity": "say 2"}),
        (lambda asks: asks.written("say", "say 1", "hello"), {"run": "s"}),
        (lambda asks: asks.written("shout", "say 1", "hello"), {}),
        (lambda asks: orders(execution="another").written("say", "say 1", "hello"), {}),
        (lambda asks: orders("s").written("say", "say 1", "hello"), {}),
        (lambda asks: asks.seal("hello", "order", "say", EXECUTION, "say 1"), {}),
        (lambda asks: asks.written("say", "say 1", "hello"), {"once": True, "again": 2}),
        (lambda asks: asks.written("say", "say 1", 7), {}),
    ],
    ids=[
        "unsigned",
        "elsewhere",
        "other run",
        "other work",
        "execution",
        "charter",
        "none",
        "twice",
        "odd",
    ],
)
def test_an_order_that_is_copied_or_made_up_is_refused(order: Callable[[Any], Any], how: dict[str, Any]) -> None:
    """Nothing happens, and the operator of the node reads why."""
    node = Node()
    with pytest.raises(ApplicationError):
        node.gets(order(orders()), **how)
    assert node.performed == ["hello"] * (how.get("again", 1) - 1)
    assert any("an order for the run" in line and "is refused" in line for line in node.said)


def test_a_node_obeys_only_keys_that_it_was_given(tmp_path: Path) -> None:
    """Both sides say the line that lets it."""
    other = KeyRing(tmp_path / "node.key")
    node, order = Node(other), orders().written("say", "say 1", "hello")
    own = KeyRing.of_user().keys[0].public
    with pytest.raises(ApplicationError, match=re.escape(f"`coterie cluster key trust {own[:8]}")):
        node.gets(order)
    other.trust(own)
    with pytest.raises(ApplicationError, match="where runs are submitted"):
        node.gets(order)
    assert node.performed == []
    ring = KeyRing(tmp_path / "user.key")
    ring.trust(other.keys[0].public)


def test_what_is_heard_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of a node are taken in their order; a copy, one of another attempt and an older one are not."""
    monkeypatch.setattr("coterie.execution.cluster.turns.workflow.logger.warning", lambda message: None)
    turns, session = ActivityTurns({}, None, orders()), object.__new__(ActivitySession)
    session._turns, session._activity, session._heard, session.node = turns, "a#1.1", 0, ""
    turns._sessions["r/a#1.1"] = session

    def heard(seq: int, by: str = "a#1.1") -> Sealed:
        return performance(by).seal(TurnHeard(attempt="r/a#1.1", node=f"n{seq}", seq=seq), "heard")

    taken = [turns.receive(one) for one in (heard(1), heard(3), heard(3), heard(2), heard(4, "b#1.1"), heard(5))]
    assert [one and one[1] for one in taken] == [1, 3, None, None, None, 5]
    assert session.node == "n5"


# -- where keys lie ---------------------------------------------------------------------------------------------------


def test_the_first_command_makes_a_key_that_only_the_user_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside of the project, or where COTERIE_CLUSTER_KEY says."""
    monkeypatch.setenv("COTERIE_CLUSTER_KEY", str(path := tmp_path / "deep" / "my.key"))
    assert main(["cluster", "key"]) == 0
    shown = capsys.readouterr().out
    assert KeyRing.of_user().keys[0].public in shown
    assert str(path) in shown
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    assert main(["cluster", "key"]) == 2
    assert f"chmod 600 {path}" in capsys.readouterr().err


def test_a_key_is_changed_while_runs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All keys of a machine sign, so that a run that knows the old one alone takes it; until that is forgotten."""
    monkeypatch.setenv("COTERIE_CLUSTER_KEY", str(tmp_path / "my.key"))
    ring = KeyRing.of_user()
    (old,) = ring.trusted
    sealed, _ = charter("r", ring)
    assert main(["cluster", "key", "new"]) == 0
    assert len(ring.trusted) == 2
    assert ring.trusted[1] == old
    unseal(seal("hello", ring, "it"), [old], str, "it")
    assert read_charter(sealed, "r", ring.trusted).keys == (old,)
    assert main(["cluster", "key", "forget", old]) == 0
    with pytest.raises(NotSigned):
        read_charter(sealed, "r", ring.trusted)
    assert main(["cluster", "key", "forget", ring.trusted[0]]) == 2
    assert "it is the only key of this machine: `coterie cluster key new`" in capsys.readouterr().err


@bundle(
    ("words", "said"),
    [
        (["trust", "abc"], "'abc' is no public key"),
        (["trust", "é" * 43], "is no public key"),
        (["forget", "A" * 43], "is not among the keys in"),
        (["trust"], "coterie cluster key [new | trust KEY | forget KEY]"),
        (["make"], "coterie cluster key [new | trust KEY | forget KEY]"),
    ],
)
def test_a_wrong_word_changes_no_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    """The line to type is in the message."""
    monkeypatch.setenv("COTERIE_CLUSTER_KEY", str(path := tmp_path / "my.key"))
    before = KeyRing.of_user().trusted
    assert main(["cluster", "key", *words]) == 2
    assert said in capsys.readouterr().err
    assert KeyRing(path).trusted == before


@pytest.mark.parametrize("data", [b"{}", b'{"own": ["x"]}', b'{"own": []}', b"\x00", b'{"own": [], "more": 1}'])
def test_a_damaged_key_is_an_error_and_stays_as_it_is(tmp_path: Path, data: bytes) -> None:
    """A new one in its place would lock everybody out."""
    (path := tmp_path / "my.key").write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="holds no key of a cluster"):
        _ = KeyRing(path).keys
    assert path.read_bytes() == data


def test_a_key_that_cannot_be_made_names_the_variable(tmp_path: Path) -> None:
    """As on a machine whose home is read-only."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="COTERIE_CLUSTER_KEY=PATH names another file"):
        _ = KeyRing(tmp_path / "file" / "my.key").keys


def test_a_charter_of_another_submission_is_another_one() -> None:
    """So that a beginning can be told from its copy."""
    assert peek(charter()[0], dict) != peek(charter()[0], dict)


FILES = RunFiles(root="/app", base="c0", heads=(Head("c9", ("b0", "b9")),))


@bundle(
    ("data", "records", "files"),
    [
        (to_json(Begin(run="r")), [], None),
        (to_json(Begin(run="r", files=FILES)), [("a#1", "c1", ("b0", "b1"))], (Head("c1", ("b0", "b1")),)),
        (to_json(Begin(run="r", files=FILES)), [("a#1", "c1", ("x0", "b1"))], ClusterFailed),
        (to_json(Begin(run="r", files=FILES)), [], ClusterFailed),
        (b"[]", [], ClusterFailed),
    ],
    ids=["none", "as its journal says", "of another run", "not in its journal", "unreadable"],
)
def test_files_of_a_run_that_began_without_keys_are_those_of_its_journal(
    data: bytes, records: list[tuple[str, str, tuple[str, ...]]], files: Any
) -> None:
    """What its history says that nobody signed is believed only where the journal has it, too."""
    saved = [
        ("r", TreeSaved(seq=k, turn=turn, attempt=1, commit=commit, bundles=bundles, after=("c0",)))
        for k, (turn, commit, bundles) in enumerate(records, 1)
    ]
    if files is ClusterFailed:
        with pytest.raises(ClusterFailed, match="submit it again"):
            files_of_begin(data, "r", KeyRing.of_user(), saved)
    else:
        found = files_of_begin(data, "r", KeyRing.of_user(), saved)
        assert (found and found.heads) == files
