"""Tests that need what other systems lack, and what `tests/macos/run` cannot show."""

import os

import pytest

IS_SIMULATED = "REAL_PROC" in os.environ
"""Whether `tests/macos/run` plays the tests."""

NEEDS_PROC = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the test reads /proc")
NEEDS_FDATASYNC = pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="the system has no fdatasync")
NOT_SIMULATED = pytest.mark.skipif(IS_SIMULATED, reason="the simulated macOS has no part in it")
