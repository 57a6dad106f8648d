"""Says what there is to look at, and stops the team early when there is nothing."""

from collections import Counter
from pathlib import PurePosixPath

from findings import Turn, answer
from repository import Repository


def main() -> None:
    """Answer one turn."""
    repository = Repository(Turn.read().repo)
    kinds = Counter(PurePosixPath(file).suffix or "(none)" for file in repository.files)
    if not kinds:
        raise SystemExit(f"{repository.root} holds no readable files: name the repository with --input repo=PATH")
    state = f"at commit {repository.head[:10]}" if repository.head else "not under git, or without a commit"
    most = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(5))
    print(f"{repository.root}: {kinds.total()} files ({most}), {state}.")
    answer(files=kinds.total(), python=len(repository.python), head=repository.head)


if __name__ == "__main__":
    main()
