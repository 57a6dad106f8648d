"""Tables of cases as one test each, which lists every case that fails.

A parametrised test costs a home, its fixtures and a report for each of its cases, which for a table of small cases is
most of its time. `bundle` takes the place of `pytest.mark.parametrize` there: all cases run in one test, one after the
other, and each failure names its case and the command that runs it alone.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

CASE = "CASE"
"""The variable that chooses cases: the one with that name, or else all whose names contain it."""


def bundle(
    names: str | Sequence[str], cases: Iterable[Any], ids: Callable[[Any], str] | Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each of *cases* in one test; the arguments are those of `pytest.mark.parametrize`.

    Each case gets a `tmp_path` and a `monkeypatch` of its own, and a `capsys` that has printed nothing; other fixtures
    are shared. A case cannot carry a marker, skip, or be given to a fixture: such tables stay parametrised.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_case(keys, one, n, ids) for n, one in enumerate(cases)]
    assert len({name for name, _ in table}) == len(table), f"cases of one name: {[name for name, _ in table]}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**fixtures: Any) -> None:
            chosen, failures = _chosen(table), {}
            for name, values in chosen:
                try:
                    _play(test, name, values, fixtures)
                except pytest.skip.Exception as skipped:
                    raise AssertionError(f"{name}: a case of a bundle cannot skip: {skipped}") from skipped
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"case {name}, alone: {CASE}={name!r} pytest -k {test.__name__}")
                    failures[name] = failure if isinstance(failure, Exception) else AssertionError(str(failure))
            if failures:
                names = ", ".join(map(repr, failures))
                raise ExceptionGroup(f"{len(failures)} of {len(chosen)} cases failed: {names}", [*failures.values()])

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        signature = inspect.signature(test)
        assert set(keys) <= set(signature.parameters), f"{test.__name__} takes no {keys}"
        own = [one for name, one in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        return run

    return decorate


def _play(test: Callable[..., None], name: str, values: dict[str, Any], fixtures: dict[str, Any]) -> None:
    given = dict(fixtures)
    if "tmp_path" in given:
        folder: Path = given["tmp_path"] / str(len(list(given["tmp_path"].iterdir())))
        folder.mkdir()
        given["tmp_path"] = folder
    if "capsys" in given:
        given["capsys"].readouterr()
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" in given:
            given["monkeypatch"] = patch
        test(**values, **given)


def _case(keys: list[str], one: Any, n: int, ids: Callable[[Any], str] | Sequence[str] | None) -> tuple[str, Any]:
    """The name of a case, made as pytest makes it, and its arguments."""
    named = None
    if hasattr(one, "marks"):  # pytest.param
        assert not one.marks, "a case of a bundle carries no marker"
        named, one = one.id, one.values if len(keys) > 1 else one.values[0]
    values = list(one) if len(keys) > 1 else [one]
    assert len(values) == len(keys), f"{keys} want {len(keys)} values: {one!r}"
    if named is None and ids is not None:
        named = "-".join(map(str, map(ids, values))) if callable(ids) else ids[n]
    if named is None:
        named = "-".join(_word(key, value, n) for key, value in zip(keys, values, strict=True))
    return named if named is not None else str(n), dict(zip(keys, values, strict=True))


def _word(key: str, value: Any, n: int) -> str:
    return str(value) if isinstance(value, str | int | float | bool | None) else f"{key}{n}"


def _chosen(table: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    wanted = os.environ.get(CASE)
    if wanted is None:
        return table
    chosen = [case for case in table if case[0] == wanted] or [case for case in table if wanted in case[0]]
    return chosen or pytest.skip(f"none of its cases is named {wanted!r}")
