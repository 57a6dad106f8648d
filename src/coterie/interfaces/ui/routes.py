"""The JSON API of the page, also for other programs; values are those that `--json` prints."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coterie.base.clock import SystemClock
from coterie.base.version import __version__
from coterie.errors import CoterieError, NoSuchRun, NoSuchTurn, UsageError, error_line
from coterie.execution.runs import what_if
from coterie.execution.runs.changed_files import ChangedFiles, changed_files
from coterie.execution.runs.comparison import compare
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.threads import ThreadRow
from coterie.execution.runs.turn_detail import detail
from coterie.history.journal.records import Record
from coterie.history.views.compare import RunComparison
from coterie.history.views.failure import FirstFailure, first_failure
from coterie.history.views.timeline import Line, Timeline
from coterie.interfaces.ui.access import SessionAccess
from coterie.interfaces.ui.actions import ANY, ActionResult, PageAction, act, preview
from coterie.interfaces.ui.home import GROUPS
from coterie.interfaces.ui.openapi import (
    ActionPreview,
    ApiEndpoint,
    LiveState,
    RecordLines,
    RunList,
    SessionCode,
    StreamTopics,
    document,
)
from coterie.interfaces.ui.places import ServedRun, ServedThread
from coterie.interfaces.ui.single_file import PAGE, page_of
from coterie.interfaces.ui.stream import Feeds, events
from coterie.proofs.worst_case import CostsAndBound, WorstCase, costs_and_bound, worst_case
from coterie.team.planning.plan import Plan

KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
VIEWS: Final = ("", "runs", "threads", "compare", "team")
"""The first parts of addresses that the page itself handles."""
LARGEST: Final = 1 << 20
"""The maximum size of a request's body in bytes."""
LINES: Final = 200
"""The number of records in an answer by default; *MOST* is the maximum."""
MOST: Final = 2000
MESSAGES: Final = 50
"""The number of messages of a thread in an answer by default."""

Value = Callable[[Request], Awaitable[Any]]
Handler = TypeVar("Handler", bound=Callable[[Any, Request], Awaitable[Any]])
MayAct = Callable[[Any], str]

_ENDPOINTS: list[ApiEndpoint] = []
_RUN = "/api/runs/{key}"
_TURN = {"turn": "A turn by its address in the root run, `team#1.1/writer#2`."}
_BELOW = {"run": "A child run, as `TURN.ATTEMPT/…` below the root run."}


def _serves(path: str, returns: Any = dict[str, Any], **more: Any) -> Callable[[Handler], Handler]:
    """Answer requests for *path* with the result of a method, described by its docstring; see `ApiEndpoint`."""

    def add(method: Handler) -> Handler:
        what = str(method.__doc__).partition("\n")[0]
        _ENDPOINTS.append(ApiEndpoint(path=path, value=method, what=what, returns=returns, **more))
        return method

    return add


