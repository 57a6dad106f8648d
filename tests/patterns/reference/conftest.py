"""No test here is about a power cut: what is written need not wait for the disk, which on a busy machine takes most of
the time.
"""

import os

import pytest


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs that do nothing; a test that counts them has its own."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
