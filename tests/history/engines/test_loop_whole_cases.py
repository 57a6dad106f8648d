"""Whole runs of an earlier system, played again: what each script emits and says, against where the loop then stands.

Left out are the cases of what this loop has not (verdicts of reviews, acceptance commands, gates, hooks) and those in
which time, money, retries or files decide: other tests hold these.
"""

import re
import tomllib
from typing import Any

from bundles import bundle
from loop_cases import cases
from loop_play import Play, loop_plan, waves

from coterie.history.journal.records import IterationStarted
from coterie.team.planning.loop import ReviewPlan, RolePlan

Case = dict[str, Any]
ELSEWHERE = {"loops-018", "loops-023", "loops-024", "loops-029", "loops-032", "loops-043", "loops-048", "loops-056"}
OTHERWISE = {
    "loops-016": "An accepted completion event wins over a later non-zero exit",
    "loops-027": "Only an accepted event of an agent, or a join of the harness, moves the routing position",
    "loops-040": "Branches that fail are reported in the joined event; all failed = one failed turn",
    "loops-042": "`<base>.parallel.joined` routes by its own handoff key when there is one",
}
WORD = re.compile(
    r'"\$AUTOLOOP_BIN" (?P<tool>emit|task|memory|guide) (?P<what>\S+)(?: "(?P<payload>[^"]*)")?'
    r"|echo (?P<said>[^;\n]+)|RC=(?P<status>\d+)"
)


@bundle("case", [case for case in cases("loops") if case["id"] not in ELSEWHERE], ids=lambda c: c["id"])
def test_a_whole_run(case: Case) -> None:
    """The same iterations after the same events, for the same roles, and the same end."""
    settings, play = tomllib.loads(case["autoloops_toml"]), _play(case)
    tasks: list[str] = []
    while play.running:
        for attempt in list(play.running):
            _one(play, attempt.rpartition(".")[0], case["scripts"], tasks)
    found = [(one.event, ",".join(one.roles)) for one in play.all(IterationStarted)]
    fields = [line["fields"] for line in case["journal"] if line["topic"] == "iteration.start"]
    wanted = [(one["recent_event"], one["suggested_roles"]) for one in fields]
    [end] = [line["fields"] for line in case["journal"] if line["topic"] in ("loop.stop", "loop.complete")]
    same = (found, play.end[1]) == (wanted, end["reason"])

    assert settings["backend"]["kind"] == "command"
    assert same is not bool(OTHERWISE.get(case["id"])), (found, play.end, wanted, end["reason"])


def _play(case: Case) -> Play:
    settings = tomllib.loads(case["autoloops_toml"])
    loop = settings["event_loop"]
    topology = tomllib.loads(case["topology_toml"] or "")
    review = settings.get("review", {})
    most = _of_arguments(case["args"], loop["max_iterations"])
    plan = loop_plan(
        roles=tuple(RolePlan(id=role["id"], emits=tuple(role["emits"])) for role in topology.get("role", ())),
        handoff=tuple((event, tuple(roles)) for event, roles in topology.get("handoff", {}).items()),
        completion=topology.get("completion", "task.complete"),
        required=tuple(loop.get("required_events", ())),
        max_iterations=most,
        stall=loop.get("stall_iterations", 0),
        review=ReviewPlan(every=review.get("every_iterations", 3)) if review.get("enabled", True) else None,
        parallel=waves() if settings.get("parallel", {}).get("enabled") else None,
    )
    return Play(plan)


def _of_arguments(words: list[str], default: int) -> int:
    """The iterations that the command line allows."""
    found = re.search(r"max_iterations=(\d+)|--(?:max-)?iterations[ =](\d+)", " ".join(words))
    return int(found[1] or found[2]) if found else default


def _one(play: Play, turn: str, scripts: dict[str, str], tasks: list[str]) -> None:
    """Play a turn as its script says: emits, tasks, words, and how it ends."""
    kind = "branch" if turn.startswith("wave") else "review" if turn.startswith("review") else turn.partition("#")[2]
    script = scripts.get(kind)
    said = [] if script is not None else [f"silent {kind}"]
    status = 0
    for word in WORD.finditer(script or ""):
        match word["tool"], word["what"]:
            case "emit", event if kind not in ("branch", "review"):
                play.emit(event, word["payload"] or "x", turn, tuple(tasks))
            case "task", "add":
                tasks.append("task-1")
            case "task", "complete":
                tasks.clear()
        said += [word["said"]] if word["said"] and not word["said"].startswith("rc=") else []
        status = int(word["status"] or status)
    if status:
        play.fail(turn=turn)
    else:
        play.answer("\n".join(said), turn, open_tasks=tuple(tasks))