class Api:
    """The routes of one server.

    Args:
        may_act: Gives the reason why the connection with a scope may not act; empty: it may. None: the server is
            read-only.
        about: Information about the server for the page.
    """

    def __init__(self, feeds: Feeds, access: SessionAccess, about: dict[str, Any], may_act: MayAct | None) -> None:
        self._feeds, self._access = feeds, access
        self._about = about | {"version": __version__, "read_only": may_act is None}
        self._may_act = may_act
        self._worst: tuple[Plan, Mapping[str, float], WorstCase] | None = None
        self._times: dict[str, Timeline] = {}

    def app(self) -> Starlette:
        """The application, without its guard."""
        self._endpoints = [one for one in _ENDPOINTS if one.takes is not ANY or self._may_act is not None]
        return Starlette(
            routes=[
                *(
                    Route(one.path, partial(_answer, partial(one.value, self)), methods=[one.method])
                    for one in self._endpoints
                ),
                Route(
                    "/api/{rest:path}", partial(_answer, _unknown), methods=["GET", "POST", "PUT", "DELETE", "PATCH"]
                ),
                Route("/{path:path}", _static),
            ],
            exception_handlers={404: _problem, 405: _problem},
        )

    @_serves("/api/openapi.json")
    async def _openapi(self, request: Request) -> Any:
        """This document."""
        return document(self._endpoints)

    @_serves(
        "/api/home",
        RunList,
        query={"q": "Words that a run has.", "state": f"One of {', '.join(GROUPS)}.", "limit": "Rows at most."},
    )
    async def _home(self, request: Request) -> Any:
        """All runs, and all open requests for a person."""
        return await self._feeds.home.shown(request.url.query)

    @_serves("/api/threads", list[ThreadRow])
    async def _threads(self, request: Request) -> Any:
        """The threads of the working directory, as `coterie threads` prints them."""
        return await asyncio.to_thread(self._feeds.places.threads)

    @_serves(
        "/api/thread",
        ServedThread,
        query={"name": "A thread.", "limit": "Messages at most."},
        required=frozenset({"name"}),
    )
    async def _thread(self, request: Request) -> Any:
        """The latest messages of a thread, as `coterie thread show` prints them."""
        name, most = request.query_params.get("name", ""), _number(request.query_params.get("limit"), MESSAGES)
        return await asyncio.to_thread(self._feeds.places.thread, name, min(most, MOST))

    @_serves("/api/about")
    async def _of_server(self, request: Request) -> Any:
        """The server: its version and its content."""
        return self._about | {"streams": self._feeds.streams, "now": SystemClock().now()}

    @_serves("/api/session", dict[str, str], takes=SessionCode)
    async def _session(self, request: Request) -> Any:
        """The secret of a session, for a code."""
        secret = self._access.trade((await body_of(request, SessionCode)).code)
        if not secret:
            raise HTTPException(401, "this address was used before or is older than a minute: run `coterie ui` again")
        return {"secret": secret}

    @_serves("/api/stream", str, takes=StreamTopics, media_type="text/event-stream")
    async def _stream(self, request: Request) -> Response:
        """The state of each topic, then its changes."""
        topics = (await body_of(request, StreamTopics)).topics
        return StreamingResponse(events(self._feeds, topics), media_type="text/event-stream")

    @_serves(_RUN, LiveState)
    async def _run(self, request: Request) -> Any:
        """The run, as `inspect RUN live` prints it."""
        feed = await self._feeds.run(request.path_params["key"])
        return await feed.with_live(lambda live: live.state()) | {"here": {"run": feed.place.about()}}

    @_serves(f"{_RUN}/turn", query=_TURN, required=frozenset(_TURN))
    async def _turn(self, request: Request) -> Any:
        """A turn."""
        runs, run, turn = await self._named(request)
        return (await asyncio.to_thread(detail, runs, run, turn)).data()

    @_serves(f"{_RUN}/files", ChangedFiles, query=_TURN, required=frozenset(_TURN))
    async def _files(self, request: Request) -> Any:
        """The files that a turn changed."""
        return await asyncio.to_thread(changed_files, *await self._named(request))

    @_serves(
        f"{_RUN}/records",
        RecordLines,
        query={"from": "The first, from 1.", "limit": f"Lines, {LINES} unless said, {MOST} at most."}
        | {"q": "A text that a line has.", "turn": "A turn that it is about.", "topic": "How its topic begins."}
        | _BELOW,
    )
    async def _records(self, request: Request) -> Any:
        """The records of a run as sentences."""
        query = request.query_params
        runs, run = await self._place(request)
        text, turn, topic = query.get("q", "").lower(), query.get("turn", ""), query.get("topic", "")
        begin, most = _number(query.get("from"), 1), min(_number(query.get("limit"), LINES), MOST)

        def fits(line: Line) -> bool:
            return turn in ("", line.turn) and line.topic.startswith(topic) and text in line.text.lower()

        def read() -> Any:
            lines = self._lines(runs, run)
            found = [line for line in lines if fits(line)]
            shown = found[begin - 1 : begin - 1 + most]
            return {"lines": shown, "of": len(found), "topics": sorted({line.topic for line in lines})}

        return await asyncio.to_thread(read)

    def _lines(self, runs: Runs, run: str) -> list[Line]:
        """The records of *run* as sentences; earlier ones are cached."""
        name = str(runs.folder(run))
        view = self._times.pop(name, None) or Timeline()
        for record in runs.read(run, len(view.lines) + 1):
            view.apply(record)
        self._times[name] = view  # only now: a request at the same time must not go on with it
        for old in list(self._times)[:-4]:
            self._times.pop(old, None)
        return view.lines

    @_serves(f"{_RUN}/record", Record, query={"seq": "Its number, from 1."} | _BELOW)
    async def _record(self, request: Request) -> Any:
        """A record."""
        runs, run = await self._place(request)
        seq = _number(request.query_params.get("seq"), 1)
        found = await asyncio.to_thread(lambda: list(islice(runs.read(run, seq), 1)))
        if not found:
            raise HTTPException(404, f"run {run} has no record {seq}")
        return found[0]

    @_serves(f"{_RUN}/cost", CostsAndBound)
    async def _cost(self, request: Request) -> Any:
        """The costs of the run."""
        feed = await self._feeds.run(request.path_params["key"])

        return await feed.with_live(partial(costs_and_bound, bound=self._worst_of))

    def _worst_of(self, plan: Plan, prices: Mapping[str, float]) -> WorstCase:
        """The worst case, which is cached for the next request."""
        if self._worst is None or self._worst[0] is not plan or self._worst[1] != prices:
            self._worst = plan, prices, worst_case(plan, prices)
        return self._worst[2]

    @_serves(f"{_RUN}/failure", FirstFailure | None)
    async def _failure(self, request: Request) -> Any:
        """The first failure of the run."""
        return await (await self._feeds.run(request.path_params["key"])).with_live(first_failure)

    @_serves(f"{_RUN}/values", what_if.ForkValues)
    async def _values(self, request: Request) -> Any:
        """What a fork of the run can change, with the present values."""
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        return await asyncio.to_thread(
            lambda: what_if.values(list(place.runs.read(place.run)), place.runs.journal(place.run).plan_now())
        )

    @_serves(f"{_RUN}/html", dict[str, str])
    async def _html(self, request: Request) -> Any:
        """The run as one file."""
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        return {"html": await asyncio.to_thread(page_of, place.runs, place.run)}

    @_serves("/api/diff", RunComparison, query={"a": "A run.", "b": "A run."}, required=frozenset("ab"))
    async def _diff(self, request: Request) -> Any:
        """Two runs, aligned by turn."""
        sides = []
        for name in ("a", "b"):
            place = await asyncio.to_thread(self._feeds.places.find, request.query_params.get(name, ""))
            sides.append((place.runs, place.run))
        return await asyncio.to_thread(compare, *sides)

    @_serves("/api/team")
    async def _team(self, request: Request) -> Any:
        """The team's file that is shown, with its findings."""
        try:
            event, _ = await (await self._feeds.open("team")).state("")
        except LookupError:
            raise HTTPException(404, "no team's file is shown: run `coterie ui FILE`") from None
        assert event is not None
        return msgspec.Raw(event.data)

    @_serves(f"{_RUN}/preview", ActionPreview, takes=ANY)
    async def _preview(self, request: Request) -> Any:
        """The effect that an action would have."""
        place, action = await self._action(request)
        return await asyncio.to_thread(preview, place, action)

    @_serves(f"{_RUN}/act", ActionResult, takes=ANY)
    async def _act(self, request: Request) -> Any:
        """Perform an action."""
        assert self._may_act is not None
        place, action = await self._action(request)
        if why := await asyncio.to_thread(self._may_act, request.scope):
            command = await asyncio.to_thread(action.command, place)
            raise HTTPException(403, f"{why}; in a terminal: {command}")
        feed = await self._feeds.run(place.key)
        epoch = await feed.with_live(lambda live: live.runs[live.run].view.epoch)
        return await asyncio.to_thread(act, place, action, epoch)

    async def _action(self, request: Request) -> tuple[ServedRun, PageAction]:
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        action: PageAction = await body_of(request, ANY)
        return place, action

    async def _place(self, request: Request) -> tuple[Runs, str]:
        """The run of a request; `run` names one below the root run as `TURN.ATTEMPT/…`."""
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        below = request.query_params.get("run", "")
        return place.runs, f"{place.run}/{below}" if below else place.run

    async def _named(self, request: Request) -> tuple[Runs, str, str]:
        """The turn of a request, by its address in the root run."""
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        below, _, turn = request.query_params.get("turn", "").rpartition("/")
        return place.runs, f"{place.run}/{below}" if below else place.run, turn


