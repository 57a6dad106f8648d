"""Network namespaces: machines of their own for a test and for a process of it, whose cable can be pulled."""

import ctypes
import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

_NEW_NET = 0x40000000
"""`CLONE_NEWNET` of Linux."""


class Namespace:
    """Two namespaces with a link between them; skips the test where none can be made.

    The thread that enters it is in the first one until it leaves: the interfaces of this machine stay as they are,
    since a browser breaks off its requests when one changes.

    Attributes:
        host: The address of the first namespace.
        prefix: Runs a program in the second one.
    """

    host = "10.231.0.1"

    def __enter__(self) -> Self:
        near, self._far = f"coterie{os.getpid()}a", f"coterie{os.getpid()}b"
        self.prefix = ("ip", "netns", "exec", self._far)
        if shutil.which("ip") is None:
            pytest.skip("needs `ip`, of iproute2")
        with ExitStack() as stack:
            for name in (near, self._far):
                try:
                    self._ip(f"netns add {name}")
                except subprocess.CalledProcessError as error:
                    pytest.skip(f"network namespaces are not permitted: {error.stderr}")
                stack.callback(self._ip, f"netns del {name}")
            before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            stack.callback(os.close, before)
            there = os.open(Path("/run/netns", near), os.O_RDONLY)
            stack.callback(os.close, there)
            stack.callback(_enter, before)
            _enter(there)
            self._ip("link set lo up")
            self._ip(f"link add near type veth peer name far netns {self._far}")
            self._ip(f"addr add {self.host}/30 dev near")
            self._ip("link set near up")
            self._ip(f"-n {self._far} addr add 10.231.0.2/30 dev far")
            self.open()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _ip(self, words: str) -> None:
        subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)

    def close(self) -> None:
        """Pull the cable."""
        self._ip(f"-n {self._far} link set far down")

    def open(self) -> None:
        """Plug it in."""
        self._ip(f"-n {self._far} link set far up")


def _enter(namespace: int) -> None:
    """Move this thread into the network namespace that the descriptor *namespace* leads to."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _NEW_NET):
        raise OSError(ctypes.get_errno(), "setns")
