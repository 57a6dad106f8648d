"""Teams in teams whose innermost agent asks for permission: the fake ACP agent, in real processes."""

import itertools
import sys
from pathlib import Path

FAKE = Path(__file__).parent / "fake_agents" / "acp_agent.py"
LEAF = """
topology leaf : [pipeline] {{
  agent coder {{
    prompt {{ Do what the task asks }}
    extensions {{ coterie {{
      backend: "acp" command: ["{python}", "{fake}"] {more}
      attention: "ask" env {{ FAKE_TURN: "asks" }}
    }} }}
  }}
  agent end {{ extensions {{ coterie {{ command: ["echo", "end"] }} }} }}
  flow {{ coder -> end }}
}}
"""
TEAM = """
topology {name} : [pipeline] {{
  agent inner {{ extensions {{ coterie {{ topology: "{below}.at" }} }} }}
  agent end {{ extensions {{ coterie {{ command: ["echo", "end"] }} }} }}
  flow {{ inner -> end }}
}}
"""


def make_asking(folder: Path, depth: int, more: str = "") -> str:
    """Write teams in *folder*, *depth* in each other, and return the file of the outermost.

    Args:
        more: Further keys of the agent that asks.
    """
    (folder / "leaf.at").write_text(LEAF.format(python=sys.executable, fake=FAKE, more=more))
    names = ["leaf", *(f"team{n}" for n in range(2, depth + 1))]
    for below, name in itertools.pairwise(names):
        (folder / f"{name}.at").write_text(TEAM.format(name=name, below=below))
    return f"{names[-1]}.at"
