"""`coterie mock-backend`: a scripted agent, started by a run."""

import os
import sys
from pathlib import Path
from typing import Annotated

from coterie.interfaces.cli.output import complain
from coterie.interfaces.cli.parameters import Arg


def mock_backend(
    script: Annotated[Path, Arg("SCRIPT", "What to do in each iteration, as JSON.")],
    prompt: Annotated[list[str] | None, Arg("PROMPT", "The prompt, which is ignored.", takes_options=True)] = None,
) -> int:
    """Act as an agent that follows a script: print an answer, emit events, write files, fail.

    To have a run start it, write backend.kind = "command", backend.command = "coterie" and
    backend.args = ["mock-backend", "script.json"] into autoloops.toml. docs/mock-backend.md explains the script.
    """
    from coterie.agents.backends.mock import perform, read

    entry = read(script).entry(os.environ)
    status = perform(entry, os.environ, Path.cwd(), complain)
    sys.stdout.write(entry.output)
    return status
