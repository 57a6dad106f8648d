"""Generate `docs/reference/presets.md` from the files of the presets.

python docs/generate/preset_page.py > docs/reference/presets.md
"""

from collections.abc import Iterator

from coterie.team.planning.presets.catalogue import Preset, PresetRole, catalogue

HEAD = """\
# Presets

<!-- Written by `python docs/generate/preset_page.py`; a test keeps it fresh. -->

Coterie has twelve built-in loops. Each is the folder of a loop with its roles, the events between them, and the events
required before it completes.

List them, show one, and run one without an agent: rehearsed in virtual time, or with simulated answers in a real run.

```sh
coterie presets
coterie presets show autofix
coterie run autofix --rehearse
coterie run autofix -b scripted "Daily jobs run twice when summer time ends"
```

For real work a preset needs a coding agent. Its own backend is `claude-sdk`, Claude Code through its SDK. With the
extra `claude` and a login of Claude Code, or a key in ANTHROPIC_API_KEY:

```console shown
$ coterie run autofix "Daily jobs run twice when summer time ends"
$ coterie run autocode --max-iterations 30 "Add an export as CSV"
```

## Backends

`coterie doctor` shows which of these can be used on this machine.

| backend | for presets | what it does |
|---|---|---|
| `--rehearse` | trial | Rehearses roles and events in virtual time; changes nothing. |
| `-b scripted` | trial | A real run, whose roles do nothing but emit their next event. |
| `-b command` | yes | Starts `claude -p --dangerously-skip-permissions PROMPT` for each turn. |
| `-b PROGRAM -- WORD…` | yes | Starts `PROGRAM WORD… PROMPT` for each turn. |
| `-b model` | no | A model in a loop emits, but has no tools for files and programs. |
| `-b acp:NAME:COMMAND`, `-b kiro` | yes | An agent of the Agent Client Protocol; needs the extra `acp`. |
| `-b claude-sdk` | yes | Claude Code through its SDK: steered, interrupted and priced; needs the extra `claude`. |
| `-b pi` | yes | The coding agent pi, a new session for each turn; needs `pi` on the PATH. |

PROGRAM is a coding agent that works without a dialogue, such as `-b codex -- exec --sandbox workspace-write`.

A preset allows every permission request, and its agents work in the current folder: use a work tree (`--worktree`),
[a sandbox or permissions](../coding-agents.md), a container or another machine if you do not trust them with that
folder.
Every coding agent can do what a preset needs:

{needs}

## Change one

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
    needs = ["| preset | its agents must |\n|---|---|"]
    needs += [f"| [{one.name}](#{one.name}) | {one.needs} |" for one in found]
    head = HEAD.format(most=max(one.max_iterations for one in found), needs="\n".join(needs))
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
