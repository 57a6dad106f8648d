"""The check of `coterie doctor` whether the configured servers can be reached: Temporal, PostgreSQL and NATS.

It only connects and sends nothing, so it needs no library, login or key.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

from coterie.errors import UsageError
from coterie.execution.cluster.address import SETTING, VARIABLE, ClusterAddress, shown_export
from coterie.execution.runs.checkups import CheckResult, DoctorContext
from coterie.history.journal.export import folder_of
from coterie.team import formats, planning
from coterie.team.formats.files import SYSTEM_FILES
from coterie.team.planning.system import SystemPlan

PATIENCE = 2.0
"""Seconds that a server has to accept a connection."""

Server = tuple[str, str, str, int]
"""Its kind, its address for people, its host or the folder of its socket, and its port."""


def servers(context: DoctorContext) -> Iterator[CheckResult]:
    """Whether the servers of the configured cluster, and of the systems in the folder, can be reached."""
    found = list(_of_systems(context))
    try:
        if address := ClusterAddress.given():
            found += _of_cluster(address)
    except UsageError as error:
        hint = f"correct {VARIABLE}, or the setting {SETTING}"
        yield CheckResult(check="cluster", status="warn", found=str(error), next=hint)
    for kind, shown, host, port in dict.fromkeys(found):
        if why := _refusal(host, port):
            hint = "start it, or correct its address"
            yield CheckResult(check=kind, status="warn", found=f"{shown} cannot be reached: {why}", next=hint)
        else:
            yield CheckResult(check=kind, status="ok", found=f"{shown} can be reached")


def _of_cluster(address: ClusterAddress) -> Iterator[Server]:
    where = address.host or os.environ.get("TEMPORAL_ADDRESS") or "localhost"
    yield "Temporal", f"temporal://{where}", *_place(f"//{where}", 7233)
    if folder_of(address.export) is None:
        asked = parse_qs(urlsplit(address.export).query)
        usual = os.environ.get("PGPORT", "")
        host, port = _place(address.export, int(usual) if usual.isdecimal() else 5432)
        host = (asked.get("host") or [host or os.environ.get("PGHOST") or "localhost"])[0]
        yield "PostgreSQL", shown_export(address.export), host, port


def _of_systems(context: DoctorContext) -> Iterator[Server]:
    for path in sorted(path for name in SYSTEM_FILES for path in context.folder.glob(name)):
        plan, _ = planning.examine(formats.read(path))
        if (
            plan is not None
            and isinstance(plan.coordination, SystemPlan)
            and plan.coordination.transport.type == "nats"
        ):
            for url in plan.coordination.transport.servers:
                host, port = _place(url if "://" in url else f"//{url}", 4222)
                yield "NATS", f"nats://{host}:{port}", host, port


def _place(url: str, port: int) -> tuple[str, int]:
    """The host of *url*, of several the first, and its port."""
    first = urlsplit(f"//{urlsplit(url).netloc.partition(',')[0]}")
    with suppress(ValueError):
        port = first.port or port
    return first.hostname or "", port


def _refusal(host: str, port: int) -> str:
    """Why no server accepts a connection; empty if one does."""
    try:
        if host.startswith("/"):  # a folder with the sockets of PostgreSQL
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(f"{host}/.s.PGSQL.{port}")
        else:
            socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
