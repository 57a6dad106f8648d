"""Where a cluster is: the address of Temporal's server, a namespace there, and the export of journals."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from coterie.errors import ClusterFailed, ExtraMissing, UsageError
from coterie.execution.cluster.node_secrets import database_login, environment
from coterie.history.journal.export import Export, folder_of, open_export

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.service import RPCError

FORM = "temporal://HOST:7233/NAMESPACE?export=postgresql://HOST/DATABASE"
VARIABLE = "COTERIE_CLUSTER"
"""The environment variable with the address of the cluster whose runs commands show."""
SETTING = "cluster.url"
_EXPORT = "export="
_MESSAGE = re.compile(r'(?:ConnectError.*message|client connect.*error): "([^"]+)"')

_OURS = {
    "workflow task in failed state": "its nodes fail to decide what comes next (`coterie runs` says why)",
    **dict.fromkeys(("timeout expired", "deadline exceeded", "cancelled update"), "the server does not answer"),
}
"""What the server or its client says, in part and in lower case, and what is said of it here."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The address of a cluster, as `--cluster` has it; its text contains no user, password or option of the export.

        ClusterAddress.parse("temporal://temporal.lan:7233/default?export=postgresql://db.lan/runs")

    Attributes:
        host: The server and its port; empty: what Temporal's own configuration says (TEMPORAL_ADDRESS or a profile).
        namespace: Empty: likewise, else `default`.
        export: See `coterie.history.journal.export.open_export`.
    """

    host: str
    namespace: str
    export: str

    @classmethod
    def parse(cls, text: str) -> "ClusterAddress":
        """The address that *text* is; the export is all that follows `export=`.

        Raises:
            UsageError: If it is none.
        """
        place, _, export = text.partition("?")
        scheme, slashes, rest = place.partition("://")
        host, _, namespace = rest.partition("/")
        if scheme != "temporal" or not slashes or "/" in namespace or "@" in host:
            raise UsageError(f"a cluster's address is {FORM}; API keys and certificates come from TEMPORAL_… variables")
        if not export.startswith(_EXPORT) or export == _EXPORT:
            raise UsageError(f"the cluster's address says no export: {FORM}, or a folder on one machine, export=/PATH")
        try:
            _ = urlsplit(f"//{host}").port
        except ValueError as error:
            raise UsageError(f"the port in the cluster's address is none: {error}") from None
        folder_of(export.removeprefix(_EXPORT))
        return cls(host, namespace, export.removeprefix(_EXPORT))

    @classmethod
    def given(cls, option: str | None = None) -> "ClusterAddress | None":
        """The address that *option* is, or else COTERIE_CLUSTER, or else the setting `cluster.url`.

        None if there is none, or the first of them that is given is empty.

        Raises:
            UsageError: If it is no address, or a command line or a file of settings has a password in it.
        """
        text = option if option is not None else os.environ.get(VARIABLE, environment().get(VARIABLE))
        if text is None:
            text = _configured()
        if not text:
            return None
        found = cls.parse(text)
        if text != environment().get(VARIABLE) and _has_password(found.export):
            raise UsageError("others can read this password: keep it in PGPASSWORD, a password file or COTERIE_CLUSTER")
        return found

    def __str__(self) -> str:
        return f"temporal://{self.host}/{self.namespace}?export={shown_export(self.export)}"

    __repr__ = __str__


def shown_export(url: str) -> str:
    """The export *url* without user, password and options."""
    if folder_of(url) is not None:
        return url
    from coterie.history.journal.postgres import shown

    return shown(url)


def _configured() -> str:
    """The setting `cluster.url` of the user, or of the project in this directory."""
    from coterie.team.formats.settings.layers import resolve  # slow to import, and rarely needed
    from coterie.team.formats.settings_locations import project_file, user_file

    here = Path.cwd()
    named = (user_file(os.environ), project_file(here))
    if not any(file.is_file() and b"cluster" in file.read_bytes() for file in named):
        return ""
    return resolve(here, work_dir=here, env=os.environ)[0].cluster.url


def _has_password(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.password) or not {"password", "sslpassword"}.isdisjoint(parse_qs(parts.query))


@asynccontextmanager
async def connected(address: ClusterAddress, converter: Any = None) -> AsyncIterator[tuple["Client", Export]]:
    """A client as `connect` gives it, and the export, until the block ends; a database that goes away is waited for.

    Raises:
        ClusterFailed: If the server or the export cannot be reached or refuses this process.
    """
    export = open_export(address.export, patience=inf, **database_login())
    try:
        client = await connect(address, export, converter)
        from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
        from temporalio.service import RPCError

        try:
            asked = DescribeNamespaceRequest(namespace=client.namespace)
            await client.workflow_service.describe_namespace(asked, retry=True)  # a server that starts is slow
            await export.load("none")  # a wrong password shows here, not in the first turn
            yield client, export
        except RPCError as error:
            raise ClusterFailed(f"temporal://{client.service_client.config.target_host}", reason(error)) from None
    finally:
        await export.close()


async def connect(address: ClusterAddress, export: Export, converter: Any = None, *, lazy: bool = False) -> "Client":
    """A client of the cluster's server, whose long texts go to *export*.

    Args:
        converter: The class of the payload converter; by default Temporal's.
        lazy: Connect at the first call.

    Raises:
        ClusterFailed: If the server cannot be reached or refuses the client.
        ExtraMissing: If a library is not installed.
    """
    try:
        from temporalio.client import Client
        from temporalio.converter import DataConverter, DefaultPayloadConverter
        from temporalio.envconfig import ClientConfig
    except ImportError as missing:
        raise ExtraMissing("cluster", missing.name or "temporalio", "a cluster") from None
    from coterie.execution.cluster.claims import TextClaims

    settings: dict[str, Any] = {**ClientConfig.load_client_connect_config(override_env_vars=environment())}
    settings |= {"target_host": address.host} if address.host else {}
    settings |= {"namespace": address.namespace} if address.namespace else {}
    settings.setdefault("target_host", "localhost:7233")
    codec = DataConverter(
        payload_converter_class=converter or DefaultPayloadConverter, payload_codec=TextClaims(export)
    )
    try:
        return await Client.connect(**settings, data_converter=codec, lazy=lazy, runtime=_quiet())
    except (RuntimeError, ValueError) as error:
        raise ClusterFailed(f"temporal://{settings['target_host']}", reason(error)) from None


@cache
def _quiet() -> Any:
    """A runtime that does not print each call which it repeats while the server is away."""
    from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    errors = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=errors)))


def passes(error: "RPCError") -> bool:
    """Whether a call that failed with *error* may succeed later: the server did not refuse it, but was away or busy."""
    from temporalio.service import RPCStatusCode as Status

    refused = (Status.INVALID_ARGUMENT, Status.NOT_FOUND, Status.ALREADY_EXISTS, Status.PERMISSION_DENIED)
    return error.status not in (*refused, Status.UNAUTHENTICATED, Status.FAILED_PRECONDITION, Status.UNIMPLEMENTED)


def reason(error: BaseException | None) -> str:
    """What went wrong with the server, in a line: of its client's nested errors the last message."""
    said = " ".join(str(error).split())
    if innermost := _MESSAGE.findall(said):
        return f"the server cannot be reached: {innermost[-1]}"
    return next((ours for raw, ours in _OURS.items() if raw in said.lower()), said)