async def body_of(request: Request, type_: Any) -> Any:
    """The JSON of the body as a *type_*.

    Raises:
        HTTPException: If it is invalid or too large.
    """
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > LARGEST:
            raise HTTPException(413, "the body is too large")
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError as error:
        raise HTTPException(422, f"the body is not what {request.url.path} takes: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HTTPException(422, "the body is not JSON") from None


async def _answer(value: Value, request: Request) -> Response:
    """The response with *value*, or with an error."""
    try:
        found = await value(request)
        return found if isinstance(found, Response) else _json(found)
    except HTTPException as error:
        return _json({"error": error.detail}, error.status_code)
    except (NoSuchRun, NoSuchTurn) as error:
        return _json({"error": str(error)}, 404)
    except UsageError as error:
        return _json({"error": str(error)}, 409)
    except (OSError, CoterieError) as error:
        return _json({"error": str(error)}, 500)
    except Exception as error:  # a defect, which the page reports as such
        if os.environ.get("COTERIE_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        return _json({"error": f"this is a bug in coterie: {error_line(error)}; please report it"}, 500)


async def _unknown(request: Request) -> Any:
    raise HTTPException(404, f"nothing is at {request.url.path}")


async def _problem(request: Request, error: Any) -> Response:
    return _json({"error": str(error.detail)}, error.status_code)


async def _static(request: Request) -> Response:
    """A file of the page, or the page itself, which also says that nothing is at an address."""
    name = request.path_params["path"]
    is_known = name.partition("/")[0] in VIEWS
    if is_known or Path(name).suffix not in KINDS:
        return Response(_files()["index.html"], 200 if is_known else 404, media_type=KINDS[".html"])
    if (data := _files().get(name)) is None:
        return _json({"error": f"nothing is at {request.url.path}"}, 404)
    return Response(data, media_type=KINDS[Path(name).suffix])


@cache
def _files() -> dict[str, bytes]:
    """The files of the page."""
    return {one.relative_to(PAGE).as_posix(): one.read_bytes() for one in PAGE.rglob("*") if one.suffix in KINDS}


def _number(text: str | None, usual: int) -> int:
    return max(int(text), 1) if text is not None and text.isdecimal() else usual


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), status, media_type="application/json")
