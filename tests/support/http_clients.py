"""Clients for HTTP servers in tests: raw connections, TLS files, HTTP/3."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from coterie.agents.actors.http.server import HttpServer, TlsFiles


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[HttpServer]:
    """A server of *app* on a free port of loopback."""
    server = HttpServer(app, "127.0.0.1", 0, **options)
    await server.start()
    try:
        yield server
    finally:
        await close_all()
        await server.stop(within=0.1)


OPEN: list[asyncio.StreamWriter] = []


async def close_all() -> None:
    """Close the connections that `connect` made."""
    writers, OPEN[:] = list(OPEN), []
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def client(**options: Any) -> httpx.AsyncClient:
    """A client that asks no proxy; making the usual TLS context costs more than a test."""
    return httpx.AsyncClient(
        **{"timeout": 60.0, "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "trust_env": False} | options
    )


def url(server: Any, path: str = "", scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.address[1]}{path}"


async def connect(server: Any, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which *data* has been sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.address[1])
    OPEN.append(writer)
    writer.write(data)
    await writer.drain()
    return reader, writer


def tls_files(folder: Path) -> TlsFiles:
    """A certificate for localhost and 127.0.0.1, and its key."""
    import ipaddress

    pytest.importorskip("cryptography", reason="no library to make a certificate with")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = TlsFiles(cert=folder / "cert.pem", key=folder / "key.pem")
    files.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def trusting(files: TlsFiles) -> ssl.SSLContext:
    """A client's context that knows the certificate of *files* only."""
    return ssl.create_default_context(cafile=str(files.cert))


async def get_over_http3(
    port: int, path: str, files: TlsFiles, head: Sequence[tuple[bytes, bytes]] = (), body: bytes = b""
) -> tuple[int, bytes]:
    """The status and the body of a GET over HTTP/3; the certificate is verified. Status 0: there was no answer.

    Args:
        head: The whole head, as it is sent, in place of that of a GET of *path*.
    """
    from aioquic.asyncio import connect as connect_quic
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration

    class Client(QuicConnectionProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.http = H3Connection(self._quic)
            self.status, self.body = 0, b""
            self.ended = asyncio.get_running_loop().create_future()

        def quic_event_received(self, event: Any) -> None:
            for one in self.http.handle_event(event):
                if isinstance(one, HeadersReceived):
                    self.status = int(dict(one.headers)[b":status"])
                elif isinstance(one, DataReceived):
                    self.body += one.data
                if getattr(one, "stream_ended", False) and not self.ended.done():
                    self.ended.set_result(None)

    configuration = QuicConfiguration(alpn_protocols=["h3"], is_client=True, server_name="localhost")
    configuration.load_verify_locations(str(files.cert))
    async with connect_quic("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
        stream = client._quic.get_next_available_stream_id()
        plain = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode())]
        client.http.send_headers(stream, [*(head or plain)], end_stream=not body)
        if body:
            client.http.send_data(stream, body, end_stream=True)
        client.transmit()
        closed = asyncio.ensure_future(client.wait_closed())
        await asyncio.wait({client.ended, closed}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        return client.status, client.body


__all__ = ["client", "close_all", "connect", "get_over_http3", "serving", "tls_files", "trusting", "url"]
