"""The overhead of each backend of coding agents per turn, above the bare fake agent.

The bare agent is started, given its whole conversation at once, and read to its end. The backend does the same with its
handshake, events, transcript and the end of all processes; nothing is sandboxed. Each figure is the median of several
turns in which both sides take turns; the first turn of a backend, which imports its library, is shown apart. The
overhead of pi is negative: one process serves all turns, and only the first of them pays for its start.

    python benchmarks/coding_agents.py
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from coterie.agents.backends.base import Answer, Backend, Request
from coterie.agents.backends.needs import CODING
from coterie.team.planning.plan import AgentPlan

FAKES = Path(__file__).parents[1] / "tests" / "support" / "fake_agents"
TEXT = [{"type": "text", "text": "answers"}]
CONVERSATIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "acp": (
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": "session-1", "prompt": TEXT}},
    ),
    "claude-sdk": (
        {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}},
        {"type": "user", "uuid": "u", "message": {"role": "user", "content": "answers"}},
    ),
    "pi": ({"type": "prompt", "id": "1", "message": "answers"},),
}
"""What a backend says to its agent in one turn, by kind."""


def fake(kind: str) -> tuple[str, str]:
    return sys.executable, str(FAKES / f"{kind.removesuffix('-sdk')}_agent.py")


def bare(kind: str) -> float:
    """Seconds of the fake agent alone."""
    lines = "".join(f"{json.dumps(message)}\n" for message in CONVERSATIONS[kind])
    began = time.perf_counter()
    done = subprocess.run(fake(kind), input=lines, capture_output=True, text=True, check=True)
    took = time.perf_counter() - began
    assert "answer" in done.stdout, done
    return took


async def turn(backend: Backend, kind: str, n: int, folder: Path) -> float:
    """Seconds of one turn through *backend*."""
    agent = AgentPlan(name="a", backend=kind, argv=fake(kind), options={"sandbox": "off"})
    request = Request(
        run="bench",
        turn=f"a#{n}",
        attempt=1,
        agent=agent,
        prompt="answers",
        cwd=folder,
        folder=folder / f"{n}",
        transcript=folder / f"stream.{n}.jsonl",
    )
    began = time.perf_counter()
    session = await backend.start(request, lambda event: None)
    result = await session.result()
    took = time.perf_counter() - began
    assert isinstance(result, Answer), result
    return took


async def measure(kind: str, turns: int) -> None:
    backend = CODING[kind].make()
    alone, through = [], []
    with tempfile.TemporaryDirectory() as folder:
        first = await turn(backend, kind, 0, Path(folder))
        for n in range(1, turns + 1):
            alone.append(bare(kind))
            through.append(await turn(backend, kind, n, Path(folder)))
        await backend.close()
    agent, turn_seconds = statistics.median(alone), statistics.median(through)
    figures = (agent, turn_seconds, turn_seconds - agent, first)
    print(f"{kind:12}" + "".join(f"{1000 * figure:10.1f} ms" for figure in figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=20)
    arguments = parser.parse_args()
    print(f"{'backend':12}" + "".join(f"{name:>13}" for name in ("bare agent", "turn", "overhead", "first turn")))
    for kind, backend in CODING.items():
        if not backend.is_installed:
            print(f"{kind:12}  skipped: pip install 'coterie[{backend.extra}]'")
        else:
            asyncio.run(measure(kind, arguments.turns))


if __name__ == "__main__":
    main()
