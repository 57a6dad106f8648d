"""Finds what was left behind: unused imports, notes to oneself, modules that no test knows, silent public functions."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import PurePosixPath

from findings import Finding, Turn, report
from repository import Module, Repository, is_test, shorten

UNDOCUMENTED, UNTESTED = 25, 40
"""From how many lines on a public function wants a docstring, and a module a test."""

_MARKS = re.compile(r"#.*\b(TO[D]O|FIX[M]E|X[X]X|HACK)\b")  # the brackets keep this line from finding itself
_WORD = re.compile(r"\w+")


def unused_imports(module: Module, tree: ast.Module) -> Iterator[Finding]:
    """Names that a module imports at its top and never mentions again, strings included."""
    if module.file.endswith("__init__.py"):
        return
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.update(_WORD.findall(node.value))
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and "noqa" not in module.lines[statement.lineno - 1]:
            for alias, name in _imported(statement):
                if name not in used:
                    claim = f"`{name}` is imported and never used"
                    yield _finding(module, "unused-import", alias.lineno, claim, "Take the import away.", 2.0)


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.alias, str]]:
    """The names that *statement* binds for this module's own use; `import x as x` is for others."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return
    for alias in statement.names:
        if alias.name != "*" and alias.asname != alias.name:
            yield alias, alias.asname or alias.name.partition(".")[0]


def marks(module: Module) -> Iterator[Finding]:
    """Notes to oneself, in comments."""
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(module.lines) + "\n").readline):
            if token.type == tokenize.COMMENT and (found := _MARKS.search(token.string)):
                claim = f"a comment says {found[1]}"
                yield _finding(module, "mark", token.start[0], claim, "Do it, or put it where work is planned.", 1.0)
    except (tokenize.TokenError, SyntaxError):
        return  # a file that does not parse is the business of complexity


def silent_functions(module: Module, tree: ast.Module) -> Iterator[Finding]:
    """Long public functions that do not say what they promise."""
    if module.is_test:
        return
    holders: list[ast.Module | ast.ClassDef] = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    for holder in holders:
        for node in holder.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length >= UNDOCUMENTED and ast.get_docstring(node) is None:
                claim = f"`{node.name}` is public, {length} lines long and has no docstring"
                advice = "Say in one sentence what a caller may rely on."
                yield _finding(module, "docstring", node.lineno, claim, advice, length / UNDOCUMENTED)


def untested(repository: Repository, modules: list[Module]) -> Iterator[Finding]:
    """Modules whose name no test mentions; all tests are read."""
    tests = ("\n".join([file, *repository.lines(file)]) for file in repository.python if is_test(file))
    words = set(_WORD.findall("\n".join(tests)))
    for module in modules:
        path = PurePosixPath(module.file)
        name = path.parent.name if path.stem == "__init__" else path.stem
        code = sum(1 for line in module.lines if line.strip() and not line.lstrip().startswith("#"))
        if not module.is_test and code >= UNTESTED and not {name, f"test_{name}"} & words:
            claim = f"no test mentions `{name}`, {code} lines of code"
            yield _finding(module, "untested", 1, claim, "Write one test of what it promises.", code / UNTESTED)


def find(repository: Repository) -> Iterator[Finding]:
    """Everything left behind, in the order of the files."""
    modules = repository.modules
    for module in modules:
        yield from marks(module)
        if module.tree is not None:
            yield from unused_imports(module, module.tree)
            yield from silent_functions(module, module.tree)
    yield from untested(repository, modules)


def _finding(module: Module, rule: str, line: int, claim: str, advice: str, score: float) -> Finding:
    return Finding(
        rule=f"upkeep.{rule}",
        severity="medium" if rule == "untested" and score > 5 else "low",
        file=module.file,
        line=line,
        claim=claim,
        quote=shorten(module.lines[line - 1]),
        advice=advice,
        score=round(score, 2),
    )


if __name__ == "__main__":
    turn = Turn.read()
    repository = Repository(turn.repo, whole=turn.whole)
    report("upkeep", find(repository), len(repository.modules), repository.notes)
