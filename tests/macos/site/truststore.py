"""Certificates that the system trusts: the library loads a framework of macOS, and this has its names."""

from ssl import SSLContext


def inject_into_ssl() -> None:
    """Leave `ssl` as it is."""


def extract_from_ssl() -> None:
    """Leave `ssl` as it is."""


__all__ = ["SSLContext", "extract_from_ssl", "inject_into_ssl"]
