"""How much processor time each test takes, its processes included, and which take too much for their tier.

A pytest plugin. It prints the tests above a second that carry no marker for it and never fails one: what is slow
depends on the machine. What a fixture of a module or a session takes to be made counts for no test. With
`--cpu-report FILE` the list is written there too, for whoever sets a limit.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import preforked
import pytest
from hypothesis import strategies as st

LIMIT = 1.0
"""Seconds of processor time above which a test is `slow`."""
MARKERS = ("slow", "long", "real_agents")

_TICKS = os.sysconf("SC_CLK_TCK")
_above: list[tuple[float, str]] = []
_marks = [0.0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-report", metavar="FILE", help="write unmarked tests above a second of processor time here")


def cpu_seconds() -> float:
    """What this process and all below it have used; without `/proc`, processes count once they have been waited for."""
    times = os.times()
    return (
        times.user + times.system + times.children_user + times.children_system + sum(map(_used, _below(os.getpid())))
    )


def _below(pid: int) -> Iterator[int]:
    """The living processes below *pid*."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split()):
                yield child
                yield from _below(child)
    except OSError:
        return


def _used(pid: int) -> float:
    """What *pid* and the children that it has waited for have used."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0.0
    return sum(map(int, stat.rpartition(b")")[2].split()[11:15])) / _TICKS


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.items and os.environ.get("PYTEST_XDIST_WORKER"):  # else the first test that needs them pays for them
        preforked.start_server()
        st.text().validate()  # makes hypothesis' table of characters, two seconds in a new checkout
    _marks.append(cpu_seconds())


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[object]:
    """Move the mark by what a fixture took that more than one test uses."""
    began = cpu_seconds() if fixturedef.scope != "function" else None
    made = yield
    if began is not None:
        _marks[-1] += cpu_seconds() - began
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "teardown":  # one look a test: where one ends, the next begins
        _marks.append(cpu_seconds())
        if not any(item.get_closest_marker(name) for name in MARKERS):
            report.user_properties.append(("cpu_seconds", _marks[-1] - _marks[-2]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    used = dict(report.user_properties).get("cpu_seconds", 0.0) if report.when == "teardown" else 0.0
    if used > LIMIT:
        _above.append((used, report.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = [f"{used:6.1f} s  {test}" for used, test in sorted(_above, reverse=True)]
    if lines:
        terminalreporter.section("above a second of processor time, and not marked `slow`")
        terminalreporter.write_line("\n".join(lines))
    if file := config.getoption("--cpu-report"):
        Path(file).write_text("".join(f"{line}\n" for line in lines))
