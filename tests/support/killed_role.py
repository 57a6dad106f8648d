"""A loop whose roles are teams, killed as `killed_compound` is: `python killed_role.py FOLDER [STEP]`."""

import json
import sys
from pathlib import Path

from killed_compound import Thinkers, at_every_append

from coterie.agents.backends.base import Emitted, OnEvent, Request
from coterie.team.planning.loops import plan_folder

FILES = {
    "topology.toml": """
name = "killed"
[[role]]
id = "writer"
emits = ["draft.ready"]
[[role]]
id = "jury"
emits = ["draft.passed", "draft.rejected"]
topology = "jury.pattern.yaml"
events = {"draft.passed" = "final_approved == true", "draft.rejected" = ""}
[[role]]
id = "council"
emits = ["task.complete"]
topology = "council.pattern.yaml"
[handoff]
"loop.start" = ["writer"]
"draft.ready" = ["jury"]
"draft.rejected" = ["writer"]
"draft.passed" = ["council"]
""",
    "autoloops.toml": 'backend.kind = "scripted"\nreview.enabled = false\nevent_loop.max_iterations = 9\n',
    "jury.pattern.yaml": """
pattern: {type: crosscheck, slots: {primary: a, checker_0: a, checker_1: a}}
agents: {a: {type: scripted}}
""",
    "council.pattern.yaml": """
pattern: {type: debate, config: {max_rounds: 1}, slots: {proponent: a, opponent: a, mediator: a}}
agents: {a: {type: scripted}}
""",
}
CALLS = 2 + 2 * 3 + 3
"""Two drafts, a jury of three for each, and a debate of one round."""


class Roles(Thinkers):
    """The writer hands over, the jury rejects the first draft, the council concludes."""

    def _answer(self, request: Request, on_event: OnEvent) -> str:
        if request.agent.name == "writer":
            on_event(Emitted(event="draft.ready", payload=request.turn))
        elif request.agent.name.startswith("checker"):
            return json.dumps({"approved": "iteration#2." not in request.run, "issues": []})
        elif request.agent.name == "mediator":
            return "CONCLUSION: print it"
        return f"{request.run}/{request.turn}"


def main(folder: Path, step: int = 1) -> None:
    loop = folder / "loop"
    loop.mkdir()
    for name, text in FILES.items():
        (loop / name).write_text(text)
    plan, found = plan_folder(loop, work_dir=folder, env={"HOME": str(folder)})
    assert plan is not None, [each.render() for each in found]
    at_every_append(plan, folder, Roles, step)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
