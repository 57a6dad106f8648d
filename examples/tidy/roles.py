"""The roles of a loop that removes doubled words from tidy.txt: `python roles.py finder`, `fixer` or `checker`.

Each turn is a new process that knows nothing but its prompt, which arrives on standard input. It does one small thing
and emits one event. Environment: TIDY_PAUSE is how long a turn takes at least, in seconds (1).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

TEXT = Path("tidy.txt")
DOUBLED = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)
NOT_MINE = "only the checker may complete the loop"
NOT_YET = "no promise before the finder has said none.left"


def main(role: str) -> None:
    """Answer one turn."""
    prompt = sys.stdin.read()
    with open(os.environ["COTERIE_TURN_FILE"], encoding="utf-8") as file:
        handed = json.load(file)["loop"]
    time.sleep(float(os.environ.get("TIDY_PAUSE", "1")))
    for wish in wishes(prompt):
        coterie("memory", "add", "preference", "--category", "operator", wish)
    match role:
        case "finder":
            find(prompt)
        case "fixer":
            fix(prompt, handed["payload"])
        case _:
            check(prompt, handed["event"], handed["payload"])


def find(prompt: str) -> None:
    """Name the first doubled word that is not to be kept, as `LINE WORD`."""
    if not TEXT.exists():
        shutil.copy(Path(__file__).with_name("draft.txt"), TEXT)
    kept = {word.lower() for word in re.findall(r"\bkeep (\w+) \1\b", prompt, re.IGNORECASE)}
    for number, line in enumerate(lines(), 1):
        for found in DOUBLED.finditer(line):
            if (word := found[1]).lower() not in kept:
                print(f"Line {number} has “{found[0]}”.")
                coterie("emit", "word.found", f"{number} {word}")
                return
    print(f"No doubled word is left{''.join(f', besides “{word} {word}”' for word in sorted(kept))}.")
    coterie("emit", "none.left")


def fix(prompt: str, fault: str) -> None:
    """Remove the second word of the pair: once, even if an earlier attempt was cut off after that."""
    number, word = fault.split()
    text = lines()
    text[int(number) - 1] = re.sub(rf"\b({word}) {word}\b", r"\1", text[int(number) - 1], flags=re.IGNORECASE)
    written = TEXT.with_suffix(".new")
    written.write_text("\n".join(text) + "\n", encoding="utf-8")
    written.replace(TEXT)
    print(f"Line {number} is now: {text[int(number) - 1]}")
    if NOT_MINE not in prompt and not coterie("emit", "task.complete"):  # a mistake, made once
        coterie("memory", "add", "learning", NOT_MINE)
    coterie("emit", "word.fixed", fault)


def check(prompt: str, event: str, fault: str) -> None:
    """Close the word that was fixed, or the loop if none is left."""
    if event == "none.left":
        print(f"{TEXT} has no doubled word left.")
        coterie("emit", "task.complete", f"{TEXT} is done")
    elif re.search(rf"\b({fault.split()[1]}) \1\b", lines()[int(fault.split()[0]) - 1], re.IGNORECASE):
        print(f"Line {fault.split()[0]} still has it.")
        coterie("emit", "word.reopened", fault)
    elif NOT_YET not in prompt and "did not complete" not in prompt:  # a mistake, made once
        print("It reads well now.\nLOOP_COMPLETE")
    else:
        if NOT_YET not in prompt:
            coterie("memory", "add", "learning", NOT_YET)
        print(f"Line {fault.split()[0]} reads well.")
        coterie("emit", "word.closed")


def lines() -> list[str]:
    """The text, line by line."""
    return TEXT.read_text(encoding="utf-8").splitlines()


def wishes(prompt: str) -> list[str]:
    """What the operator said since the last turn: guidance is in one prompt, and memory in all that follow."""
    _, _, section = prompt.partition("\nOperator guidance:\n")
    return [line.removeprefix("- ") for line in section.partition("\n\n")[0].splitlines()]


def coterie(*words: str) -> bool:
    """Tell the run something; whether it was accepted. If not, the reason is on standard error."""
    return subprocess.run(["coterie", *words], stdout=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    main(sys.argv[1])
