"""The cost of folding a journal, beside only decoding its lines.

200,000 records of a run (starts, failures, results with outputs and usage) are read from the file and folded into the
usage view; the other side decodes the same lines with msgspec into the same types. Both sides take turns in every
round; the figures are medians over the rounds.

    python benchmarks/fold.py [--rounds 7] [--records 200000]
"""

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from coterie.history.journal.codec import Encoder
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import (
    AnyRecord,
    AttemptFailed,
    Record,
    RunStarted,
    TurnFinished,
    TurnStarted,
    Usage,
)
from coterie.history.views import run, usage

USED = Usage(input_tokens=1200, output_tokens=300, cost=0.004, seconds=2.5)


def records(count: int) -> list[Record]:
    """A run of *count* records; every fifth turn needs a second attempt."""
    found: list[Record] = [RunStarted(seq=1, at=0.0, run="r", engine="flow")]
    n = 0
    while len(found) < count:
        n += 1
        turn = f"agent-{n % 20}#{n // 20 + 1}"
        seq = len(found) + 1
        found.append(TurnStarted(seq=seq, at=seq / 10, cause=(seq - 1, 0), turn=turn, agent=f"agent-{n % 20}"))
        if n % 5 == 0:
            found.append(AttemptFailed(seq=seq + 1, at=seq / 10, turn=turn, attempt=1, kind="exit", reason="status 2"))
            found.append(TurnStarted(seq=seq + 2, at=seq / 10, turn=turn, agent=f"agent-{n % 20}", attempt=2))
        outputs = {"verdict": "revise", "score": n % 7}
        seq = len(found) + 1
        found.append(
            TurnFinished(seq=seq, at=seq / 10, turn=turn, attempt=1, text="as agreed", outputs=outputs, usage=USED)
        )
    return found[:count]


def timed(side: object) -> float:
    assert callable(side)
    gc.collect()
    began = time.perf_counter()
    side()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=200_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = JsonlStore(Path(folder))
        path = store.folder("r") / "journal.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(Encoder().encode(records(args.records)))
        decode = msgspec.json.Decoder(AnyRecord).decode

        def bare() -> None:
            for line in path.read_bytes().splitlines():
                decode(line)

        sides = {
            "decoding alone": bare,
            "reading (store)": lambda: sum(1 for _ in store.read("r")),
            "usage view": lambda: usage.fold(store.read("r")),
            "run view": lambda: run.fold(store.read("r")),
        }
        rounds = [{name: timed(side) for name, side in sides.items()} for _ in range(args.rounds)]
    for name in sides:
        each = statistics.median(times[name] for times in rounds) / args.records * 1e6
        ratio = statistics.median(times[name] / times["decoding alone"] for times in rounds)
        print(f"{name:16} {each:6.2f} µs a record   {ratio:5.2f} times decoding alone")


if __name__ == "__main__":
    main()
