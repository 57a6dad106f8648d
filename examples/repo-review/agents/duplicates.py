"""Finds functions with the same body as another one, apart from layout and comments."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from findings import Finding, Turn, report
from repository import Module, Repository, shorten

Function = ast.FunctionDef | ast.AsyncFunctionDef

SMALLEST = 50
"""How many syntax nodes a body must have to be worth a word."""


def body_of(function: Function) -> list[ast.stmt]:
    """What *function* does, without its docstring."""
    return function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body


def find(modules: list[Module]) -> Iterator[Finding]:
    """Every function that repeats an earlier one, beside the first of its kind."""
    kinds: dict[str, list[tuple[Module, Function]]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree) if module.tree else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = body_of(node)
                if sum(1 for statement in body for _ in ast.walk(statement)) >= SMALLEST:
                    arguments = ast.dump(node.args)
                    kinds[arguments + "".join(map(ast.dump, body))].append((module, node))
    for (original, first), *copies in kinds.values():
        for module, node in copies:
            yield _copy(module, node, original, first)


def _copy(module: Module, function: Function, original: Module, first: Function) -> Finding:
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    return Finding(
        rule="duplicates.function",
        severity="low" if module.is_test else "medium",
        file=module.file,
        line=function.lineno,
        claim=f"`{function.name}` does the same as `{first.name}` at `{original.file}:{first.lineno}`, line by line",
        quote=shorten(module.lines[function.lineno - 1]),
        advice="Let one piece serve both, or say why they must be able to part.",
        score=float(length),
        evidence={"original": original.file, "line": first.lineno, "quote": shorten(original.lines[first.lineno - 1])},
    )


if __name__ == "__main__":
    turn = Turn.read()
    repository = Repository(turn.repo, whole=turn.whole)
    report("duplicates", find(repository.modules), len(repository.modules), repository.notes)
