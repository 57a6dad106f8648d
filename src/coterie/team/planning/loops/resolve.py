"""Plan a loop from its folder, all layers of settings, and the command line."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coterie.base import files
from coterie.base.diagnostics import Diagnostic, Span, error, warning
from coterie.team.formats.folders import AGENTS, TOPOLOGY, is_folder
from coterie.team.formats.settings import Settings
from coterie.team.formats.settings import resolve as resolve_settings
from coterie.team.formats.settings.keys import DEFAULT
from coterie.team.formats.settings_locations import project_file
from coterie.team.planning.loop import LoopGiven, LoopPlan, ParallelPlan, ReviewPlan, RolePlan
from coterie.team.planning.loops import checks
from coterie.team.planning.loops.agents import BackendSources, loop_agents
from coterie.team.planning.loops.profiles import fragments
from coterie.team.planning.loops.texts import Report, TextLocation, fill, joined, place_of, read
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import Plan
from coterie.team.topology.conditions import Condition, comparison
from coterie.team.topology.loop import Loop, Role
from coterie.team.topology.model import Topology

Found = list[Diagnostic]
Team = Callable[[str, str, Path | None, Span | None, Report], Plan | None]
"""Plans the team in a file, given the owner that names it, the file, its base folder, and the location; None after
reporting what is wrong.
"""


def plan_loop(
    topology: Topology,
    *,
    given: LoopGiven | None = None,
    work_dir: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
    before: LoopPlan | None = None,
    team: Team,
) -> tuple[Plan | None, Found]:
    """The plan of *topology*, which has a loop and was read from a folder; see `plan_folder`.

    Args:
        text: The text of its `topology.toml`, to show lines of.
        before: The plan of the running loop. Changes to settings fixed at the start are reported and ignored; a removed
            file of the loop is an error.
        team: Plans the teams of roles.
    """
    found: Found = []
    given, loop = given or LoopGiven(), topology.loop or Loop()
    env = os.environ if env is None else env
    work_dir = (work_dir or Path()).resolve()
    folder = Path(topology.file).parent.resolve()
    preset = before.place.preset if before is not None else folder.name
    if before is not None and AGENTS not in before.files:  # this file did not exist when the run began
        loop = replace(loop, agents={})
    settings, said = resolve_settings(
        folder,
        preset=preset,
        work_dir=work_dir,
        env=env,
        overrides=given.overrides,
        grammars=given.grammars if before is not None else None,
    )
    found += said
    given = msgspec.structs.replace(given, grammars=settings.grammars)
    here = _place(settings, folder, preset, work_dir)
    if before is not None:
        found += _fixed(here, before.place, settings)
        here = before.place
    reader = _Texts(folder, here, settings, TextLocation(topology.file, text=text), found.append)
    reader.wanted += [TOPOLOGY, *([AGENTS] if before is None or AGENTS in before.files else [])]
    reader.wanted += [name for role in loop.roles for name in (role.prompt_file, role.topology) if name]
    sources = BackendSources(
        loop=loop,
        settings=settings,
        given=given,
        preset=preset,
        topology=reader.topology,
        project=TextLocation(str(project_file(folder))),
        team=lambda role: reader.team(role, team),
    )
    agents = loop_agents(sources, reviews=settings.review.enabled, report=found.append)
    roles, waves = {role.id for role in loop.roles}, settings.parallel
    coordination = LoopPlan(
        roles=_roles(sources, reader, work_dir, env),
        handoff=tuple((one.event, tuple(name for name in one.targets if name in roles)) for one in loop.handoff),
        completion=loop.completion or settings.event_loop.completion_event,
        promise=settings.event_loop.completion_promise,
        required=settings.event_loop.required_events,
        objective=reader.setting("event_loop.prompt", "event_loop.prompt_file", "the objective", filled=False),
        harness=reader.setting("", "harness.instructions_file", "the harness's instructions"),
        max_iterations=settings.event_loop.max_iterations,
        max_runtime=settings.event_loop.max_runtime,
        max_cost=settings.event_loop.max_cost_usd,
        stall=settings.event_loop.stall_iterations,
        max_failures=settings.event_loop.max_failures,
        review=_review(settings, loop, reader),
        parallel=ParallelPlan(most=waves.max_branches, timeout=waves.branch_timeout) if waves.enabled else None,
        memory_chars=settings.memory.prompt_budget_chars,
        tasks_chars=settings.tasks.prompt_budget_chars,
        notify=settings.notify.command,
        files=reader.there(),
        place=here,
        given=given,
    )
    if before is not None:
        found += _gone(before, reader.wanted)
    found += checks.check(coordination, loop, reader.topology, reader.completion(loop), reader.place)
    found += checks.outputs_are_given(coordination, agents, loop, reader.topology)
    if any(each.is_error for each in found):
        return None, found
    return Plan(name=topology.name, agents=agents, coordination=coordination, folder=str(folder)), found


def _place(settings: Settings, folder: Path, preset: str, work_dir: Path) -> RunPlace:
    core, tree = settings.core, settings.worktree
    switches = (tree.enabled, settings.isolation.enabled)
    return RunPlace(
        project=str(folder),
        preset=preset,
        work_dir=str(work_dir),
        state_dir=core.state_dir,
        journal_file=settings.path("journal"),
        memory_file=settings.path("memory"),
        tasks_file=settings.path("tasks"),
        log_level=core.log_level,
        run_id_format=core.run_id_format,
        worktree=True if True in switches else False if False in switches else None,
        branch_prefix=tree.branch_prefix,
        merge_strategy=tree.merge_strategy,
        cleanup=tree.cleanup,
        copy=tree.copy,
        setup=tree.setup,
    )


_SETTING_OF = {
    "branch_prefix": "worktree.branch_prefix",
    "cleanup": "worktree.cleanup",
    "copy": "worktree.copy",
    "merge_strategy": "worktree.merge_strategy",
    "setup": "worktree.setup",
    "worktree": "worktree.enabled",
}


def _fixed(now: RunPlace, then: RunPlace, settings: Settings) -> Found:
    """A warning for each changed setting that is fixed at the start of a run."""
    found = []
    for name in RunPlace.__struct_fields__:
        if name in ("project", "preset", "work_dir", "root") or getattr(now, name) == getattr(then, name):
            continue
        setting = _SETTING_OF.get(name, f"core.{name}")
        origin = settings.origins[setting]
        if name.endswith("_file") and origin.layer == DEFAULT and now.state_dir != then.state_dir:
            continue  # its file is in the changed folder
        message = f"{setting!r} was changed, but is fixed when a run begins"
        hint = "the change applies to the next run"
        found.append(place_of(origin).locate(warning("fixed-setting", message, hint=hint)))
    return found


def _gone(before: LoopPlan, wanted: Collection[str]) -> Found:
    """An error for each file of a running loop that is still named but no longer exists."""
    inside = [Path(before.place.project, name) for name in before.files if name in wanted]
    return [
        error("file-gone", f"{str(path)!r} no longer exists", hint="the run continues with its previous plan")
        for path in (*map(Path, before.given.grammars), *inside)
        if not files.exists(path)
    ]


def _roles(sources: BackendSources, reader: "_Texts", work_dir: Path, env: Mapping[str, str]) -> tuple[RolePlan, ...]:
    """The roles with their complete prompts, fragments of profiles included."""
    settings, given = sources.settings, sources.given
    usual = settings.profiles.default if given.default_profiles else ()
    profiles = dict.fromkeys(usual, reader.place("profiles.default"))
    profiles |= {profile: TextLocation("the command line") for profile in given.profiles if profile not in profiles}
    ids = [role.id for role in sources.loop.roles]
    added = fragments(profiles, sources.preset, ids, work_dir, env, reader.report)
    made = []
    for role in sources.loop.roles:
        span = role.spans.get("prompt_file") or role.spans.get("prompt") or role.span
        prompt = joined((role.prompt, added.get(role.id, "")))
        filled = reader.fill(prompt, f"the prompt of role {role.id!r}", replace(reader.topology, span=span))
        made.append(RolePlan(id=role.id, emits=role.emits, prompt=filled, events=_events(role)))
    return tuple(made)


def _events(role: Role) -> tuple[tuple[str, Condition | None], ...] | None:
    """The events of the team of *role* with their conditions, or its single event; None without a team."""
    if not role.topology:
        return None
    events = role.events or dict.fromkeys(role.emits if len(role.emits) == 1 else (), "")
    return tuple((event, comparison(role.id, when)) for event, when in events.items())


def _review(settings: Settings, loop: Loop, reader: "_Texts") -> ReviewPlan | None:
    review = settings.review
    if not review.enabled:
        return None
    return ReviewPlan(
        every=review.every_iterations or len(loop.roles) or 1,
        prompt=reader.setting("review.prompt", "review.prompt_file", "the review's prompt"),
        timeout=review.timeout,
    )


class _Texts:
    """The texts of one loop, from settings and the files they name.

    Attributes:
        wanted: The files of the folder that the loop uses, existing or not.
    """

    def __init__(
        self, folder: Path, place: RunPlace, settings: Settings, topology: TextLocation, report: Report
    ) -> None:
        self.report = report
        self.topology = topology
        self.wanted: list[str] = []
        self._folder, self._settings = folder, settings
        state_dir = str(Path(place.work_dir, place.state_dir))
        self._values = {"STATE_DIR": place.named(state_dir), "PRESET_DIR": place.named(str(folder))}

    def setting(self, inline: str, file: str, what: str, *, filled: bool = True) -> str:
        """The text of the setting *inline*, else of the file that the setting *file* names.

        A default file may be missing.
        """
        if inline and (text := self._settings.value(inline)):
            return self.fill(text, what, self.place(inline)) if filled else str(text)
        name = self._settings.value(file)
        if not name:
            return ""
        self.wanted.append(name)
        place = self.place(file) if self._settings.origins[file].layer != DEFAULT else None
        text = read(self._folder, name, what, place, self.report)
        return self.fill(text, what, TextLocation(str(self._folder / name))) if filled else text

    def team(self, role: Role, planned: Team) -> Plan | None:
        """The plan of the team of *role*, from a file or a loop's folder in this folder."""
        is_loop = is_folder(self._folder / role.topology)
        file = f"{role.topology.rstrip('/')}/{TOPOLOGY}" if is_loop else role.topology

        def report(found: Diagnostic) -> None:
            self.report(replace(self.topology, span=found.span).locate(found))

        return planned(f"role {role.id!r}", file, self._folder, role.spans.get("topology") or role.span, report)

    def place(self, setting: str) -> TextLocation:
        """The location of the value of *setting*."""
        place = place_of(self._settings.origins[setting])
        return place if place.file else TextLocation(self.topology.file)

    def there(self) -> tuple[str, ...]:
        """The wanted files that exist."""
        return tuple(dict.fromkeys(name for name in self.wanted if files.is_file(self._folder / name)))

    def completion(self, loop: Loop) -> TextLocation:
        """The location of the completion event of *loop*."""
        if loop.completion:
            return replace(self.topology, span=loop.spans.get("completion"))
        return self.place("event_loop.completion_event")

    def fill(self, text: str, what: str, place: TextLocation) -> str:
        """*text* with its placeholders replaced."""
        return fill(text, self._values, what, place, self.report)
