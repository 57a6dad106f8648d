"""The secret of a run, and the tokens that are made with it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.errors import JournalFailed
from coterie.execution.runs.messages.tokens import Tokens


def test_every_owner_of_a_run_finds_the_same_secret_and_every_run_has_its_own(tmp_path: Path) -> None:
    """Its file is private, whatever the umask."""
    (tmp_path / "other").mkdir()
    before = os.umask(0)
    try:
        token = Tokens.of(tmp_path).attempt("r", "a#1", 1, 1)
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["secret"]
    assert Tokens.of(tmp_path).attempt("r", "a#1", 1, 1) == token
    assert Tokens.of(tmp_path / "other").attempt("r", "a#1", 1, 1) != token


def test_a_token_is_of_one_attempt_only(tmp_path: Path) -> None:
    """Parts that read alike when they are put together are not alike; an operator's signature is no token."""
    tokens = Tokens.of(tmp_path)
    asked = [("r", "a#1", 1, 1), ("r", "a#1", 2, 1), ("r", "a#1", 1, 2), ("r", "a#11", 1, 1), ("ra", "#1", 1, 1)]
    assert len({*(tokens.attempt(*one) for one in asked), tokens.operator(b"ra#111")}) == len(asked) + 1


def two() -> int:
    return 2


@pytest.mark.parametrize(("own", "has_secret"), [(coterie.agent(two), False), (coterie.action("true", "true"), True)])
def test_only_a_run_that_a_process_can_speak_to_makes_a_secret(tmp_path: Path, own: Any, has_secret: bool) -> None:
    """A function is called in the process of its run: no token is made for it."""
    asyncio.run(coterie.run(coterie.flow("f", [own]), "x", state_dir=tmp_path))
    [run] = (tmp_path / "runs").iterdir()
    assert (run / "secret").exists() is has_secret


@pytest.mark.parametrize("trap", ["pipe", "link", "short", "long"])
def test_a_file_that_is_no_secret_is_replaced(tmp_path: Path, trap: str) -> None:
    """It blocks nobody, and what it leads to is left alone."""
    secret, elsewhere = tmp_path / "secret", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x" * 32)
    match trap:
        case "pipe":
            os.mkfifo(secret)
        case "link":
            secret.symlink_to(elsewhere)
        case "short" | "long":
            secret.write_bytes(b"x" * (5 if trap == "short" else 33))
    Tokens.of(tmp_path)
    assert (secret.is_file(), secret.is_symlink(), secret.stat().st_size) == (True, False, 32)
    assert elsewhere.read_bytes() == b"x" * 32


def test_a_secret_that_cannot_be_made_ends_the_owner_resumably(tmp_path: Path) -> None:
    with pytest.raises(JournalFailed, match="No such file"):
        Tokens.of(tmp_path / "gone")


def test_two_processes_that_make_the_secret_at_once_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner and a sender, say: the first one to put it there has made it."""
    first: list[Tokens] = []

    def meanwhile(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", lambda fd: None)
        first.append(Tokens.of(tmp_path))

    monkeypatch.setattr(os, "fsync", meanwhile)
    assert Tokens.of(tmp_path).operator(b"go") == first[0].operator(b"go")
