"""The way into the command line: `coterie`, or `python -m coterie`.

`--version` is answered before anything is imported, and what an agent says to its run by `coterie.agentside`; all else
is `coterie.cli`.
"""

import os
import sys


def main() -> int:
    """Run the command line on `sys.argv` and return its exit status."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from coterie import __version__

        print(f"coterie {__version__}")
        return 0
    if arguments[:1] in (["emit"], ["memory"], ["task"]):  # an agent that speaks to its run does not wait for more
        from coterie.agentside import speaking

        status = speaking.main(arguments, os.environ)
        if status is not None:
            return status
    try:
        from coterie.cli.app import main as run

        return run(arguments)
    except KeyboardInterrupt:  # before the command line was there to hear of it
        return 130


if __name__ == "__main__":
    sys.exit(main())
