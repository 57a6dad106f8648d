"""Follows a request through the service and never ends: it prints a line each second until it is stopped."""

import time
from itertools import count


def main() -> None:
    """Wait for ever."""
    for second in count():
        print(f"waiting for the request to end, {second} s", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
