"""Processes of pi, each of which serves one attempt after the other.

The environment of a process is fixed at its start, so data that differs between attempts is in a folder of the process,
rewritten for each attempt: the command `coterie`, which is first on the PATH, and the variables, which every `bash`
that the agent runs reads (`BASH_ENV`). Each process has its own mark, by which `processes.attempt_of` finds the attempt
that it serves.

Each process loads an extension. Pi's clients retry a refused request by themselves after the provider's waiting time,
even if that is hours, and omit this time from the error. With the extension, a refusal ends the turn at once, and its
text begins with the time.
"""

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from coterie.agents.backends import wrapper
from coterie.agents.backends.agentside.client import OWN, TOKEN
from coterie.agents.backends.attempt import ProcessEnvironment, identity, prepared
from coterie.agents.backends.base import Event, Launched, OnEvent, Request
from coterie.agents.backends.coding.attempt import Gone, in_time
from coterie.agents.backends.coding.wire import Transcript, WireProcess
from coterie.agents.backends.processes import MARK, end_others, family_of
from coterie.agents.backends.secrets import Secrets
from coterie.base import files
from coterie.base.ids import child_run_id

IDLE_MOST = 4
"""How many idle processes are kept; beyond that the one that has been idle longest is ended."""
_SHELL = "variables.sh"
_SESSIONS = f"{OWN}/sessions"
_BASH_ENV = "BASH_ENV"
_EXTENSION = "refusals.mjs"

Key = tuple[object, ...]
OnMessage = Callable[[Mapping[str, Any]], None]


class CommandRefused(Exception):
    """Pi refused a command; the message is its error."""


