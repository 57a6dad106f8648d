"""The entry point of the command line: `coterie`, or `python -m coterie`.

Prints `--version` and `--help` without further imports and leaves an agent's messages to
`coterie.agents.backends.agentside`, so that these are fast. `coterie.interfaces.cli` does the rest.
"""

import gc
import os
import sys


def main() -> int:
    """Run the command line on `sys.argv` and return its exit status."""
    arguments = sys.argv[1:]
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:  # closed by the caller: what is opened next gets its number, and what programs print into it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if arguments == ["--version"]:
        from coterie.base.version import __version__

        print(f"coterie {__version__}")
        return 0
    if arguments in (["-h"], ["--help"]):
        from coterie.interfaces.cli.overview import overview

        try:  # noqa: SIM105 - contextlib takes 3 ms
            os.write(1, overview().encode())
        except OSError:  # the reader may have gone
            pass
        return 0
    if arguments[:1] in (["emit"], ["memory"], ["task"]):  # an agent's messages do not wait for further imports
        from coterie.agents.backends.agentside import client

        status = client.main(arguments, os.environ)
        if status is not None:
            return status
    gc.set_threshold(100_000)  # imports make many objects and no garbage: a tenth of the time of a start
    try:
        from coterie.interfaces.cli.app import main as run

        status = run(arguments)
        if "temporalio.bridge" in sys.modules:  # its threads may abort the process while the interpreter ends
            os._exit(status)
        return status
    except KeyboardInterrupt:  # while the command line is imported
        return 130


if __name__ == "__main__":
    sys.exit(main())
