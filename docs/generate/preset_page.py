"""Generate `docs/presets.md` from the files of the presets.

python docs/generate/preset_page.py > docs/presets.md
"""

from collections.abc import Iterator

from coterie.planning.presets.catalogue import Preset, PresetRole, catalogue

HEAD = """\
# Presets

<!-- Written by `python docs/generate/preset_page.py`; a test keeps it fresh. -->

Coterie has twelve built-in loops. Each is the folder of a loop with its roles, the events between them, and the events
required before it completes.

```console shown
$ coterie run autofix "Daily jobs run twice when summer time ends"
$ coterie run autocode --max-iterations 30 -b claude-sdk "Add an export as CSV"
```

List them, show one, and rehearse one without calling a model:

```sh
coterie presets
coterie presets show autofix
coterie run autofix --rehearse
```

To change one, copy it, and run the copy. If the folder has the name of the preset, the preset's overrides of settings
and agents in `agents.toml` apply to the copy too.

```sh
coterie init --preset autofix loops/autofix
coterie topology validate loops/autofix
coterie run loops/autofix --rehearse
```

To change only a setting, you need no copy: `coterie config set --repo --preset autofix event_loop.max_iterations=30`.

## What they have in common

- **An event is the end of a turn.** Each role does only its own work, selects the next step by one event, and hands
  over the facts that the next role needs. An event that is not allowed is rejected at once, with the reason.
- **Nothing is believed.** The checker is never the author, and runs everything again. The *required* event of a preset
  confirms that check: nothing completes the loop before it is accepted.
- **Notes, tasks, memory.** A turn begins with nothing but its prompt. What the loop knows of its progress lies in notes
  below the state folder, what has to be done before it may end in tasks, what later runs will want in memory.
- **It ends.** By its completion event, after {most} iterations, or when three answers in a row say that only the
  operator can help; `blocked.md` in the notes then says what is missing. Budgets: `event_loop.max_runtime` and
  `event_loop.max_cost_usd`.
- **It reviews itself.** After as many iterations as there are roles, a review looks at how the loop works: whether it
  moves, and whether notes, tasks and memory are true.
- **It keeps to its folder.** Nothing is pushed, published or deployed. Roles that keep work commit it; in a git
  repository `--worktree` gives the run its own work tree.

| preset | what it does | required |
|---|---|---|"""


def page() -> str:
    """Return the page."""
    found = catalogue()
    head = HEAD.format(most=max(one.max_iterations for one in found))
    rows = [f"| [{one.name}](#{one.name}) | {one.about} | {_events(one.required)} |" for one in found]
    return "\n".join([head, *rows, "", *(line for one in found for line in _section(one))])


def _section(preset: Preset) -> Iterator[str]:
    yield f"## {preset.name}\n"
    yield f"{preset.about}\n"
    were = "was" if len(preset.required) == 1 else "were"
    ends = f"{_events((preset.completion,))} once {_events(preset.required)} {were} accepted"
    yield f"It begins with {_listed(preset.first)}, and completes by {ends}.\n"
    yield "| role | prompt | emits, and the roles that follow |\n|---|---|---|"
    yield from (f"| {role.name} | {_about(role)} | {_leads(role, preset.completion)} |" for role in preset.roles)
    yield ""


def _about(role: PresetRole) -> str:
    """Return the first line of the role's prompt without `You are the …:`."""
    return role.about.partition(": ")[2] or role.about


def _leads(role: PresetRole, completion: str) -> str:
    return "<br>".join(
        f"`{event}`: {'the end' if event == completion else _listed(targets)}" for event, targets in role.emits.items()
    )


def _events(events: tuple[str, ...]) -> str:
    return ", ".join(f"`{event}`" for event in events)


def _listed(words: tuple[str, ...]) -> str:
    return " and ".join(words)


if __name__ == "__main__":
    print(page(), end="")
