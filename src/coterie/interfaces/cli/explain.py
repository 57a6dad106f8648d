"""`coterie explain`: the section of a reference page on a finding, a record, a command, an option or a field."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from coterie.interfaces.cli.output import print_result
from coterie.interfaces.cli.parameters import Arg, Opt

_COMMAND, _AFTER_USAGE, _PARAGRAPH = "coterie ", "\n```\n\n", "\n\n"
PAGES = ("rules", "records", "settings", "options", "patterns", "language", "topology-yaml", "commands")


class Explanation(NamedTuple):
    """What a reference page says of a name.

    Attributes:
        name: As on the page, below its section if it is a row of a table: `agent.model`.
        page: The file of the page.
        text: The section; of a row of a table, its cells, each after its column.
    """

    name: str
    page: str
    text: str


def explain(
    words: Annotated[
        list[str],
        Arg(
            "NAME",
            "A finding's code, a record's topic, a setting, a command, an option, or a field of a notation.",
            names_options=True,
        ),
    ],
    as_json: Annotated[bool, Opt("--json", "Print all explanations of the name as JSON.")] = False,
) -> int:
    """Explain a finding, record, setting, command, option or field.

    Prints what the reference says, as in `coterie explain unknown-agent`, `turn.started`, `event_loop.max_iterations`,
    `worktree merge`, `agent.model`, `--retry` or `stalled`, the reason of an end. A field that several blocks have is
    explained for each, an option for each command, unless it is behind one, as in `resume --retry`.
    """
    from coterie.base.diagnostics import did_you_mean
    from coterie.errors import UsageError

    known, said = explanations(), " ".join(words)
    option = next((word.partition("=")[0] for word in said.split() if word.startswith("--")), "")
    name = said.removeprefix("--")
    code, *_ = re.split(": | until ", name)  # as commands print it, with details
    of_command = [one for one in known.get(option, ()) if said.removeprefix(_COMMAND).startswith(_command_of(one))]
    found = of_command or known.get(option) or known.get(name) or known.get(name.replace("_", "-")) or known.get(code)
    if found is None:
        hint = did_you_mean(option or name, known) or "`coterie explain --help` shows examples"
        raise UsageError(f"nothing is called {said!r}: {hint}")
    text = "\n\n".join(f"{one.name} ({one.page})\n\n{one.text}" for one in found)
    print_result(as_json, [one._asdict() for one in found], lambda: text)
    return 0


def explanations() -> dict[str, list[Explanation]]:
    """What the pages explain, by name.

    A section by its heading, and a command or a group of them by its words; else a row of a table, alone, below its
    section or by its last word; else an option of commands, without its hyphens. With them it is an option only.
    """
    found, rows, options, groups = (defaultdict[str, list[Explanation]](list) for _ in range(4))
    for page in PAGES:
        path = _folder() / f"{page}.md"
        for title, section in _sections(path.read_text(encoding="utf-8")):
            found[title].append(one := Explanation(title, path.name, section))
            if title.startswith(_COMMAND):
                group, _, below = (words := title.removeprefix(_COMMAND)).rpartition(" ")
                for name in {words, below if group == "topology" else words}:
                    found[name].append(one)
                groups[group].append(one)
            for name, row in _rows(section):
                if name.startswith("--"):
                    for each in (name, name[2:]):
                        options[each].append(Explanation(f"{title} {name}", path.name, row))
                    continue
                below = name if name.startswith(f"{title}.") else f"{title}.{name}"
                for each in {name, below, name.rpartition(".")[2]}:
                    rows[each].append(Explanation(below, path.name, row))
    for group in groups.keys() - {""}:
        lines = (f"{one.name}: {one.text.split(_AFTER_USAGE)[1].partition(_PARAGRAPH)[0]}" for one in groups[group])
        found[group].append(Explanation(_COMMAND + group, groups[group][0].page, "\n".join(lines)))
    return {**options, **rows, **found}


def _command_of(option: Explanation) -> str:
    """The words of the command that has *option*, with a blank behind them."""
    return option.name.removeprefix(_COMMAND).rpartition("--")[0]


def _folder() -> Path:
    """The folder of the pages: in an installed package beside the code, in a checkout in `docs`."""
    installed = Path(__file__).parents[2] / "reference"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "docs" / "reference"


def _sections(page: str) -> Iterator[tuple[str, str]]:
    """The headings of *page*, each with its text up to the next one."""
    title, lines, is_code = "", list[str](), False
    for line in [*page.splitlines(), "## "]:
        is_code ^= line.startswith("```")
        heading = None if is_code else re.fullmatch(r"#{2,} (.*)", line)
        if heading is None:
            lines.append(line)
            continue
        if title:
            yield title, "\n".join(lines).strip()
        title, lines = heading[1], []


def _rows(section: str) -> Iterator[tuple[str, str]]:
    """The rows of the tables in *section* whose first cell is a name, or begins with some: `max N`, `-y, --yes`.

    Short options are left out: the long one beside them has the same meaning.
    """
    columns: list[str] = []
    for line in section.splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            columns = []
        elif not columns:
            columns = cells
        elif (names := re.fullmatch(r"`(?:-\w, )?([\w.-]+(?:(?:, | / )[\w-]+)*)(?: [^`]*)?`", cells[0])) is not None:
            text = "\n".join(f"{column}: {cell}" for column, cell in zip(columns[1:], cells[1:], strict=True) if cell)
            yield from ((name, text) for name in re.split(", | / ", names[1]))
