"""What travels between a workflow, the workers and the programs that submit runs, and how it is written."""

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct
from temporalio.api.common.v1 import Payload
from temporalio.converter import CompositePayloadConverter, DefaultPayloadConverter, EncodingPayloadConverter

from coterie.agents.backends.base import NO_ABILITIES, Abilities, Answer, Failure, Result
from coterie.errors import NotSigned
from coterie.execution.cluster.files import Head, RunFiles
from coterie.execution.cluster.seals import Charter, Sealed, peek, read_charter, unseal
from coterie.execution.cluster.values import from_json, to_json
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.turns import TurnEvent
from coterie.execution.runs.messages import RunMessage
from coterie.history.journal.records import NO_USAGE, AnyRecord, RunReopened, TreeAttested, Usage
from coterie.history.journal.runs import RunRecord
from coterie.team.planning.plan import Limits

WORKFLOW = "RunWorkflow"
"""The type of workflow that drives one root run; its id is the run's."""
QUEUE = "coterie"
"""The task queue of these workflows and of what they need beside turns."""
DEFAULT_QUEUE = "default"
"""The queue of turns whose agent names none."""


def turn_queue(name: str) -> str:
    """The task queue for the turns of agents with the queue *name*."""
    return f"{QUEUE}.turns.{name or DEFAULT_QUEUE}"  # without `turns`: of releases that sign nothing


def node_queue(node: str) -> str:
    """The task queue on which one node is spoken to about the turns that it performs."""
    return f"{QUEUE}.node.{node}"


class BackendFacts(Struct, frozen=True):
    """What a driver must know of a backend that is elsewhere."""

    uses_context: bool = False
    abilities: Abilities = NO_ABILITIES


class Begin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One link of a run's chain of workflows.

    Attributes:
        plan: The plan as JSON; empty: the one that its journal holds.
        folds: The run has begun: its journal is in the export.
        reopened: The record by which it is reopened, if it has failed.
        backends: By the name that a plan has for each.
        link_events: Events of the history after which the next link follows; 0: when the server suggests it.
        messages: What came while the last link handed the run over.
        files: Its files, as its turns have left them so far.
        begun_by: As in `run.started`.
        notes: The memory and the tasks of its project when it was submitted.
        summary: What Temporal's own page shows of the run; see `coterie.execution.cluster.labels`.
        charter: Whose signatures count; see `coterie.execution.cluster.seals`.
        after: The execution of the link before.
        withdrawals: The messages that took others back, which have no record.
    """

    run: str
    plan: str = ""
    given: dict[str, Any] = {}
    limits: Limits = Limits()
    folds: bool = False
    reloaded: bool = False
    reopened: RunReopened | None = None
    backends: dict[str, BackendFacts] = {}
    link_events: int = 0
    messages: tuple[RunMessage, ...] = ()
    files: RunFiles | None = None
    begun_by: tuple[str, ...] = ()
    notes: dict[str, list[dict[str, Any]]] = {}
    summary: str = ""
    charter: Sealed | None = None
    after: str = ""
    withdrawals: tuple[str, ...] = ()


def read_begin(sealed: Sealed, run: str, trusted: Collection[str] = ()) -> tuple[Begin, Charter]:
    """The beginning of a link of *run* in *sealed*, and its charter, which *trusted* keys must have signed, if given.

    Raises:
        NotSigned: If the charter, or one of the keys that it names, does not prove it.
    """
    said: Begin = peek(sealed, Begin)
    if said.charter is None:
        raise NotSigned(("begin", run))
    charter = read_charter(said.charter, run, trusted)
    begin: Begin = unseal(sealed, charter.keys, Begin, "begin", run)
    return begin, charter


class TurnDone(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of an attempt: one of *answer* and *failure*, events that could wait until then, and its files."""

    answer: Answer | None = None
    failure: Failure | None = None
    events: tuple[TurnEvent, ...] = ()
    head: Head | None = None
    attested: TreeAttested | None = None

    @property
    def result(self) -> Result:
        """The result."""
        return self.answer or self.failure or Failure(kind="lost", reason="its worker gave no result")


class TurnBeat(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far an attempt has come: the end of its answer, and what it has used."""

    said: str = ""
    usage: Usage = NO_USAGE


class TurnHeard(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node lets the workflow hear of a running attempt, named by its mark; *seq* counts from 1."""

    attempt: str
    node: str
    seq: int
    events: tuple[TurnEvent, ...] = ()


class RunDone(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a workflow returns: how the run ended or stopped, and its files."""

    ended: RunExit
    files: RunFiles | None = None


class _MsgspecPayload(EncodingPayloadConverter):
    """Writes values as JSON, and reads them as the type that a function declares."""

    @property
    def encoding(self) -> str:
        return "json/plain"

    def to_payload(self, value: Any) -> Payload | None:
        return Payload(metadata={"encoding": b"json/plain"}, data=to_json(value))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        return from_json(payload.data, type_hint or Any)


class MsgspecConverter(CompositePayloadConverter):
    """Plans, requests and records travel as the JSON that journals have."""

    def __init__(self) -> None:
        kept = [
            one for one in DefaultPayloadConverter.default_encoding_payload_converters if one.encoding != "json/plain"
        ]
        super().__init__(*kept, _MsgspecPayload())


PAGE = 500
"""Records in a page of a journal."""
RECORDS: Any = list[tuple[str, AnyRecord]]


def pages(records: Iterable[RunRecord]) -> list[str]:
    """*records* of a root run and its child runs as texts, in the order of their times.

    All pages but the last stay the same while the run goes on, so the export has each only once, whichever links of
    its chain have read it.
    """
    ordered = sorted(records, key=lambda one: (one[1].at, one[0], one[1].seq))
    return [to_json(ordered[at : at + PAGE]).decode() for at in range(0, len(ordered), PAGE)]


def read_pages(texts: Iterable[str]) -> list[RunRecord]:
    """The records in *texts*, which `pages` has made, those of each run in order."""
    return [one for text in texts for one in from_json(text.encode("utf-8", "surrogatepass"), RECORDS)]
