"""Network namespaces: a machine of its own for a process, whose cable can be pulled."""

import os
import shutil
import subprocess
from typing import Self

import pytest


class Namespace:
    """A namespace with a link to this machine; skips the test where none can be made.

    Attributes:
        host: The address of this machine as seen from there.
        prefix: Runs a program there.
    """

    def __enter__(self) -> Self:
        number = os.getpid() % 200
        self.name, self.host = f"coterie{number}", f"10.231.{number}.1"
        self.prefix = ("ip", "netns", "exec", self.name)
        if shutil.which("ip") is None:
            pytest.skip("needs `ip`, of iproute2")
        try:
            self._ip(f"netns add {self.name}")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not permitted: {error.stderr}")
        try:
            self._ip(f"link add cot{number}a type veth peer name cot{number}b netns {self.name}")
            self._ip(f"addr add {self.host}/30 dev cot{number}a")
            self._ip(f"link set cot{number}a up")
            self._ip(f"-n {self.name} addr add 10.231.{number}.2/30 dev cot{number}b")
            self.open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ip(f"netns del {self.name}")

    def _ip(self, words: str) -> None:
        subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)

    def close(self) -> None:
        """Pull the cable."""
        self._ip(f"-n {self.name} link set cot{os.getpid() % 200}b down")

    def open(self) -> None:
        """Plug it in."""
        self._ip(f"-n {self.name} link set cot{os.getpid() % 200}b up")
