"""Generate the reference pages of the notation, `docs/reference/language.md` and `docs/reference/rules.md`.

python docs/generate/notation_pages.py language > docs/reference/language.md
python docs/generate/notation_pages.py rules > docs/reference/rules.md
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from coterie.team.formats.at.language import ATTRIBUTES, LANGUAGE, BlockSpec, FieldSpec, within
from coterie.team.planning.codes import CODES, Code

DATA = Path(__file__).parents[2] / "tests" / "data"
EXAMPLES = (DATA / "at" / "rules", DATA / "loops" / "rules", DATA / "patterns" / "rules", DATA / "systems" / "rules")
"""Examples of each code, with the expected output."""

LANGUAGE_HEAD = """\
# The notation, block by block

<!-- Written by `python docs/generate/notation_pages.py language`; a test keeps it fresh. -->

All blocks and fields of an `.at` file. The last column says whether a field has an **effect**; *models* means only
where a model runs the agent. Other fields are read, checked, shown by `topology show`, and reported by
`topology validate`. Unknown fields are kept, with a warning. See also how [flows](../flow.md) run, the
[backends](../agents.md) of agents, and the [list of diagnostics](rules.md).
"""

RULES_HEAD = """\
# What can be wrong with a file

<!-- Written by `python docs/generate/notation_pages.py rules`; a test keeps it fresh. -->

Every diagnostic has a stable code. An **error** prevents a file from running; with a **warning** it runs, but perhaps
not as intended; a **note** is for information. `coterie topology validate FILE` prints all of them, with `--json` as
data, and an [editor](../editors.md) underlines them. Each code below has its meaning, its rule if there is one, and an
example. *Loop* marks codes of loop folders, *pattern* those of pattern files, *system* those of supervised systems;
other codes may occur there, too.
"""


def language_page() -> str:
    """Return the page of all blocks and fields."""
    seen: set[str] = set()
    return "\n".join([LANGUAGE_HEAD, *_contents(), *(line for block in LANGUAGE for line in _block(block, 2, seen))])


def rules_page() -> str:
    """Return the page of all codes."""
    return "\n".join([RULES_HEAD, *(line for code in CODES for line in _code(code))])


def _contents() -> Iterator[str]:
    yield "| block | meaning | effect |\n|---|---|---|"
    for block in LANGUAGE:
        yield f"| [`{block.name}`](#{block.name}) | {_cell(block.about)} | {'yes' if block.executed else 'none yet'} |"
    yield ""


def _block(block: BlockSpec, level: int, seen: set[str]) -> Iterator[str]:
    """Yield a section for *block* and for each nested block not in *seen*."""
    yield f"{'#' * level} {block.name}\n"
    yield f"{block.about}{' It is kept, but has no effect yet.' if level == 2 and not block.executed else ''}\n"
    if block.example:
        yield f"```\n{block.example}\n```\n"
    if block.name == "flow":
        yield "| attribute of an arrow | meaning | effect |\n|---|---|---|"
        yield from (f"| `{_cell(one.shape)}` | {_cell(one.about)} | {_effect(one.executed)} |" for one in ATTRIBUTES)
        yield ""
    if block.fields:
        yield "| field | value | meaning | default | effect |\n|---|---|---|---|---|"
        yield from (_row(field) for field in block.fields)
        yield ""
    for entries in block.entries:
        yield f"It contains any number of `{entries.shape}`.\n"
    if block.open and block.name not in ("env", "params", "schema"):
        yield f"{'Other fields are kept.' if block.fields else 'You choose the names of its fields.'}\n"
    for inner in within(block):
        if (key := f"{inner.name} {inner.about}") not in seen:
            seen.add(key)
            yield from _block(inner, level + 1, seen)


def _row(field: FieldSpec) -> str:
    effect = "models" if field.model_only else _effect(field.executed)
    return f"| `{field.name}` | {_holds(field)} | {_cell(field.about)} | {_cell(field.default)} | {effect} |"


def _holds(field: FieldSpec) -> str:
    """Return the values of a field; for a block, a link to its table."""
    kind = field.kind
    if kind.entries is not None:
        return f"a block of [`{kind.entries.block.name}`](#{kind.entries.block.name})"
    if kind.block is not None:
        holds = "a block" if kind.name == "block" else _cell(kind.words)
        return f"{holds}, see [`{kind.block.name}`](#{kind.block.name})"
    return _cell(kind.words)


def _effect(executed: bool) -> str:
    return "yes" if executed else ""


def _code(code: Code) -> Iterator[str]:
    yield f"## {code.code}\n"
    kinds = {"loop": code.loop, "pattern": code.pattern, "system": code.system}
    about = next((f", *{kind}*" for kind, is_one in kinds.items() if is_one), "")
    yield f"**{code.severity.value}**{about}: {code.meaning}\n"
    if code.about:
        yield f"The rule: {code.about}\n"
    if found := _example(code.code):
        yield f"```\n{found}\n```\n"


def _example(code: str) -> str:
    """Return the first diagnostic with *code* in its examples."""
    path = next((path for each in EXAMPLES if (path := each / code / "invalid-1.txt").is_file()), None)
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None else []
    begin = next((at for at, line in enumerate(lines) if f"[{code}]: " in line), None)
    if begin is None:
        return ""
    end = next((at for at in range(begin + 1, len(lines)) if not lines[at].startswith("  ")), len(lines))
    shown = [line if len(line) <= 160 else line[:157] + "..." for line in lines[begin:end]]
    return "\n".join([shown[0].partition(": ")[2], *shown[1:]])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print({"language": language_page, "rules": rules_page}[sys.argv[1]](), end="")
