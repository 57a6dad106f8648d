"""Makes the runs whose views `tests/interfaces/test_views_shown.py` compares: `python tests/data/shown/make.py`.

They are real runs of small programs, kept as they were written: a flow with a review, one that fails, one that waits
for a person, a team in a team, a map, a fork, and loops that complete, stall and are stopped.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
PLACE = Path("/home/ada/project")
"""Where the runs are made, since their journals name it. It must not be there."""
UNREAD = ("index", "lock", "secret", "autoloops", ".gitignore")
"""The files of runs that no view reads."""

AGENT = r"""
case $AUTOLOOP_USAGE_FILE in ?*)
  echo '{"input_tokens": 1200, "output_tokens": 80, "cost_usd": 0.02}' > "$AUTOLOOP_USAGE_FILE";;
esac
cat > /dev/null
case $COTERIE_TURN in
  scout*) echo 'Three files.'; echo '{"files": ["a.py", "b.py", "c.py"]}';;
  reader*2*) echo "cannot read it" >&2; exit 1;;
  reader*) echo 'Read.'; echo '{"verdict": "fine"}';;
  reviewer\#1) echo 'Show how to reproduce it.'; echo '{"verdict": "revise"}';;
  reviewer*) echo 'Clear.'; echo '{"verdict": "approve"}';;
  broken*) echo 'it is broken' >&2; exit 3;;
  *) echo "$COTERIE_AGENT was here, with <b>marks</b> and ünïcode";;
esac
"""
TEAMS = {
    "review": """
  agent planner  { WORKS }
  agent security { WORKS }
  agent writer   { WORKS }
  agent reviewer { WORKS outputs { verdict: approve | revise } }
  flow {
    planner -> [security, writer]
    [security, writer] -> reviewer
    reviewer -> writer [when reviewer.verdict == "revise", max 2]
  }""",
    "fails": """
  agent writer { WORKS }
  agent broken { WORKS }
  flow { writer -> broken }""",
    "waits": """
  agent writer { WORKS }
  human boss { outputs { verdict: approve | revise } }
  agent publisher { WORKS }
  flow { writer -> boss -> publisher }""",
    "outer": """
  agent writer { WORKS }
  agent inner { extensions { coterie { topology: "review.at" } } }
  flow { writer -> inner }""",
    "map": """
  agent scout  { WORKS outputs { files: list } }
  agent reader { WORKS outputs { verdict: fine | bad } }
  agent writer { WORKS }
  flow {
    scout -> reader [each scout.files, at-most 9, at-once 2]
    reader -> writer
  }""",
}
LOOP = """
name = "greeting"
completion = "task.complete"

[[role]]
id = "writer"
emits = ["draft.ready"]
prompt = "You are the writer: write a greeting."

[[role]]
id = "checker"
emits = ["draft.rejected", "task.complete"]
prompt = "You are the checker: is it polite?"

[handoff]
"loop.start" = ["writer"]
"draft.rejected" = ["writer"]
"draft.ready" = ["checker"]
"""
SETTINGS = """
event_loop.max_iterations = 4
review.enabled = false
backend.kind = "command"
backend.command = "coterie"
backend.args = ["mock-backend", "SCRIPT"]
"""
SCRIPTS = {
    "polite": """{"iterations": [
  {"output": "Hey.\\n", "events": [{"topic": "draft.ready", "payload": "Hey."}]},
  {"output": "That is not polite.\\n", "events": [{"topic": "ship"}, {"topic": "draft.rejected", "payload": "no"}]},
  {"output": "Good morning.\\n", "events": [{"topic": "draft.ready", "payload": "Good morning."}],
   "usage": {"input_tokens": 900, "output_tokens": 12, "cost_usd": 0.02}},
  {"output": "That is polite.\\n", "events": [{"topic": "task.complete", "payload": "polite now"}]}]}""",
    "spent": '{"iterations": [{"output": "Hm.\\n"}]}',
    "fails": '{"iterations": [{"output": "No.\\n", "exit_code": 1}]}',
}


def make(folder: Path) -> None:
    """Play the runs in *folder*."""
    (folder / "agent.sh").write_text(AGENT)
    works = f'extensions {{ coterie {{ command: ["sh", "{folder}/agent.sh"] }} }}'
    for name, text in TEAMS.items():
        (folder / f"{name}.at").write_text(
            f"topology {name} : [pipeline, fan-out, human-gate] {{{text.replace('WORKS', works)}\n}}\n"
        )
    for name, script in SCRIPTS.items():
        loop = folder / f"loop-{name}"
        loop.mkdir()
        (loop / "topology.toml").write_text(LOOP)
        (loop / "autoloops.toml").write_text(SETTINGS.replace("SCRIPT", f"loop-{name}/script.json"))
        (loop / "script.json").write_text(script)

    def call(*words: str, status: int = 0) -> None:
        done = subprocess.run(["coterie", *words], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != status:
            sys.exit(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")

    call("run", "review.at", "Review it", "--id", "review", "--max-cost", "1")
    call("fork", "review", "--at", "8")
    call("run", "fails.at", "Write it", "--id", "fails", status=1)
    call("run", "waits.at", "Write it", "--id", "waits", status=4)
    call("run", "outer.at", "Do all", "--id", "outer")
    call("run", "map.at", "Read all", "--id", "map", status=1)
    call("run", "review.at", "Review it", "--id", "limited", "--max-turns", "2", status=3)
    for name, status in (("polite", 0), ("spent", 3), ("fails", 1)):
        call(
            "run", f"loop-{name}", "Greet the reader", "--id", f"loop-{name}", "--state-dir", ".coterie", status=status
        )


def keep(target: Path) -> None:
    """Copy what views read of the runs to *target*."""
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted((PLACE / ".coterie").rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name not in UNREAD:
            there = target / path.relative_to(PLACE / ".coterie")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, there)


def install(env: Path) -> None:
    """Make this package a program of *env*, so that no journal names another folder."""
    venv.create(env, symlinks=True)
    [packages] = env.glob("lib/python*/site-packages")
    (packages / "all.pth").write_text("".join(f"{path}\n" for path in sys.path if "-packages" in path or "src" in path))
    program = env / "bin" / "coterie"
    called = "import sys\n\nfrom coterie.interfaces.cli.app import main\n\nsys.exit(main(sys.argv[1:]))\n"
    program.write_text(f"#!{env}/bin/python\n{called}")
    program.chmod(0o755)


if __name__ == "__main__":
    PLACE.mkdir(parents=True)
    try:
        install(env := PLACE.with_name("env"))
        os.environ["PATH"] = f"{env}/bin{os.pathsep}{os.environ['PATH']}"
        make(PLACE)
        keep(HERE / "state")
    finally:
        shutil.rmtree(PLACE.parent)
