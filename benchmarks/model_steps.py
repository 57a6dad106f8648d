"""The cost of keeping a model's conversation, beside the same conversation that is not kept.

A provider on loopback, in a process of its own, answers at once. Turns with 20 rounds of one tool call, and turns
without tools; both sides take turns, and each figure is the median of several rounds. The steps lie in the folder.

    python benchmarks/model_steps.py --folder /path/on/the/disk
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from coterie.agents.backends.base import Answer, Event, Request
from coterie.agents.backends.models.backend import ModelBackend
from coterie.team.planning.plan import AgentPlan

ROUNDS = 20
_HEAD = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "fox"}


def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


def _answer(rounds: int, done: int) -> bytes:
    """The streamed answer to a request that has *done* results of *rounds*."""
    call = {
        "index": 0,
        "id": f"c{done}",
        "type": "function",
        "function": {"name": "note", "arguments": '{"text": "a"}'},
    }
    delta: dict[str, Any] = {"role": "assistant", "tool_calls": [call]} if done < rounds else {"content": "Done."}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if done < rounds else "stop"}]},
        {"choices": [], "usage": usage},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(_HEAD | chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


async def _serve(listener: socket.socket) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            body = json.loads(await reader.readexactly(size))
            done = sum(message["role"] == "tool" for message in body["messages"])
            said = _answer(int(body["model"]), done)
            kind = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
            writer.write(kind % len(said) + said)

    async with await asyncio.start_server(talk, sock=listener) as server:
        await server.serve_forever()


def _provider(listener: socket.socket) -> None:
    asyncio.run(_serve(listener))


async def _turn(backend: ModelBackend, url: str, rounds: int, folder: Path | None) -> tuple[float, float]:
    """Seconds of one turn with *rounds* of tools, and those of the processor."""
    options = {"provider": "openai", "base_url": url, "python_tools": {"note": "model_steps:note"}, "price_in": 0.0}
    agent = AgentPlan(name="a", backend="model", model=str(rounds), options=options)
    heard: list[Event] = []
    began, used = time.perf_counter(), time.process_time()
    request = Request(run="r", turn="a#1", attempt=1, agent=agent, prompt="Work.", folder=folder)
    result = await (await backend.start(request, heard.append)).result()
    seconds = time.perf_counter() - began, time.process_time() - used
    assert isinstance(result, Answer), result
    return seconds


async def measure(url: str, rounds: int, repeat: int, place: Path) -> list[list[float]]:
    """The medians of a turn that is not kept and of one that is, each in seconds and in those of the processor."""
    backend = ModelBackend(environment={"OPENAI_API_KEY": "key-of-nobody"})
    plain, kept = list[tuple[float, float]](), list[tuple[float, float]]()
    for n in range(repeat + 3):  # the first ones load the library
        one = await _turn(backend, url, rounds, None)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            other = await _turn(backend, url, rounds, Path(folder) / "a#1.1")
        if n >= 3:
            plain.append(one)
            kept.append(other)
    await backend.close()
    return [[statistics.median(one) for one in zip(*side, strict=True)] for side in (plain, kept)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the steps are kept")
    parser.add_argument("--rounds", type=int, default=40, help="how often each figure is measured")
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        server = multiprocessing.get_context("fork").Process(target=_provider, args=(listener,), daemon=True)
        server.start()
        print(f"{'':34}{'not kept':>10}{'kept':>10}{'ratio':>8}   {os.cpu_count()} processors")
        for name, rounds in ((f"a step, of {ROUNDS}", ROUNDS), ("a turn without tools", 0)):
            plain, kept = asyncio.run(measure(url, rounds, given.rounds, given.folder))
            share = 1000 / (rounds + 1)
            for what, one, other in zip(("", ", processor"), plain, kept, strict=True):
                print(f"{name + what:34}{one * share:7.2f} ms{other * share:7.2f} ms{other / one:8.2f}")
        server.terminate()


if __name__ == "__main__":
    main()
