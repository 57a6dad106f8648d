"""The topology server of a running system: what it shows, what it refuses, and how it starts and stops."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
from http_clients import client, url
from until import soon

from coterie import Runtime, Supervisor, TopologyServer
from coterie.agents.actors.hosted import SystemPorts
from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess
from coterie.agents.actors.system import ActorSystem
from coterie.errors import CannotStart
from coterie.history.journal.records import ActorCrashed, Record
from coterie.team.planning.system import ActorPlan, DynamicPlan, SupervisorPlan, SystemPlan, TopologyServerPlan
from coterie.team.topology.system.fields import TopologyServerConfig

HAS_PROC = os.path.exists("/proc/self/stat")
"""Whether the library can read what it says of the process."""

TOKEN = "a-token-for-tests"
NUMBERS = count()


class Desk(AgentProcess):
    """Does what the payload says."""

    async def on_start(self) -> None:
        self.number = next(NUMBERS)

    async def handle(self, message: Message) -> Message | None:
        match message.payload:
            case {"crash": _}:
                raise ValueError("crash")
            case {"wait": _}:
                await asyncio.sleep(60)
            case {"spawn": name}:
                await self.spawn(Desk, name)
        return self.reply({"number": self.number})


class Unwilling(Desk):
    """Starts once."""

    starts = 0

    async def on_start(self) -> None:
        type(self).starts += 1
        if self.starts > 1:
            raise OSError("no desk")


CLASSES: dict[str, type] = {"Desk": Desk, "Unwilling": Unwilling}
Scene = Callable[[ActorSystem, Any, str], Awaitable[None]]


def play(scene: Scene, *children: Any, token_env: str = "", sink: Any = None, **config: Any) -> None:
    """Run *scene* with a system, a client, and the address of its topology server."""
    server = TopologyServerPlan(
        name="topo", config=TopologyServerConfig(port=0, token_env=token_env, **config), shutdown=1.0
    )
    agents = (ActorPlan(name="desk", type="Desk", shutdown=0.05), DynamicPlan(name="pool"), *children, server)
    root = SupervisorPlan(name="root", children=agents, backoff_base=0.0)

    async def main() -> None:
        system = ActorSystem(SystemPlan(root=root), SystemPorts(classes=CLASSES, sink=sink))
        await system.start()
        try:
            async with client() as http:
                await scene(system, http, url(served(system).server))
        finally:
            await system.stop()

    asyncio.run(main())


def served(system: ActorSystem) -> Any:
    return system.node.registry.entries["topo"].agent


async def restarted(system: ActorSystem, name: str = "desk") -> None:
    await soon(lambda: system.node.health(name).restarts > 0)


def test_it_shows_the_running_tree() -> None:
    """Nested in `/topology`, flat in `/agents`, one in `/agents/{name}` with its dead letters; spawned agents too."""

    async def scene(system: ActorSystem, http: Any, at: str) -> None:
        await system.ask("desk", {"spawn": "helper"})
        await system.send("desk", {"crash": 1}, "order")
        await restarted(system)
        tree = (await http.get(f"{at}/topology")).json()
        assert (tree["transport"], tree["root"]["name"], tree["root"]["state"]) == ("in_process", "root", "running")
        desk, pool, _ = tree["root"]["children"]
        assert [desk["restarts"], desk["crashes"], desk["handled"], desk["state"]] == [1, 1, 2, "running"]
        assert [child["name"] for child in pool["children"]] == ["helper"]
        assert "children" not in desk
        agents = (await http.get(f"{at}/agents")).json()["agents"]
        assert [one["name"] for one in agents] == ["desk", "helper", "topo"]
        one = (await http.get(f"{at}/agents/desk")).json()
        assert one["error"] == "'desk' crashed: ValueError: crash"
        assert [(letter["type"], letter["reason"]) for letter in one["dead_letters"]] == [("order", "crashed")]
        unknown = await http.get(f"{at}/agents/dask")
        assert unknown.status_code == 404
        assert unknown.json() == {"error": "there is no node 'dask'; did you mean 'desk'?"}
        assert (await http.get(f"{at}/nothing")).json() == {"error": "Not Found"}
        assert (await http.put(f"{at}/agents")).status_code == 403

    play(scene)


def test_health_says_what_does_not_run() -> None:
    """Degraded is still 200: the system answers."""

    async def scene(system: ActorSystem, http: Any, at: str) -> None:
        assert (await http.get(f"{at}/health")).json() == {"status": "ok", "not_running": []}
        await system.tree.stop_agent("desk")
        degraded = await http.get(f"{at}/health")
        assert (degraded.status_code, degraded.json()) == (200, {"status": "degraded", "not_running": ["desk"]})
        system.tree.root.is_running = False
        stopped = await http.get(f"{at}/health")
        system.tree.root.is_running = True
        assert (stopped.status_code, stopped.json()["status"]) == (503, "not running")

    play(scene)


def test_metrics_are_those_of_the_system() -> None:
    """In the format that the scraper asks for, with the names of nodes as labels."""

    async def scene(system: ActorSystem, http: Any, at: str) -> None:
        await system.send("desk", {"crash": 1})
        await restarted(system)
        waiting = asyncio.ensure_future(system.ask("desk", {"wait": 1}))
        await asyncio.sleep(0)
        await system.send("desk", {})
        answer = await http.get(f"{at}/metrics")
        lines = answer.text.splitlines()
        for line in (
            'coterie_node_state{kind="agent",name="desk",state="running"} 1.0',
            'coterie_node_restarts_total{name="desk"} 1.0',
            'coterie_agent_mailbox_messages{agent="desk"} 1.0',
            'coterie_agent_messages_handled_total{agent="desk"} 1.0',
            'coterie_agent_crashes_total{agent="desk"} 1.0',
            'coterie_dead_letters_total{reason="crashed"} 1.0',
            "coterie_late_replies_total 0.0",
        ):
            assert line in lines
        assert any(line.startswith("process_cpu_seconds_total ") for line in lines) == HAS_PROC
        newer = await http.get(f"{at}/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert newer.headers["content-type"].startswith("application/openmetrics-text")
        assert newer.text.endswith("# EOF\n")
        waiting.cancel()

    play(scene)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6789", "127.0.0.1.evil.example"])
def test_a_web_page_cannot_read_it(host: str) -> None:
    """Without a token only names of this machine are answered, whatever a name server says about others."""

    async def scene(system: ActorSystem, http: Any, at: str) -> None:
        assert (await http.get(f"{at}/topology", headers={"host": host})).status_code == 403
        for own in ("localhost:6789", "127.0.0.1", "[::1]:6789"):
            assert (await http.get(f"{at}/health", headers={"host": own})).status_code == 200

    play(scene)


def test_without_a_token_it_is_read_only() -> None:
    """Nothing is stopped, and the answer says what is missing."""

    async def scene(system: ActorSystem, http: Any, at: str) -> None:
        for action in ("stop", "restart"):
            refused = await http.post(f"{at}/agents/desk/{action}")
            assert (refused.status_code, "set token_env" in refused.json()["error"]) == (403, True)
        assert {one.name: one.state for one in system.describe()}["desk"] == "running"

    play(scene)


def test_with_a_token_nodes_are_stopped_and_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request but `/health` needs it; a stopped node is started again by restart, with its mailbox."""
    monkeypatch.setenv("TOPO_TOKEN", TOKEN)
    right = {"authorization": f"Bearer {TOKEN}"}

    async def scene(system: ActorSystem, http: Any, at: str) -> None:
        for wrong in ({}, {"authorization": "Bearer x"}, {"authorization": TOKEN}, {"authorization": b"Bearer \xff"}):
            for path in ("topology", "agents", "agents/desk", "metrics", "nothing"):
                refused = await http.get(f"{at}/{path}", headers=wrong)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert (await http.post(f"{at}/agents/desk/stop", headers=wrong)).status_code == 401
            assert (await http.get(f"{at}/health", headers=wrong)).json() == {"status": "ok"}
        http.headers.update(right)
        first = (await system.ask("desk")).payload
        restarted = await http.post(f"{at}/agents/desk/restart")
        assert restarted.json() == {"name": "desk", "action": "restart", "state": "running"}
        assert (await system.ask("desk")).payload != first
        stopped = await http.post(f"{at}/agents/desk/stop")
        assert stopped.json() == {"name": "desk", "action": "stop", "state": "stopped"}
        assert (await http.post(f"{at}/agents/desk/restart")).json()["state"] == "running"
        assert await system.ask("desk")
        for path, status in (("dusk/stop", 404), ("root/stop", 404), ("desk/kill", 404)):
            assert (await http.post(f"{at}/agents/{path}")).status_code == status
        root = await http.post(f"{at}/agents/root/stop")
        assert root.json() == {"error": "'root' is the root of the tree: it stops with the system"}
        failed = await http.post(f"{at}/agents/unwilling/restart")
        assert (failed.status_code, failed.json()) == (409, {"error": "OSError: no desk"})

    Unwilling.starts = 0
    play(scene, ActorPlan(name="unwilling", type="Unwilling", restart="temporary"), token_env="TOPO_TOKEN")


