"""The programs of the refunds: one finds the order in the letter, the others write the answer."""

import re
import sys

letter = sys.stdin.read()
order = re.search(r"order (\d+)", letter)
match sys.argv[1]:
    case "check":
        print(f"known: {'yes' if order else 'no'}")
    case "pay":
        print(
            f"We have sent the money for order {order[1] if order else 'unknown'} back. We are sorry for the trouble."
        )
    case "refuse":
        print("Please tell us the number of your order.")
