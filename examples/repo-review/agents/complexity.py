"""Finds functions that are hard to follow: many branches, deep nesting, great length."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from findings import Finding, Turn, report
from repository import Module, Repository, shorten

Function = ast.FunctionDef | ast.AsyncFunctionDef

BRANCHES, DEPTH, LENGTH = 10, 4, 80
"""What a function may have and still go unmentioned."""

_FORKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension)
_LEVELS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)


@dataclass(frozen=True)
class Shape:
    """What makes a function hard: its paths (cyclomatic complexity), its deepest nesting, its lines."""

    branches: int
    depth: int
    length: int

    @property
    def excess(self) -> float:
        """How far it is beyond what goes unmentioned; 1 is the border."""
        return max(self.branches / BRANCHES, self.depth / DEPTH, self.length / LENGTH)


def shape(function: Function) -> Shape:
    """Measure *function*; what is defined inside it counts on its own."""
    branches, deepest = 1, 0
    waiting: list[tuple[ast.AST, int]] = [(child, 0) for child in function.body]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        branches += _ways(node)
        within = depth + isinstance(node, _LEVELS)
        deepest = max(deepest, within)
        chained = node.orelse if isinstance(node, ast.If) and _is_elif(node) else []
        for child in ast.iter_child_nodes(node):
            waiting.append((child, depth if child in chained else within))
    return Shape(branches, deepest, (function.end_lineno or function.lineno) - function.lineno + 1)


def _ways(node: ast.AST) -> int:
    """How many further paths *node* opens."""
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.match_case):
        catches_all = isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None and node.guard is None
        return int(not catches_all)
    return int(isinstance(node, _FORKS))


def _is_elif(node: ast.If) -> bool:
    return len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)


def find(modules: list[Module]) -> Iterator[Finding]:
    """Every function beyond the bounds, and every file that does not parse."""
    for module in modules:
        if module.tree is None:
            yield _unreadable(module)
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found = shape(node)
                if found.excess > 1:
                    yield _hard(module, node, found)


def _hard(module: Module, function: Function, found: Shape) -> Finding:
    severity = "medium" if found.excess > 2 and not module.is_test else "low"
    return Finding(
        rule="complexity.function",
        severity=severity,
        file=module.file,
        line=function.lineno,
        claim=f"`{function.name}` has {found.branches} paths, nests {found.depth} deep, is {found.length} lines long",
        quote=shorten(module.lines[function.lineno - 1]),
        advice="Split it where the subject changes; return early instead of nesting.",
        score=round(found.excess, 2),
    )


def _unreadable(module: Module) -> Finding:
    return Finding(
        rule="complexity.unparsable",
        severity="low" if module.is_test else "high",
        file=module.file,
        line=module.error_line,
        claim=f"this Python cannot parse the file: {module.error}",
        quote=shorten(module.lines[module.error_line - 1]),
        advice="Mend the file, or keep it out of the package if it is meant to be broken.",
        score=10.0,
    )


if __name__ == "__main__":
    turn = Turn.read()
    repository = Repository(turn.repo, whole=turn.whole)
    report("complexity", find(repository.modules), len(repository.modules), repository.notes)
