"""The example of a service: an order begins by its id, is streamed, asked about, answered, and found again."""

import re
import sys
from pathlib import Path

import httpx
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "service"


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_order_is_begun_streamed_and_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pieces of text come with positions, its question has a form, and the answer carries it on."""
    pytest.importorskip("fastapi")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import app as service  # type: ignore[import-not-found]

    assert len((EXAMPLE / "app.py").read_text().splitlines()) <= 60
    transport = httpx.ASGITransport(service.app)
    async with service.lifespan(service.app), httpx.AsyncClient(transport=transport, base_url="http://service") as http:
        assert (await http.post("/orders/42", params={"about": "a parcel"})).json() == {"run": "order-42"}
        stream = (await http.get("/orders/42")).text
        assert "".join(re.findall(r'event: text\ndata: "(.*)"', stream)).startswith("Dear customer, about a parcel:")
        ids = re.findall(r"^id: (.+)", stream, re.MULTILINE)
        del service.runs["42"]  # as after a restart
        rest = (await http.get("/orders/42", headers={"Last-Event-ID": ids[4]})).text
        assert rest == stream[stream.index(f"id: {ids[5]}\n") :]
        assert (await http.post("/orders/42", params={"about": "a parcel"})).json() == {"run": "order-42"}
        assert (await service.runs["42"]).reason == "waiting"
        assert "Send it?" in (await http.get("/orders/42/question")).text
        assert (await http.post("/orders/42/question")).json() == ["queued", "completed"]
    for name in ("app", "agents"):
        sys.modules.pop(name, None)
