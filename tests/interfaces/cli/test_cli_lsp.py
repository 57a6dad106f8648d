"""`coterie topology lsp` without what it needs."""

import sys

import pytest

from coterie.interfaces.cli.app import main


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, no traceback, and nothing on standard output, where an editor expects the protocol."""
    monkeypatch.delitem(sys.modules, "coterie.interfaces.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    monkeypatch.setitem(sys.modules, "pygls", None)

    assert main(["topology", "lsp"]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "coterie: this command needs 'lsprotocol', which is not installed: pip install 'coterie[lsp]'\n"
