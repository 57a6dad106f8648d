"""Finds calls and habits that go wrong: code from text, shells, unsafe loading, errors that vanish, shared defaults."""

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from findings import Finding, Turn, report
from repository import Module, Repository, shorten


class Hit(NamedTuple):
    """One rule that a node breaks."""

    rule: str
    severity: str
    claim: str
    advice: str


_LOADERS = frozenset({"pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "shelve.open", "dill.load"})
_UNSAFE = frozenset({"yaml.Loader", "yaml.UnsafeLoader", "yaml.CLoader"})
_SPAWNERS = frozenset({"asyncio.create_task", "asyncio.ensure_future"})
_NETWORK = frozenset({"urllib.request.urlopen"} | {f"requests.{verb}" for verb in ("get", "post", "put", "delete")})


def names_of(tree: ast.Module) -> dict[str, str]:
    """Return the full name of each imported name: `subprocess` for `sp`, `subprocess.run` for `run`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _called(node: ast.expr, names: dict[str, str]) -> str:
    """The dotted name of a called function, imports resolved; empty when it is not a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def _keyword(call: ast.Call, name: str) -> object:
    """The constant given for keyword *name*; None when it is absent or computed."""
    values = (keyword.value for keyword in call.keywords if keyword.arg == name)
    value = next(values, None)
    return value.value if isinstance(value, ast.Constant) else None


def _has(call: ast.Call, *names: str) -> bool:
    return any(keyword.arg is None or keyword.arg in names for keyword in call.keywords)


def code_from_text(call: ast.Call, name: str, names: dict[str, str]) -> Iterator[Hit]:
    """`eval` and `exec`, and shells."""
    constant = bool(call.args) and isinstance(call.args[0], ast.Constant)
    if name in {"eval", "exec"} and not constant:
        yield Hit(
            "eval", "high", f"`{name}` runs a text as code", "Parse the text (`ast.literal_eval`, `json`) instead."
        )
    if name in {"os.system", "os.popen"} or _keyword(call, "shell") is True:
        claim = "a constant command goes through a shell" if constant else "a computed command goes through a shell"
        severity = "low" if constant else "high"
        yield Hit("shell", severity, claim, "Call `subprocess.run` with a list of arguments, without a shell.")


def unsafe_loading(call: ast.Call, name: str, names: dict[str, str]) -> Iterator[Hit]:
    """Loaders that can be made to run code or to write elsewhere."""
    if name in _LOADERS:
        yield Hit(
            "pickle", "medium", f"`{name}` runs what its data says", "Use JSON unless only this program writes it."
        )
    if name in {"yaml.load", "yaml.load_all"} and _loader(call, names) in {"", *_UNSAFE}:
        yield Hit("yaml", "high", f"`{name}` without a safe loader runs what the file says", "Use `yaml.safe_load`.")
    if name.endswith(".extractall") and "tar" in name and not _has(call, "filter"):
        yield Hit("extract", "medium", "an archive may write outside its folder", 'Pass `filter="data"`.')
    if name == "tempfile.mktemp":
        yield Hit("mktemp", "medium", "another process can take the name first", "Use `tempfile.mkstemp`.")


def careless_network(call: ast.Call, name: str, names: dict[str, str]) -> Iterator[Hit]:
    """Requests that trust everybody or wait for ever."""
    if _keyword(call, "verify") is False:
        yield Hit("verify", "high", "the certificate is not checked", "Leave `verify` on; name your own authority.")
    if name in _NETWORK and not _has(call, "timeout"):
        yield Hit("timeout", "medium", f"`{name}` waits for ever without an answer", "Pass `timeout`.")


def _loader(call: ast.Call, names: dict[str, str]) -> str:
    """The YAML loader that *call* names; empty when it leaves the choice to the library."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg in {None, "Loader"})]
    return (_called(given[0], names) or "computed") if given else ""


CALLS: tuple[Callable[[ast.Call, str, dict[str, str]], Iterator[Hit]], ...] = (
    code_from_text,
    unsafe_loading,
    careless_network,
)


def vanishing_errors(node: ast.AST) -> Iterator[Hit]:
    """Handlers that take everything, or take it and say nothing."""
    if not isinstance(node, ast.ExceptHandler):
        return
    raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    broad = isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
    if node.type is None and not raises:
        claim = "a bare `except` takes Ctrl-C and every mistake"
        yield Hit("bare-except", "medium", claim, "Name the errors you expect.")
    elif broad and all(isinstance(statement, ast.Pass | ast.Continue) for statement in node.body):
        claim = "every error vanishes here without a trace"
        yield Hit("swallowed", "medium", claim, "Name the errors you expect, or say what happened.")


def shared_defaults(node: ast.AST) -> Iterator[Hit]:
    """Defaults that all calls share."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
    made = ("list", "dict", "set")
    for default in defaults:
        calls = isinstance(default, ast.Call) and isinstance(default.func, ast.Name) and default.func.id in made
        if calls or isinstance(default, ast.List | ast.Dict | ast.Set):
            claim = f"the default `{ast.unparse(default)}` is one object for all calls"
            yield Hit("mutable-default", "medium", claim, "Default to None or to a tuple, and make it inside.")


def vacuous_assertions(node: ast.AST) -> Iterator[Hit]:
    """Assertions that cannot fail."""
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Tuple) and node.test.elts:
        yield Hit("assert-tuple", "high", "asserting a tuple never fails", "Take the parentheses away.")


NODES: tuple[Callable[[ast.AST], Iterator[Hit]], ...] = (vanishing_errors, shared_defaults, vacuous_assertions)


def lost_tasks(node: ast.AST, names: dict[str, str]) -> Iterator[Hit]:
    """Yield tasks without a reference: the event loop holds them weakly, so they may be collected."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _called(node.value.func, names) in _SPAWNERS:
        yield Hit(
            "lost-task",
            "medium",
            "no reference to this task: it may be collected while it runs",
            "Keep it, or use a TaskGroup.",
        )


def find(modules: list[Module]) -> Iterator[Finding]:
    """Every broken rule, in the order of the files."""
    for module in modules:
        if module.tree is None:
            continue
        names = names_of(module.tree)
        for node in ast.walk(module.tree):
            hits = [hit for rule in NODES for hit in rule(node)] + list(lost_tasks(node, names))
            if isinstance(node, ast.Call):
                hits += [hit for rule in CALLS for hit in rule(node, _called(node.func, names), names)]
            for hit in hits:
                yield _finding(module, getattr(node, "lineno", 1), hit)


def _finding(module: Module, line: int, hit: Hit) -> Finding:
    return Finding(
        rule=f"risks.{hit.rule}",
        severity="low" if module.is_test else hit.severity,
        file=module.file,
        line=line,
        claim=hit.claim,
        quote=shorten(module.lines[line - 1]),
        advice=hit.advice,
        score={"high": 5.0, "medium": 3.0, "low": 1.0}[hit.severity],
    )


if __name__ == "__main__":
    turn = Turn.read()
    repository = Repository(turn.repo, whole=turn.whole)
    report("risks", find(repository.modules), len(repository.modules), repository.notes)
