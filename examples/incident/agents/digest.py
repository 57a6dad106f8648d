"""Says in a few lines what the agents before it found, and which of them found nothing."""

import json
import os


def main() -> None:
    """Answer one turn."""
    with open(os.environ["COTERIE_TURN_FILE"], encoding="utf-8") as file:
        turn = json.load(file)
    found = {result["agent"]: result["text"] for result in [*turn["inputs"], *turn["reads"]]}
    log = found.get("collector", "").splitlines()
    errors = [line for line in log if " ERROR " in line]
    print(f"{turn['task']}: {len(errors)} errors in {len(log)} lines of the log.")
    if log and log[0].startswith("(the first "):  # the run keeps the last 8 MB of an output
        print(f"The log was too long: {log[0].strip('()')}.")
    if errors:
        print(f"The last one: {errors[-1]}")
    print(next((text.strip() for agent, text in found.items() if agent in ("status", "archive")), "No status."))
    if "tracer" not in found:
        print("No trace: the tracer gave none.")
    print(json.dumps({"errors": len(errors)}))


if __name__ == "__main__":
    main()
