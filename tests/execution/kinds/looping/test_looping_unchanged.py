"""A loop's files are read again only when one that the plan depends on changed, and then always."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import strategies as st
from msgspec import structs
from sampled import sampled

from coterie.base.file_fingerprint import SETTLED, FileFingerprint
from coterie.execution.kinds.loop.reload import LastReading, read_again
from coterie.history.journal.records import ConfigAnswer, ConfigChanged, ConfigHeld, ConfigKept, ConfigRejected
from coterie.team.planning.loop import LoopGiven
from coterie.team.planning.loops.folder import plan_folder, reread
from coterie.team.planning.plan import Plan, from_json

FILES = {
    "repo/loop/autoloops.toml": 'review.enabled = true\nreview.prompt_file = "metareview.md"\n'
    'event_loop.max_iterations = 5\nprofiles.default = ["repo:slow", "user:mine"]\n',
    "repo/loop/topology.toml": 'name = "work"\ncompletion = "done"\n'
    '[[role]]\nid = "builder"\nemits = ["built"]\nprompt_file = "roles/builder.md"\n'
    '[[role]]\nid = "pair"\nemits = ["paired"]\ntopology = "teams/pair.at"\n'
    '[[role]]\nid = "inner"\nemits = ["done"]\ntopology = "inner"\n'
    '[handoff]\n"loop.start" = ["builder"]\nbuilt = ["pair"]\npaired = ["inner"]\n',
    "repo/loop/agents.toml": '[defaults]\nbuilder = "one"\n',
    "repo/loop/roles/builder.md": "Build it.\n",
    "repo/loop/harness.md": "Small steps.\n",
    "repo/loop/metareview.md": "Look back.\n",
    "repo/loop/teams/pair.at": 'topology pair : [pipeline] {\n  include "parts.at"\n'
    '  agent c { model: claude prompt: "say.md" }\n  flow { a -> c }\n}\n',
    "repo/loop/teams/parts.at": 'fragment parts {\n  agent a { extensions { coterie { command: ["echo"] } } }\n}\n',
    "repo/loop/teams/say.md": "Say so.\n",
    "repo/loop/inner/topology.toml": 'completion = "done"\n[[role]]\nid = "one"\nemits = ["done"]\nprompt = "One."\n',
    "repo/loop/inner/autoloops.toml": "event_loop.max_iterations = 2\n",
    "repo/.autoloop/overrides/loop.toml": "event_loop.max_failures = 4\n",
    "repo/.autoloop/profiles/slow/loop/builder.md": "Take your time.\n",
    "home/.config/autoloop/config.toml": "event_loop.stall_iterations = 3\n",
    "home/.config/autoloop/overrides/loop.toml": "event_loop.max_runtime = 900\n",
    "home/.config/autoloop/profiles/mine/loop/builder.md": "As I like it.\n",
}
ABSENT = {
    "repo/loop/autoloops.conf": "",
    "repo/loop/inner/agents.toml": "",
    "repo/loop/inner/harness.md": "Inside.\n",
    ".autoloop/overrides/inner.toml": "event_loop.max_iterations = 1\n",
    "repo/.autoloop/profiles/slow/loop/pair.md": "Slowly.\n",
    "home/.config/autoloop/profiles/mine/loop/pair.md": "Mine.\n",
    "repo/work/.git": "gitdir: elsewhere\n",
}
"""Files that would matter, or be looked at, if they appeared."""

LINKED = (
    "repo/loop/roles/builder.md",
    "repo/loop/topology.toml",
    "repo/loop/autoloops.toml",
    "home/.config/autoloop/profiles/mine/loop/builder.md",
)
"""Files of a role and its loop that may be symbolic links."""


class Loop:
    """A loop with something in every layer, and what it is answered when it asks for its plan.

    Attributes:
        opened: The files below *top* that were opened, in order.
    """

    def __init__(self, top: Path, now: Callable[[], int]) -> None:
        for old in top.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        for name, text in FILES.items():
            put(top / name, text)
        (top / "repo/.git").mkdir()
        (top / "repo/work").mkdir()
        self.top, self.env = top, {"HOME": str(top / "home")}
        self.opened: list[str] = []
        made, found = plan_folder(top / "repo/loop", given=LoopGiven(), work_dir=top / "repo/work", env=self.env)
        assert made is not None, [each.render() for each in found]
        self.plan = made
        self._last = LastReading(FileFingerprint(now))

    def ask(self) -> ConfigAnswer:
        """Ask for the plan, as a run does before an iteration."""
        self.opened.clear()
        with watched(self.top, self.opened):
            answer = self._answer(self._last)
        if isinstance(answer, ConfigChanged):
            self.plan = from_json(answer.plan)
        return answer

    def without_memory(self) -> ConfigAnswer:
        """What is answered when all files are read."""
        return self._answer(LastReading())

    def _answer(self, last: LastReading) -> ConfigAnswer:
        def again(plan: Plan) -> Any:
            return reread(plan, env=self.env)

        answer = read_again("r", self.plan, again, lambda plan: plan, last)
        return answer if isinstance(answer, ConfigRejected) else structs.replace(answer, warnings=())


WATCHED: list[tuple[str, list[str]]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if WATCHED and event in ("open", "os.listdir", "os.scandir"):
        for top, opened in WATCHED:
            if isinstance(arguments[0], str | os.PathLike) and os.fspath(arguments[0]).startswith(top):
                opened.append(os.fspath(arguments[0]))


@cache
def _hooked() -> None:
    """Hook this process on for good, as late as can be: what a process does afterwards costs more."""
    sys.addaudithook(_hook)


@contextmanager
def watched(top: Path, opened: list[str]) -> Iterator[None]:
    """Note in *opened* what this process opens and lists below *top*."""
    _hooked()
    WATCHED.append((str(top), opened))
    try:
        yield
    finally:
        WATCHED.pop()


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def tick(folder: Path) -> None:
    """Return once a change gets another time than all before; file systems count in steps."""
    probe = folder / "probe"
    probe.touch()
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        os.utime(probe)


def late() -> int:
    """A time at which every change is long ago."""
    return time.time_ns() + 10 * SETTLED


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of all layers; the loop inside a loop finds its own by the folder of the process."""
    folder = tmp_path_factory.mktemp("layers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def test_an_unchanged_folder_is_not_read(top: Path) -> None:
    """Every file of every layer is opened once; later nothing is opened, and no folder is listed."""
    loop = Loop(top, late)

    assert loop.ask() == ConfigKept()
    assert {os.path.relpath(path, top) for path in loop.opened} >= FILES.keys()
    assert loop.ask() == ConfigKept()
    assert loop.opened == []


def edited(path: Path) -> None:
    """Change a byte in place, and give the file the times that it had."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def replaced(path: Path) -> None:
    """Put another file of the same size and times there."""
    before = path.stat()
    put(path.with_name("new"), path.read_text().swapcase())
    os.utime(path.with_name("new"), ns=(before.st_atime_ns, before.st_mtime_ns))
    path.with_name("new").replace(path)


def deleted(path: Path) -> None:
    path.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def folder_renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def linked(path: Path) -> None:
    """Make a link of the file: to its content now, then to another one."""
    path.rename(path.with_name("target"))
    path.symlink_to("target")


def locked(path: Path) -> None:
    path.chmod(0o200)


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES = (edited, replaced, deleted, renamed, folder_renamed, linked, locked, made_a_folder)


PAIRS = [(name, change) for name in sorted(FILES) for change in CHANGES]


@pytest.mark.parametrize(
    ("name", "change"),
    [pytest.param(*pair, marks=() if n % 17 == 0 else pytest.mark.long) for n, pair in enumerate(PAIRS)],
)
def test_every_change_of_a_file_is_seen(top: Path, name: str, change: Callable[[Path], None]) -> None:
    """Whatever is done to a file of whichever layer, the answer is the same as if all files were read."""
    loop = Loop(top, late)
    assert loop.ask() == ConfigKept()
    tick(top)
    change(top / name)
    expected = loop.without_memory()

    assert loop.ask() == expected
    assert loop.opened
    loop.ask()
    again = loop.without_memory()
    assert loop.ask() == (ConfigKept() if isinstance(again, ConfigHeld) else again)  # what is held is said once


@bundle("name", ABSENT)
def test_a_file_that_appears_is_seen(top: Path, name: str) -> None:
    """A layer or a prompt that was missing, the root of another repository."""
    loop = Loop(top, late)
    assert loop.ask() == ConfigKept()
    tick(top)
    put(top / name, ABSENT[name])
    expected = loop.without_memory()

    assert loop.ask() == expected
    assert loop.opened


@pytest.mark.parametrize("change", [edited, replaced])
@pytest.mark.parametrize("name", LINKED)
def test_a_change_behind_a_link_is_seen(top: Path, name: str, change: Callable[[Path], None]) -> None:
    """The target of a symbolic link changes; the link itself stays as it is."""
    loop = Loop(top, late)
    file = top / name
    linked(file)
    loop.ask()
    assert loop.ask() == ConfigKept()
    assert loop.opened == []
    tick(top)
    change(file.with_name("target"))
    expected = loop.without_memory()

    assert loop.ask() == expected
    assert loop.opened


def test_a_link_that_leads_elsewhere_is_seen(top: Path) -> None:
    """The file behind it, or the folder on the way, even if the two files are one and its times stay."""
    loop = Loop(top, late)
    prompt, roles = top / "repo/loop/roles/builder.md", top / "repo/loop/roles"
    put(roles / "b.md", "Build more.\n")
    tick(top)
    linked(prompt)
    loop.ask()
    assert loop.ask() == ConfigKept()
    assert loop.opened == []
    tick(top)
    prompt.unlink()
    prompt.symlink_to("b.md")
    assert isinstance(loop.ask(), ConfigChanged)

    roles.rename(top / "repo/loop/first")
    shutil.copytree(top / "repo/loop/first", top / "repo/loop/second", symlinks=True)
    put(top / "repo/loop/second/b.md", "Build less.\n")
    roles.symlink_to("first")
    assert loop.ask() == ConfigKept()
    assert loop.ask() == ConfigKept()
    assert loop.opened == []
    tick(top)
    roles.unlink()
    roles.symlink_to("second")
    assert isinstance(loop.ask(), ConfigChanged)

    inside, outside = roles / "b.md", top / "outside.md"
    os.link(inside, outside)
    loop.ask()
    loop.ask()
    assert loop.opened == []
    tick(top)
    prompt.unlink()
    prompt.symlink_to(outside)
    assert loop.ask() == loop.without_memory() != ConfigKept()


@sampled(
    8, 100, changes=st.lists(st.tuples(st.sampled_from(sorted(FILES | ABSENT)), st.sampled_from("abc")), max_size=6)
)
def test_any_sequence_of_changes_is_answered_as_if_all_was_read(top: Path, changes: list[tuple[str, str]]) -> None:
    """With and without a reading in between; also when an earlier content comes back."""
    loop = Loop(top, late)
    for name, word in changes:
        tick(top)
        if word == "a":
            put(top / name, (FILES | ABSENT)[name])
        elif word == "b":
            (top / name).unlink(missing_ok=True)
        expected = loop.without_memory()
        assert loop.ask() == expected


def test_a_second_change_within_one_step_of_the_clock_is_not_missed(top: Path) -> None:
    """A file with the same size and times as it had when it was read, because it was read right after a change."""
    prompt = top / "repo/loop/roles/builder.md"
    loop = Loop(top, lambda: prompt.stat().st_ctime_ns)
    assert loop.ask() == ConfigKept()
    assert loop.ask() == ConfigKept()
    assert str(prompt) in loop.opened

    moment = prompt.stat().st_ctime_ns
    for after, is_read in ((SETTLED, True), (SETTLED + 1, False)):
        seen = FileFingerprint(lambda after=after: moment + after)
        with seen.recorded():
            seen.note(str(prompt))
        seen.confirm()
        assert seen.is_current() is not is_read


def test_after_a_mistake_the_files_are_read_until_they_are_right(top: Path) -> None:
    """The old plan goes on; each iteration tries again, and what was right before is right again."""
    loop = Loop(top, late)
    assert loop.ask() == ConfigKept()
    tick(top)
    put(top / "repo/loop/topology.toml", "[[role")
    rejected = loop.ask()

    assert loop.ask() == rejected != ConfigKept()
    assert loop.opened
    tick(top)
    put(top / "repo/loop/topology.toml", FILES["repo/loop/topology.toml"])
    assert loop.ask() == ConfigKept()
    assert loop.ask() == ConfigKept()
    assert loop.opened == []
