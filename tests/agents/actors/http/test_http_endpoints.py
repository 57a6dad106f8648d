"""`/health`, `/ready` and `/metrics` of gateways and nodes."""

import asyncio
from pathlib import Path

import httpx
import pytest
from free_ports import free_port
from gateways import Echo, gateway

from coterie.agents.actors.http.auth import _key
from coterie.agents.actors.http.endpoints import answering
from coterie.agents.actors.http.gateway import _query
from coterie.execution.cluster.serve import ServingState
from coterie.team.topology.system.fields import JwtFields


def test_a_node_says_whether_it_takes_work() -> None:
    """Ready once it serves, and not while it stops; web pages and other hosts learn nothing."""

    async def scene() -> None:
        status, port = ServingState(), free_port()
        async with answering(status, port), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            assert (await http.get("/health")).json() == {"status": "ok"}
            refused = await http.get("/ready")
            assert (refused.status_code, refused.json()) == (503, {"ready": False, "reason": "starting"})
            status.why_not, status.turns = "", lambda: 3
            assert (await http.get("/ready")).json() == {"ready": True}
            told = (await http.get("/metrics")).text
            assert "coterie_node_turns_running 3.0" in told
            assert "coterie_node_ready 1.0" in told
            assert (await http.get("/health", headers={"host": "example.org"})).status_code == 403
            assert (await http.post("/health")).status_code == 403
            assert (await http.get("/else")).status_code == 404

    asyncio.run(scene())


def test_a_gateway_answers_probes_without_a_token_and_metrics_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route of that path comes first, and a gateway that is full is alive and not ready."""
    monkeypatch.setenv("SHOP_TOKEN", "x" * 32)
    own = {"path": "/health", "agent": "echo", "method": "GET"}

    async def scene() -> None:
        async with gateway(
            routes=[{"path": "/echo", "agent": "echo", "method": "POST"}], auth={"token_env": "SHOP_TOKEN"}
        ) as api:
            assert (await api.get("/health")).status_code == 200
            assert (await api.get("/ready")).status_code == 200
            assert (await api.get("/metrics")).status_code == 401
            allowed = await api.get("/metrics", headers={"authorization": f"Bearer {'x' * 32}"})
            assert 'coterie_gateway_requests_total{gateway="api",status="401"} 1.0' in allowed.text
        async with gateway(routes=[own]) as api:
            assert "payload" in (await api.get("/health")).json()

    asyncio.run(scene())


def test_a_full_gateway_is_not_ready() -> None:
    """It is alive: an orchestrator must not restart it."""

    async def scene() -> None:
        routes = [{"path": "/echo", "agent": "echo", "method": "POST"}]
        async with gateway(routes=routes, max_requests=1) as api:
            Echo.released = asyncio.Event()
            held = asyncio.create_task(api.post("/echo", json={"hold": True}))
            async with asyncio.timeout(20):
                while (await api.get("/ready")).status_code != 503:  # noqa: ASYNC110 - the request must arrive first
                    await asyncio.sleep(0.02)
            assert (await api.get("/health")).status_code == 200
            assert (await api.post("/echo", json={})).status_code == 503
            Echo.released.set()
            assert (await held).status_code == 200

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"", {}),
        (b"a=1", {"a": "1"}),
        (b"a=1&b=&a=2", {"a": ["1", "2"], "b": ""}),
        (b"a=1&a=2&a=3&a=4", {"a": ["1", "2", "3", "4"]}),
        (b"a=%C3%A4+x", {"a": "ä x"}),
    ],
)
def test_a_parameter_that_is_repeated_is_a_list(query: bytes, found: dict[str, object]) -> None:
    """Of all its values, in order."""
    assert _query(query) == found


@pytest.mark.parametrize(("algorithm", "least"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_has_as_many_bytes_as_its_algorithm(
    monkeypatch: pytest.MonkeyPatch, algorithm: str, least: int
) -> None:
    """One byte less is refused with both numbers."""
    fields = JwtFields(algorithm=algorithm, secret_env="KEY")  # type: ignore[arg-type]
    monkeypatch.setenv("KEY", "x" * least)
    assert _key(fields, Path()) == b"x" * least
    monkeypatch.setenv("KEY", "x" * (least - 1))
    with pytest.raises(ValueError, match=f"KEY has {least - 1} bytes, and {least} are the least"):
        _key(fields, Path())
