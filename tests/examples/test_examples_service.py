"""The example of a service: in process, and as its users have it, in Chromium, stopped and killed while they watch."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from free_ports import free_port
from page_browser import chromium
from until import until

from coterie.errors import RunExists
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import RunStopped

EXAMPLE = Path(__file__).parents[2] / "examples" / "service"
SAYS, HELD = (
    '        context.emit(f"{word} ")\n',
    '        while word == "about" and not pathlib.Path("go").exists():\n            time.sleep(0.01)\n',
)
"""What the example's team does for each word, and what holds it in the middle of a reply."""

pytestmark = pytest.mark.slow


@pytest.mark.anyio
async def test_an_order_is_begun_streamed_and_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pieces of text come with positions, and an order about something else cannot take its number."""
    pytest.importorskip("fastapi")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import app as service  # type: ignore[import-not-found]

    assert len((EXAMPLE / "app.py").read_text().splitlines()) <= 60
    transport = httpx.ASGITransport(service.app)
    async with service.lifespan(service.app), httpx.AsyncClient(transport=transport, base_url="http://service") as http:
        assert (await http.post("/orders/42", params={"about": "a parcel"})).json() == {"run": "order-42"}
        stream = (await http.get("/orders/42/events")).text
        assert "".join(re.findall(r'event: text\ndata: "(.*)"', stream)).startswith("Dear customer, about a parcel:")
        ids = re.findall(r"^id: (.+)", stream, re.MULTILINE)
        with pytest.raises(RunExists):
            await http.post("/orders/42", params={"about": "a letter"})
        for _ in range(2):
            rest = (await http.get("/orders/42/events", headers={"Last-Event-ID": ids[4]})).text
            assert rest == stream[stream.index(f"id: {ids[5]}\n") :]
            service.runs.pop("42", None)  # as after a restart
        assert (await http.post("/orders/42", params={"about": "a parcel"})).json() == {"run": "order-42"}
        assert (await service.runs["42"]).reason == "waiting"
        [(turn, text)] = (await http.get("/orders/42/questions")).json().items()
        assert "Send it?" in text
        answered = await http.post("/orders/42/questions", params={"turn": turn, "text": "yes"})
        assert answered.json() == "queued"
        assert Runs(tmp_path / ".coterie").status("order-42") == "completed"
    for name in ("app", "agents"):
        sys.modules.pop(name, None)


class Service:
    """The example in *folder*, whose team stops in the middle of a reply until there is a file `go`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs, self._port = folder, Runs(folder / ".coterie"), free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        for name in ("app.py", "order.html"):
            (folder / name).write_bytes((EXAMPLE / name).read_bytes())
        team = (EXAMPLE / "agents.py").read_text()
        assert team.count(SAYS) == 1
        (folder / "agents.py").write_text("import pathlib\nimport time\n" + team.replace(SAYS, HELD + SAYS))
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "--timeout-graceful-shutdown", "1", "--port", str(self._port)]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen([*command, "app:app"], cwd=self.folder, stdout=log, stderr=log)
        until(lambda: b"running on" in (self.folder / "log").read_bytes() or self._process.poll() is not None)
        assert self._process.poll() is None, (self.folder / "log").read_text()

    def end(self, by: signal.Signals) -> None:
        self._process.send_signal(by)
        self._process.wait(60)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    one = Service(tmp_path)
    yield one
    one.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_browser_sees_an_order_through_a_restart(service: Service, browser: Any, by: signal.Signals) -> None:
    """What is written appears while the run works; the page goes on by itself when the service does, and answers."""
    page = browser.new_page()
    page.set_default_timeout(60_000)
    assert page.request.post(f"{service.url}/orders/42?about=tea").json() == {"run": "order-42"}
    page.goto(f"{service.url}/orders/42")
    said, form, state = page.locator("#said"), page.locator("#form"), page.locator("#state")
    said.get_by_text("Dear customer,").wait_for()
    assert service.runs.status("order-42") == "running"

    service.end(by)
    is_in_order = by == signal.SIGTERM
    assert (b"shutdown complete" in (service.folder / "log").read_bytes()) == is_in_order
    last = list(service.runs.read("order-42"))[-1]
    assert (isinstance(last, RunStopped) and last.by == "process") == is_in_order
    assert service.runs.status("order-42").partition(":")[0] == ("stopped" if is_in_order else "cut off")

    service.start()
    until(lambda: service.runs.status("order-42") == "running", 60)
    (service.folder / "go").touch()
    form.get_by_text("Send it?").wait_for()
    assert said.inner_text().strip() == "Dear customer, about tea: we will look into it."
    form.locator("input").fill("yes")
    form.get_by_role("button").click()
    state.get_by_text("run.finished").wait_for()
    form.wait_for(state="hidden")
    assert service.runs.status("order-42") == "completed"
    page.close()
