"""What is kept of the wire, and without what."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from asking import Heard

from coterie.agents.backends.coding import wire
from coterie.agents.backends.coding.wire import Transcript, WireProcess
from coterie.agents.backends.secrets import Secrets


def test_a_transcript_hides_a_secret_as_json_writes_it(tmp_path: Path) -> None:
    """A quote, a backslash or a letter beyond ASCII of a secret is escaped on the wire."""
    secret = 'pä"ss\\word-123'
    transcript = Transcript(tmp_path / "wire.jsonl", Secrets({"API_KEY": secret}))
    for ascii in (True, False):
        transcript.add(json.dumps({"text": f"the key is {secret}"}, ensure_ascii=ascii))
    transcript.close()

    assert (tmp_path / "wire.jsonl").read_text() == '{"text": "the key is ***"}\n' * 2


def test_a_transcript_is_appended_up_to_its_limit(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A retry goes on in the same file; past the limit one line says that the rest is left out."""
    monkeypatch.setattr(wire, "TRANSCRIPT_MOST", 20)
    path = tmp_path / "folder" / "wire.jsonl"
    for line in ("first", "second", "third, too long", "fourth"):
        transcript = Transcript(path, Secrets())
        transcript.add(line)
        transcript.add("x" * 30 if line == "third, too long" else "")
        transcript.close()
        transcript.add("after the end")

    *kept, last = path.read_text().splitlines()
    assert kept[:3] == ["first", "", "second"]
    assert "not kept" in last
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_transcript_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    """Nothing is decided from it."""
    (tmp_path / "file").write_text("")
    transcript = Transcript(tmp_path / "file" / "wire.jsonl", Secrets())

    transcript.add("lost")
    transcript.close()


def heard_of(program: str, folder: Path) -> tuple[list[dict[str, Any]], Heard]:
    """The messages of a Python program up to its end, and what else was heard of it."""

    async def main() -> tuple[list[dict[str, Any]], Heard]:
        heard, messages = Heard(), []
        process = await WireProcess.start(
            [sys.executable, "-c", program],
            env=dict(os.environ),
            cwd=folder,
            marker=f"wire-{os.getpid()}",
            secrets=Secrets(),
            on_event=heard,
        )
        while (message := await asyncio.wait_for(process.receive(), 20)) is not None:
            messages.append(message)
        assert await asyncio.wait_for(process.receive(), 20) is None  # it has ended for every reader
        await process.end(0.0)
        return messages, heard

    return asyncio.run(main())


def test_a_line_that_is_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one word in the log; the lines around it are read, and so is a last one without an end."""
    monkeypatch.setattr(wire, "LONGEST_LINE", 100_000)
    program = (
        "import sys\n"
        "sys.stdout.write('{\"n\": 1}\\n')\n"
        "for _ in range(10): sys.stdout.write('x' * 90_000); sys.stdout.flush()\n"
        'sys.stdout.write(\'\\n{"n": 2}\\n{"n": 3}\')\n'
    )
    messages, heard = heard_of(program, tmp_path)

    assert messages == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert heard.said("log") == "(a line of more than 100000 bytes is left out)\n"


def test_what_is_no_object_is_logged(tmp_path: Path) -> None:
    """A banner, another value, and JSON that is nested too deeply to be read."""
    messages, heard = heard_of("print('hello'); print(7); print('[' * 100_000); print('{}')", tmp_path)

    assert messages == [{}]
    *first, deep = heard.said("log").splitlines()
    assert first == ["not JSON on standard output: hello", "not JSON on standard output: 7"]
    assert deep == f"not JSON on standard output: {'[' * 200}"