class PiProcess:
    """A running `pi --mode rpc`: sends commands, passes on events, and waits for the answers.

    Attributes:
        on_message: Called with each message; set when a turn begins.
        gone: Done once the process has ended and all its messages were passed on.
    """

    def __init__(self, process: WireProcess, launched: Launched, grace: float) -> None:
        self.process, self.launched, self._grace = process, launched, grace
        self.on_message: OnMessage = lambda message: None
        self._asked: dict[str, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._ids = count(1)
        self._companions: dict[int, str] = {launched.pid: launched.started}
        self.gone: asyncio.Task[None] = asyncio.get_running_loop().create_task(self._read())

    async def settle(self, marker: str) -> None:
        """Remember the processes that it has started itself, which continue between attempts."""
        self._companions |= await family_of(self.launched.pid, marker, since=self.process.child.since)

    async def ask(self, command: str, seconds: float, **values: Any) -> dict[str, Any]:
        """Send *command* and return the data of the answer.

        Raises:
            CommandRefused: If it answers that the command failed.
            Wedged: If it does not answer within *seconds*.
            Gone: If its process ends first.
        """
        id, answer = str(next(self._ids)), asyncio.get_running_loop().create_future()
        self._asked[id] = command, answer
        try:
            if self.gone.done():
                raise Gone(self.last_words(command))
            self.process.send({"id": id, "type": command, **values})
            response = await in_time(answer, command, seconds)
        finally:
            self._asked.pop(id, None)
        if not response.get("success"):
            raise CommandRefused(str(response.get("error") or f"it refused `{command}`"))
        data = response.get("data")
        return data if isinstance(data, dict) else {}

    def tell(self, command: str) -> None:
        """Send *command* without waiting for the answer."""
        self.process.send({"id": str(next(self._ids)), "type": command})

    def last_words(self, awaited: str) -> str:
        """How its process ended before it answered *awaited*."""
        return self.process.last_words(f"it answered `{awaited}`")

    @property
    def running(self) -> bool:
        """Whether its program is running."""
        return self.process.running

    def attach(self, on_event: OnEvent, transcript: Transcript) -> None:
        """Pass on its log to *on_event*, and store its messages in *transcript*; its events are still ignored."""
        self.on_message = lambda message: None
        self.process.attach(on_event, transcript)

    def detach(self) -> None:
        """Pass on nothing, since no attempt listens."""
        self.attach(lambda event: None, Transcript(None, Secrets()))

    async def clear(self, markers: list[str]) -> None:
        """End the processes that its last attempt left behind, found by descent or by *markers*, but not itself."""
        since = self.process.child.since
        await end_others(self.launched.pid, markers, self._companions, grace=self._grace, since=since)

    async def end(self) -> None:
        """End it and everything it started; idempotent."""
        await self.process.end(self._grace)
        self.gone.cancel()
        await asyncio.wait({self.gone})

    async def _read(self) -> None:
        try:
            while (message := await self.process.receive()) is not None:
                match message.get("type"):
                    case "response":
                        self._answer(message)
                    case "extension_ui_request":  # a dialog of an extension, which no person can answer
                        none = {"type": "extension_ui_response", "id": message.get("id"), "cancelled": True}
                        self.process.send(none)
                    case _:
                        self.on_message(message)
        finally:
            for command, answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(Gone(self.last_words(command)))

    def _answer(self, response: Mapping[str, Any]) -> None:
        """Match *response* with its command; pi omits the id in its answer to an unknown command."""
        found = self._asked.get(str(response.get("id")))
        if found is None and "id" not in response:
            found = next((one for one in self._asked.values() if one[0] == response.get("command")), None)
        if found is not None and not found[1].done():
            found[1].set_result(dict(response))


class PiSlot:
    """A slot for a process of pi, with its folder and mark. The process is replaced if it dies or refuses to continue.

    Attributes:
        key: The common properties of its attempts; only attempts with this key can use the process.
        sessions: The folder in which pi keeps its sessions, one for each turn.
        extension: The file of the extension that pi loads.
        process: The process, once it was started.
    """

    def __init__(self, key: Key, number: int, request: Request, grace: float) -> None:
        self.key, self._grace, self.marker = key, grace, child_run_id(request.run, "@pi", number)
        self._is_kept = request.root is not None
        if request.root is None:
            self.folder = Path(tempfile.mkdtemp(prefix="coterie-pi-"))
        else:
            self.folder = request.root.absolute() / "agents" / f"pi-{number}"
        self.sessions, self.extension = self.folder / _SESSIONS, self.folder / _EXTENSION
        self.process: PiProcess | None = None
        self._sandbox = ExitStack()

    def session(self, id: str) -> Path | None:
        """The file of the session *id*, moved here if another process began it; None if there is none.

        Pi writes the file when the model has answered for the first time.
        """
        folders = [self.sessions]
        if self._is_kept:
            folders += self.folder.parent.glob(f"pi-*/{_SESSIONS}")
        for folder in folders:
            for path in folder.glob("*.jsonl"):
                if path.name.endswith(f"_{id}.jsonl") and not folder.is_symlink():
                    self.sessions.mkdir(parents=True, exist_ok=True)
                    return path.rename(self.sessions / path.name)
        return None

    def forget(self, id: str) -> None:
        """Remove the session *id*."""
        if path := self.session(id):
            path.unlink()

    @contextmanager
    def prepared(self, request: Request) -> Iterator[ProcessEnvironment]:
        """Write the files of the process for *request*; its own environment contains nothing of this attempt.

        Raises:
            OSError: If they cannot be written.
        """
        with prepared(msgspec.structs.replace(request, folder=self.folder)) as environment:
            given, shell = environment.env, self.folder / _SHELL
            if request.folder is not None:  # the folder of the attempt itself is hidden from the process
                wrapper.link(request.folder, self.folder, request.root)
            of_turn = {*identity(request), *request.env, TOKEN}
            lines = [f"export {name}={shlex.quote(given[name])}\n" for name in sorted(of_turn) if name in given]
            if users := given.get(_BASH_ENV):
                lines.insert(0, f". {shlex.quote(users)}\n")
            files.write(shell, "".join(lines).encode("utf-8", "replace"))
            files.write(self.extension, EXTENSION.encode())
            env = {name: value for name, value in given.items() if name not in of_turn}
            env |= {MARK: self.marker, _BASH_ENV: str(shell)}
            yield msgspec.structs.replace(environment, env=env)

    async def start(
        self, argv: list[str], environment: ProcessEnvironment, secrets: Secrets, on_event: OnEvent
    ) -> PiProcess:
        """Start its process, in a sandbox that lasts as long as the process.

        Raises:
            OSError, ValueError: As `WireProcess.start`.
            Unconfined: If the agent requires a sandbox, and none works.
        """
        launched: list[Launched] = []

        def forward(event: Event) -> None:
            if isinstance(event, Launched):
                launched.append(event)
            on_event(event)

        argv = environment.confine(argv, self._sandbox)
        process = await WireProcess.start(
            argv, env=environment.env, cwd=environment.cwd, marker=self.marker, secrets=secrets, on_event=forward
        )
        self.process = PiProcess(process, launched[0], self._grace)
        return self.process

    async def clear(self, request: Request) -> bool:
        """End the processes that the attempt of *request* left behind; return whether the process can serve another."""
        if self.process is None or not self.process.running:
            return False
        self.process.detach()
        await self.process.clear([self.marker, request.ref.marker])
        return self.process.running

    async def end_process(self) -> None:
        """End its process; idempotent."""
        if self.process is not None:
            await self.process.end()
            self.process = None
        self._sandbox.close()

    async def end(self) -> None:
        """End its process, and remove its folder except for kept sessions; idempotent."""
        await self.end_process()
        if not self._is_kept or not any(self.sessions.glob("*")):
            files.discard(self.folder)
            return
        for path in [*self.folder.iterdir(), *(self.folder / OWN).iterdir()]:
            if path not in (self.sessions, self.sessions.parent):
                files.discard(path)


class PiPool:
    """The processes of a run's owner: one for each parallel attempt; later attempts reuse an idle one.

    Args:
        grace: Seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._slots: set[PiSlot] = set()
        self._idle: list[PiSlot] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._numbers = count(1)

    def take(self, key: Key, request: Request) -> PiSlot:
        """The most recently used idle slot with *key*; a new one if there is none."""
        for slot in reversed(self._idle):
            if slot.key == key:
                self._idle.remove(slot)
                return slot
        slot = PiSlot(key, next(self._numbers), request, self._grace)
        self._slots.add(slot)
        return slot

    def give_back(self, slot: PiSlot) -> None:
        """Take back *slot*, whose process is idle."""
        self._idle.append(slot)
        if len(self._idle) > IDLE_MOST:
            self._ending.add(ending := asyncio.get_running_loop().create_task(self.end(self._idle.pop(0))))
            ending.add_done_callback(self._ending.discard)

    async def end(self, slot: PiSlot) -> None:
        """End *slot*, which is not idle."""
        await slot.end()
        self._slots.discard(slot)

    async def close(self) -> None:
        """End all processes. Idempotent."""
        self._idle.clear()
        await asyncio.gather(*(self.end(slot) for slot in list(self._slots)))


EXTENSION = """\
const MOST = 65536; // bytes of a refusal that are read
const fetchAnswer = globalThis.fetch;

function secondsToWait(headers) {
  const milliseconds = Number(headers.get("retry-after-ms") || NaN);
  if (milliseconds > 0) return milliseconds / 1000;
  const after = headers.get("retry-after") || "";
  const seconds = Number(after || NaN);
  return Number.isNaN(seconds) ? (Date.parse(after) - Date.now()) / 1000 : seconds;
}

async function beginningOf(response) {
  const pieces = [];
  let size = 0;
  const reader = response.body?.getReader();
  while (reader && size < MOST) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    size += value.length;
  }
  reader?.cancel().catch(() => {});
  return Buffer.concat(pieces).subarray(0, MOST).toString();
}

globalThis.fetch = async (address, options) => {
  const response = await fetchAnswer(address, options);
  const isModel = new Headers(options?.headers).has("x-stainless-lang");
  if (!isModel || response.status < 400) return response;
  const headers = new Headers(response.headers);
  for (const name of ["content-encoding", "content-length"]) headers.delete(name);
  headers.set("x-should-retry", "false");
  const wait = secondsToWait(response.headers);
  const text = await beginningOf(response);
  const body = wait > 0 ? `retry after ${Math.ceil(wait)} s: ${text}` : text;
  return new Response(body, { status: response.status, statusText: response.statusText, headers });
};

export default function () {}
"""
"""The extension that every process of pi loads."""