def test_it_can_be_told_to_restart_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes before its end; nothing waits for itself."""
    monkeypatch.setenv("TOPO_TOKEN", TOKEN)

    async def scene(system: ActorSystem, http: Any, at: str) -> None:
        answer = await http.post(f"{at}/agents/topo/restart", headers={"authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
        await restarted(system, "topo")

    play(scene, token_env="TOPO_TOKEN")


def test_a_busy_port_is_a_failure_of_its_start() -> None:
    """At boot the error names the address; during a restart its supervisor tries again, and the others go on."""
    records: list[Record] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = TopologyServerPlan(name="topo", config=TopologyServerConfig(port=port))
        plan = SystemPlan(root=SupervisorPlan(name="root", children=(server,)))

        async def main() -> None:
            await ActorSystem(plan, SystemPorts(sink=records.append)).start()

        with pytest.raises(CannotStart, match=f"topology_server 'topo' cannot listen at 127.0.0.1:{port}: Address"):
            asyncio.run(main())
    assert [record.during for record in records if isinstance(record, ActorCrashed)] == ["start"]


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"token_env": "NO_SUCH_TOKEN"}, "the environment variable NO_SUCH_TOKEN is not set"),
        ({"host": "0.0.0.0"}, "topology_server 'topo' binds to '0.0.0.0': set token_env"),
    ],
)
def test_a_surface_that_others_reach_has_a_token(config: dict[str, Any], error: str) -> None:
    """Also for a system declared in Python, which no file check has seen."""

    async def scene(system: ActorSystem, http: Any, at: str) -> None: ...

    with pytest.raises(CannotStart, match=error):
        play(scene, **config)


def test_a_system_in_python_has_one_too() -> None:
    """`TopologyServer` in the tree, with the fields of the file; it answers messages with the topology."""

    async def main() -> None:
        async with Runtime(Supervisor("root", children=[Desk("desk"), TopologyServer("topo", port=0)])) as runtime:
            topology = (await runtime.ask("topo")).payload
            assert [child["name"] for child in topology["root"]["children"]] == ["desk", "topo"]

    asyncio.run(main())
