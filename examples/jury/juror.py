"""A juror without a model: finds the draft in its prompt, and repeats or judges it."""

import json
import sys


def draft(question: str) -> str:
    """The draft that the writer handed over."""
    mark = "What came with `draft.ready`: "
    return next((line.removeprefix(mark) for line in question.splitlines() if line.startswith(mark)), "")


def main(part: str) -> None:
    text = draft(sys.stdin.read())
    match part:
        case "polite":
            approved = text.startswith("Good")
            issues = [] if approved else ["it is not polite"]
        case "short":
            approved = len(text) < 40
            issues = [] if approved else ["it is long"]
        case _:
            print(f"The draft is: {text}")
            return
    print(json.dumps({"approved": approved, "confidence": 0.9, "issues": issues}))


if __name__ == "__main__":
    main(sys.argv[1])
