"""Prints a service's log: `--input megabytes=N` of lines, every thousandth of them an error."""

import json
import os
import sys

LINE = "2026-03-01T02:{minute:02}:{second:02} {level:5} request {n:08} took {ms:4} ms, {note}\n"


def main() -> None:
    """Answer one turn."""
    with open(os.environ["COTERIE_TURN_FILE"], encoding="utf-8") as file:
        given = json.load(file)["input"].get("megabytes", "50")
    try:
        wanted = int(given) * 1_000_000
    except ValueError:
        raise SystemExit(f"megabytes is {given!r}: give a whole number, --input megabytes=50") from None
    printed = n = 0
    while printed < wanted:
        lines = "".join(line(n + i) for i in range(1000))
        printed, n = printed + len(lines), n + 1000
        sys.stdout.write(lines)
    print(json.dumps({"lines": n}))


def line(n: int) -> str:
    """Line *n* of the log."""
    level, note = ("ERROR", "the stock server did not answer") if n % 1000 == 999 else ("INFO", "all is well")
    return LINE.format(minute=n // 60 % 60, second=n % 60, level=level, n=n, ms=n * 7 % 900, note=note)


if __name__ == "__main__":
    main()
