"""Arbitrary records, for properties."""

from typing import Any

from hypothesis import strategies as st

from coterie.history.journal import records as r
from coterie.history.journal.records import Record, Usage
from coterie.team.planning.plan import Limits

any_text = st.text(st.characters(codec=None), max_size=20)
texts = st.one_of(
    any_text,
    st.builds(lambda seed, n: (seed or "x") * n, any_text, st.integers(1, 1500)),
    st.sampled_from(
        ["@text:", "@text:" + "0" * 64, '"@text:x', "@textual", "é" * 500, "é" * 501, "a" * 1000, "\ud800" * 3]
    ),
)
keys = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(keys, values, max_size=4)
counts = st.integers(0, 10**9)
usages = st.builds(Usage, input_tokens=counts, cost=st.floats(0, 1e6), turns=counts)
groups = st.tuples(texts, st.lists(texts, max_size=3).map(tuple))

_FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    int: counts,
    bool: st.booleans(),
    str: texts,
    float: st.floats(0, 1e10),
    dict[str, Any]: objects,
    dict[str, Any] | None: st.none() | objects,
    dict[str, str]: st.dictionaries(keys, texts, max_size=2),
    dict[str, str | None]: st.dictionaries(keys, st.none() | texts, max_size=2),
    dict[str, int]: st.dictionaries(keys, counts, max_size=2),
    dict[str, Usage]: st.dictionaries(keys, usages, max_size=2),
    dict[str, int] | None: st.none() | st.dictionaries(keys, counts, max_size=2),
    float | None: st.none() | st.floats(0, 1e10),
    str | None: st.none() | texts,
    tuple[dict[str, Any], ...]: st.lists(objects, max_size=2).map(tuple),
    r.TreePosition | None: st.none() | st.builds(r.TreePosition, top=texts, repository=texts, head=texts, branch=texts),
    tuple[r.KeptTree, ...]: st.lists(
        st.builds(r.KeptTree, turn=texts, path=texts, branch=texts, reason=texts, files=st.lists(texts).map(tuple)),
        max_size=2,
    ).map(tuple),
    r.GivenValues | None: st.none()
    | st.builds(r.GivenValues, prompt=texts, input=objects, answers=st.lists(objects, max_size=2).map(tuple)),
    r.ThreadStart | None: st.none()
    | st.builds(
        r.ThreadStart,
        name=texts,
        after=texts,
        earlier=counts,
        exchanges=st.lists(
            st.builds(r.ThreadExchange, run=texts, prompt=texts, answers=st.dictionaries(keys, texts, max_size=2)),
            max_size=2,
        ).map(tuple),
        sessions=st.dictionaries(keys, texts, max_size=2),
        left_out=st.dictionaries(keys, counts, max_size=2),
    ),
    Any: values,
    Usage: usages,
    r.ForkedFrom | None: st.none() | st.builds(r.ForkedFrom, run=texts, seq=counts),
    Limits: st.builds(Limits, max_turns=st.none() | counts),
    tuple[str, ...]: st.lists(texts, max_size=3).map(tuple),
    tuple[tuple[str, tuple[str, ...]], ...]: st.lists(groups, max_size=2).map(tuple),
    tuple[tuple[str, ...], ...]: st.lists(st.lists(texts, max_size=2).map(tuple), max_size=2).map(tuple),
    tuple[tuple[str, str], ...]: st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    tuple[tuple[str, str, str], ...]: st.lists(st.tuples(texts, texts, texts), max_size=2).map(tuple),
    tuple[str, tuple[str, ...]] | None: st.none() | groups,
    int | None: st.none() | counts,
    tuple[int, int] | None: st.none() | st.tuples(counts, counts),
}


def _kind(kind: type[Record]) -> st.SearchStrategy[Record]:
    import typing

    hints = typing.get_type_hints(kind)
    fields = {name: _FIELDS[hints[name]] for name in kind.__struct_fields__ if name not in ("seq", "schema")}
    return st.builds(kind, **fields)


journals = st.lists(st.one_of([_kind(kind) for kind in r.RECORDS]), max_size=8)
"""Lists of records of every kind; their seqs are still to be given."""
