"""The options of `coterie run` for supervised systems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from coterie.interfaces.cli.parameters import Opt

if TYPE_CHECKING:
    from coterie.team.planning.plan import Plan

DEFAULT = Path("topology.yaml")
"""The file of a system that runs without a target."""


class SystemOptions(Struct, frozen=True, kw_only=True):
    """The options that only a supervised system has."""

    topology: Annotated[Path | None, Opt("-t, --topology FILE", "System: its file, by default topology.yaml.")] = None
    process: Annotated[str | None, Opt("-p, --process NAME", "System: run as the worker of this name.")] = None
    transport: Annotated[
        str | None, Opt("--transport T", "System: use this transport instead of the file's: in_process, zmq or nats.")
    ] = None
    nats_url: Annotated[str | None, Opt("--nats-url URL", "System: the NATS server instead of the file's.")] = None

    def target(self, target: str | None, words: list[str]) -> tuple[str, list[str]]:
        """The file or the name to run, and the words of the prompt: with --topology, all words are the prompt.

        Raises:
            UsageError: If nothing is named and this directory has no topology.yaml.
        """
        from coterie.errors import UsageError

        if self.topology is not None:
            return str(self.topology), [target, *words] if target is not None else words
        if target is not None:
            return target, words
        if not DEFAULT.is_file():
            raise UsageError(f"nothing to run: name a TARGET; without one, {DEFAULT} runs, and there is none here")
        return str(DEFAULT), words

    def overrides(self) -> list[str]:
        """What was given instead of values of the file, each as `key=value`.

        Raises:
            UsageError: If the transport is unknown.
        """
        from coterie.errors import UsageError

        if self.transport is not None:
            from typing import get_args

            from coterie.team.topology.system.fields import TransportName  # for systems only

            if self.transport not in (known := get_args(TransportName)):
                raise UsageError(f"--transport must be one of {', '.join(known)}, not {self.transport!r}")
        given = {"transport.type": self.transport, "transport.servers": self.nats_url}
        return [f"{key}={value}" for key, value in given.items() if value is not None]

    def applied(self, plan: "Plan") -> "Plan":
        """Return *plan* as the process that --process names, after checking that the options fit it.

        Raises:
            UsageError: If one has no meaning for it.
        """
        from msgspec.structs import replace

        from coterie.base.diagnostics import did_you_mean
        from coterie.errors import UsageError

        system = plan.coordination
        if system is None or system.tag != "system":
            if self.process is not None:
                raise UsageError(f"--process is for supervised systems, and {plan.name} is none")
            return plan
        if self.nats_url is not None and system.transport.type != "nats":
            raise UsageError(f"--nats-url is for the transport nats, not {system.transport.type}: add --transport nats")
        if self.process is None:
            return plan
        if system.transport.type == "in_process":
            raise UsageError("--process needs a transport between processes: add --transport zmq")
        known = {name for node in system.root.nodes() if (name := getattr(node, "process", ""))}
        if self.process not in known:
            hint = did_you_mean(self.process, known) or f"its processes: {', '.join(sorted(known)) or 'none'}"
            raise UsageError(f"no agent of {plan.name} has process: {self.process!r}; {hint}")
        return replace(plan, name=f"{plan.name}@{self.process}", coordination=replace(system, process=self.process))
