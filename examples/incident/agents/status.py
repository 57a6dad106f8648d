"""Requests the status page of the service, which is down; with --stored, gives the last status that was stored."""

import sys


def main() -> None:
    """Answer one turn."""
    if "--stored" in sys.argv:
        print("status: degraded since 02:10 (stored, so it may be out of date)")
        return
    print("requesting http://status.example/shop")
    raise SystemExit("the status page gives no answer")


if __name__ == "__main__":
    main()
