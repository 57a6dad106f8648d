"""Libraries of extras that are not installed: every command names the extra, and none reports a bug."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from record_model_team import TASK

from coterie.team.options.extras import EXTRAS

ROOT = Path(__file__).parents[3]

WITHOUT = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder

absent, find = set(sys.argv[1].split(",")), PathFinder.find_spec
PathFinder.find_spec = lambda name, *others: None if name.partition(".")[0] in absent else find(name, *others)
from coterie.interfaces.cli.app import main
said = []
for words in json.loads(sys.argv[2]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    said.append([status, out.getvalue() + err.getvalue()])
print(json.dumps(said))
"""

COMMANDS = {
    "serve --cluster {cluster}": "cluster",
    "submit team.at hi --cluster {cluster}": "cluster",
    "cluster releases --cluster {cluster}": "cluster",
    "resume last --cluster {database}": "cluster",
    "topology lsp": "lsp",
    "zmq-proxy": "zmq",
    "run -t zmq.yaml": "zmq",
    "run -t nats.yaml": "nats",
    "run -t http.yaml": "http",
    "ui --no-open": "ui",
    "state letters -t nats.yaml": "nats",
    "run team.at hi -b claude-sdk": "claude",
    "run team.at hi -b kiro": "acp",
}
"""What needs an extra, with its name."""

SYSTEM = (
    "transport: {transport}\nsupervision: {{name: root, children: [{{type: dynamic_supervisor, name: pool}}{child}]}}\n"
)


def test_a_missing_library_is_never_a_bug_in_coterie(tmp_path: Path) -> None:
    """Each command ends with status 1 and the line that installs what it lacks; a cassette is played without any."""
    (tmp_path / "team.at").write_text("topology t : [pipeline] { agent a { model: sonnet } flow { a } }")
    (tmp_path / "zmq.yaml").write_text(SYSTEM.format(transport="{type: zmq}", child=""))
    (tmp_path / "nats.yaml").write_text(SYSTEM.format(transport="{type: nats, jetstream: true}", child=""))
    (tmp_path / "http.yaml").write_text(
        SYSTEM.format(transport="{type: in_process}", child=", {name: web, type: http_gateway, config: {port: 0}}")
    )
    modules = ",".join(module for extra in EXTRAS.values() for module in extra.libraries)
    cluster = f"temporal://127.0.0.1:1/x?export={tmp_path}/export"
    database = "temporal://127.0.0.1:1/x?export=postgresql://127.0.0.1:1/runs"
    example = ROOT / "examples" / "model-team"
    replay = ["run", f"{example}/team.at", TASK, "--cassette", f"{example}/cassette.jsonl"]
    words = [replay, *(command.format(cluster=cluster, database=database).split() for command in COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, modules, json.dumps(words)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr

    (status, replayed), *others = json.loads(done.stdout)
    assert (status, "completed: 4 turns" in replayed) == (0, True), replayed
    said = dict(zip(COMMANDS, others, strict=True))
    wrong = {
        command: (status, text)
        for (command, (status, text)), extra in zip(said.items(), COMMANDS.values(), strict=True)
        if status != 1 or "bug" in text or f"pip install 'coterie[{extra}]'" not in text
    }
    assert not wrong, "\n".join(f"{command}: {status}\n{text}" for command, (status, text) in wrong.items())


def test_every_extra_is_in_the_table() -> None:
    """With each library that it installs by itself."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {
        name: {found[0] for line in lines if not (found := re.findall(r"^[\w-]+", line))[0].startswith("coterie")}
        for name, lines in declared.items()
    }
    assert EXTRAS.keys() == needed.keys() - {"dev"}
    missing = {name: needed[name] - set(extra.libraries.values()) for name, extra in EXTRAS.items()}
    assert not any(missing.values()), missing
