"""Make the transport that a plan names."""

from importlib.util import find_spec
from typing import Any, assert_never

from coterie.agents.actors.transports.base import Transport
from coterie.base.clock import boot_time
from coterie.errors import ExtraMissing
from coterie.team.planning.system import TransportPlan


def transport_for(plan: TransportPlan, *, system: str, process: str = "", fingerprint: str = "") -> Transport:
    """Make the transport for one process of a system.

    Args:
        system: The name of its root supervisor; systems with different names never connect.
        process: The name of a worker; empty: the supervisor's process.
        fingerprint: The fingerprint of the plan; see `PeerTransport`.

    Raises:
        ExtraMissing: If its library is not installed.
        CannotStart: If the keys in the environment are wrong.
    """
    options = {
        "process": process,
        "fingerprint": fingerprint,
        "heartbeat_timeout": plan.heartbeat_timeout,
        "now": boot_time,
    }
    match plan.type:
        case "in_process":
            return Transport()
        case "zmq":
            return _zmq(plan, system, options)
        case "nats":
            return _nats(plan, system, options)
        case _:
            assert_never(plan.type)


def _zmq(plan: TransportPlan, system: str, options: dict[str, Any]) -> Transport:
    from coterie.agents.actors.transports.broker import need_zmq

    need_zmq()
    from coterie.agents.actors.transports.peer_transport import PeerTransport
    from coterie.agents.actors.transports.zmq import ZmqCarrier

    process = options["process"]
    waits = process and plan.start_proxy  # the supervisor's process, which may start later, starts the broker
    carrier = ZmqCarrier(
        plan.pub_addr,
        plan.sub_addr,
        system=system,
        timeout=None if waits else plan.connect_timeout,
        start_broker=plan.start_proxy and not process,
    )
    return PeerTransport(carrier, **options)


def _nats(plan: TransportPlan, system: str, options: dict[str, Any]) -> Transport:
    if find_spec("nats") is None:
        raise ExtraMissing("nats", "nats-py", "the transport 'nats'")
    from coterie.agents.actors.transports.nats import NatsCarrier

    servers = (plan.servers,) if isinstance(plan.servers, str) else plan.servers
    carrier = NatsCarrier(servers, system=system, timeout=plan.connect_timeout)
    if not plan.jetstream:
        from coterie.agents.actors.transports.peer_transport import PeerTransport

        return PeerTransport(carrier, **options)
    from coterie.agents.actors.transports.jetstream import JetStreamTransport

    return JetStreamTransport(carrier, stream=plan.stream_name, system=system, **options)
