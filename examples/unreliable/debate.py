"""Runs the debate of prime.pattern.yaml beside its own server, and reports what went wrong on the way.

python examples/unreliable/debate.py "Is 91 a prime number?"
"""

import asyncio
import sys
import threading
from pathlib import Path

from server import Server

import coterie
from coterie.history.journal.records import AttemptFailed, Record

DEBATE = Path(__file__).with_name("prime.pattern.yaml")


async def main(question: str) -> int:
    """Debate *question*, and print the answer and the report; the exit status is that of `coterie run`."""
    failed: list[str] = []

    def observe(run: str, record: Record) -> None:
        """Called with each record of the run and of its child runs."""
        if isinstance(record, AttemptFailed):
            failed.append(
                f"- {record.turn.partition('#')[0]}, attempt {record.attempt}: {record.kind}, {record.reason}"
            )

    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        outcome = await coterie.run(DEBATE, {"question": question}, observe=observe)
    finally:
        server.shutdown()
    if outcome.status != "completed":
        print(outcome.reason, file=sys.stderr)
        return outcome.exit
    debate = outcome.result.outputs["debate"]
    print(f"{outcome.result.text}\n\nThe {debate.winner} won after round {debate.rounds}.")
    print(f"{len(failed)} requests failed and were sent again:" if failed else "Every request was answered.")
    print("\n".join(failed))
    return outcome.exit


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Is 91 a prime number?")))
