import time
from typing import Any

import msgspec
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.history.engines.commands import Reply
from coterie.history.engines.replies import MAX_DEPTH, find_outputs, judge_reply
from coterie.history.journal.records import AttemptFailed, TurnFinished, Usage
from coterie.team.planning.plan import Wanted

VERDICT = Wanted(name="verdict", type="enum", values=("approve", "revise"))
ASKED = Wanted(name="verdict", declared=False, values=("approve",))


def outputs_of(text: str, *wanted: Wanted) -> dict[str, Any]:
    record = judge_reply(Reply(turn="r#1", attempt=1, text=text), wanted)
    assert isinstance(record, TurnFinished), record
    return record.outputs


def fault_of(text: str, *wanted: Wanted) -> str:
    record = judge_reply(Reply(turn="r#1", attempt=1, text=text), wanted)
    assert isinstance(record, AttemptFailed), record
    assert record.kind == "invalid_output"
    return record.reason


@bundle(
    "text",
    [
        '{"verdict": "approve"}',
        'All fine.\n```json\n{"verdict": "approve"}\n```\nThat is it.',
        'I say {"verdict": "approve"} and mean it.',
        '{"verdict": "revise"} was the old one.\n{"verdict": "approve"}',
        '{"verdict": "approve"}\nAn example: {"debug": true} {}',
        '{"verdict": "approve", "parts": [{"verdict": "revise"}, {"deep": {"verdict": "revise"}}]}',
        'if (x) { return } // {"verdict": "approve"}',
        '{"broken": {"verdict": "approve"}, oops',
        '{"a": "{\\"verdict\\": \\"revise\\"}", "verdict": "approve"}',
        "verdict: approve",
        "Looks good.\r\n\r\n- **verdict**: approve\r\n",
        "**verdict: approve**",
        "* `verdict`: `approve`",
        'verdict:   "approve"  ',
        "verdict: revise\nno, wait\nverdict: approve",
        '{"unrelated": 1}\nverdict: approve',
        "Verdict: Approve.",
        "**verdict:** approve",
        "**Verdict:** Approve.",
        "__Verdict__: _Approve_",
        "## VERDICT: **approve**.",
        "**Verdict:** **Approve**.",
        "1. Verdict: approve",
        "2) **Verdict:** approve",
        "\x1b[1mVerdict:\x1b[0m \x1b[32mapprove\x1b[0m\n",
        '{"Verdict": "Approve."}',
        '{"VERDICT": "revise", "verdict": "approve"}',
    ],
)
def test_the_verdict_is_found(text: str) -> None:
    """The last JSON object that holds a wanted name counts, fenced or bare; without one, the last such line."""
    assert outputs_of(text, VERDICT)["verdict"] == "approve"


@bundle("text", ["", "approved", "the verdict: approve", '"verdict": "approve"', "verdict : \n approve"])
def test_prose_is_no_output(text: str) -> None:
    """A name in the middle of a line, or a value elsewhere, says nothing."""
    assert fault_of(text, VERDICT)


def test_names_of_structured_and_of_given_outputs_ignore_case() -> None:
    """Wherever an output comes from, it is stored under the name that is wanted."""
    emitted = Reply(turn="r#1", attempt=1, text="", given={"Verdict": "Revise."})
    structured = Reply(turn="r#1", attempt=1, text="", outputs={"VERDICT": "approve"})

    assert [judge_reply(reply, [VERDICT]).outputs for reply in (emitted, structured)] == [  # type: ignore[union-attr]
        {"verdict": "revise"},
        {"verdict": "approve"},
    ]


def test_emphasis_is_removed_only_around_a_value() -> None:
    """What a value says stays: its own emphasis, a dunder, and the full stop of a sentence."""
    text = Wanted(name="summary", type="text")

    assert outputs_of("**Summary:** it is *nearly* done.", text) == {"summary": "it is *nearly* done."}
    assert outputs_of("summary: __init__", text) == {"summary": "__init__"}
    assert outputs_of("summary: **Done**.", text) == {"summary": "Done."}


def test_a_whole_object_is_kept() -> None:
    """What an object holds beside the wanted names are outputs too, untyped."""
    assert outputs_of('{"verdict": "approve", "notes": [1, null]}', VERDICT) == {
        "verdict": "approve",
        "notes": [1, None],
    }


def test_structured_outputs_win_over_the_text() -> None:
    """A backend that has structured output is not second-guessed, even when it gives nothing."""
    reply = Reply(turn="r#1", attempt=2, text='{"verdict": "approve"}', outputs={"verdict": "revise"}, message="m")
    record = judge_reply(reply, [VERDICT])

    assert record == TurnFinished(turn="r#1", attempt=2, text=reply.text, outputs={"verdict": "revise"}, message="m")
    empty = judge_reply(Reply(turn="r#1", attempt=1, text=reply.text, outputs={}), [VERDICT])
    assert isinstance(empty, AttemptFailed)


def test_nothing_wanted_nothing_searched() -> None:
    """A text whose agent declares nothing and whom no condition reads has no outputs."""
    assert outputs_of('{"verdict": "approve"}') == {}


def test_an_undeclared_output_may_be_missing() -> None:
    """It is only asked for; that a condition cannot be judged is the flow's to record."""
    assert outputs_of("nothing to say", ASKED) == {}
    assert outputs_of("verdict: whatever", ASKED) == {"verdict": "whatever"}


@bundle(
    ("line", "value"),
    [
        ("3", 3),
        ("3.", 3),
        ("0.9.", 0.9),
        ("true.", "true."),
        ("-2.5", -2.5),
        ("true", True),
        ('"3"', "3"),
        ("007", "007"),
        ("[1]", "[1]"),
        ("1e999", "1e999"),
    ],
)
def test_an_undeclared_value_on_a_line_is_read_as_json_when_it_is_a_scalar(line: str, value: object) -> None:
    """So `n: 3` compares as a number, and `"3"` as a text."""
    assert outputs_of(f"n: {line}", Wanted(name="n", declared=False)) == {"n": value}


@bundle(
    ("kind", "given", "value"),
    [
        ("number", "2.5", 2.5),
        ("number", '"2"', 2),
        ("integer", "4.0", 4),
        ("integer", '" 4 "', 4),
        ("boolean", "false", False),
        ("boolean", '" True"', True),
        ("text", "3", "3"),
        ("text", "true", "true"),
        ("text", '" as is "', " as is "),
        ("any", "[1]", [1]),
    ],
)
def test_a_declared_value_takes_its_type(kind: str, given: str, value: object) -> None:
    """From JSON, and from text that reads like it."""
    found = outputs_of(f'{{"x": {given}}}', Wanted(name="x", type=kind))["x"]

    assert (found, type(found)) == (value, type(value))


@bundle(
    ("kind", "given"),
    [
        ("number", "true"),
        ("number", '"many"'),
        ("integer", "2.5"),
        ("boolean", "1"),
        ("boolean", '"yes"'),
        ("text", "[1]"),
        ("text", "null"),
        ("any", "null"),
    ],
)
def test_a_declared_value_of_another_type_is_invalid(kind: str, given: str) -> None:
    """Never a silent guess."""
    assert "the reply gives" in fault_of(f'{{"x": {given}}}', Wanted(name="x", type=kind))


def test_an_enum_gives_its_own_member() -> None:
    """Compared like a condition compares, trimmed; the member's scalar is stored, not the reply's text."""
    level = Wanted(name="level", type="enum", values=(1, 2.5, True, "null"))

    assert outputs_of('{"level": " 1 "}', level) == {"level": 1}
    assert outputs_of('{"level": 2.50}', level) == {"level": 2.5}
    assert outputs_of("level: true", level) == {"level": True}
    assert fault_of('{"level": null}', level)
    assert fault_of('{"level": "APPROVE"}', level)


@bundle(
    ("text", "wanted", "outputs"),
    [
        (" approve\n", (ASKED,), {"verdict": "approve"}),
        ("approve", (VERDICT,), {"verdict": "approve"}),
        ("verdict: revise", (VERDICT,), {"verdict": "revise"}),
        ("approve\nwell done", (ASKED,), {}),
        ("approve", (ASKED, Wanted(name="why", declared=False)), {}),
    ],
)
def test_a_person_who_just_says_the_one_value_has_given_it(
    text: str, wanted: tuple[Wanted, ...], outputs: dict[str, Any]
) -> None:
    """Declared or only asked for; on one line, and where there is one value to give."""
    record = judge_reply(Reply(turn="r#1", attempt=1, text=text), wanted, bare=True)

    assert isinstance(record, TurnFinished)
    assert record.outputs == outputs


def test_null_is_a_value_where_its_schema_accepts_it() -> None:
    """It is missing, left out, or the value, by what the schema says."""
    nullable, plain = {"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer"}
    given = '{"n": null}'

    assert outputs_of(given, Wanted(name="n", schema=nullable)) == {"n": None}
    assert outputs_of(given, Wanted(name="n", schema={**nullable, "default": 5})) == {"n": None}
    assert outputs_of(given, Wanted(name="n", schema={**plain, "default": 5})) == {}
    assert outputs_of("{}", Wanted(name="n", schema={**nullable, "default": 5})) == {}
    assert "does not fit its schema" in fault_of('{"n": "x"}', Wanted(name="n", schema={**plain, "default": 5}))
    assert "gives null" in fault_of(given, Wanted(name="n", schema=plain))
    assert "does not give it" in fault_of("{}", Wanted(name="n", schema=nullable))


def test_the_reason_says_what_was_expected_and_what_came() -> None:
    """All faults at once, and what it cost so far is kept."""
    wanted = (VERDICT, Wanted(name="score", type="integer"), Wanted(name="why", type="text"))
    reply = Reply(turn="r#1", attempt=3, text='{"verdict": "maybe", "why": "so"}', usage=Usage(cost=0.5))

    assert judge_reply(reply, wanted) == AttemptFailed(
        turn="r#1",
        attempt=3,
        kind="invalid_output",
        reason=(
            'expected the output \'verdict\' to be one of "approve", "revise", the reply gives "maybe"; '
            "expected the output 'score' to be a whole number, the reply does not give it"
        ),
        usage=Usage(cost=0.5),
        text='{"verdict": "maybe", "why": "so"}',
    )


def test_what_cannot_be_written_down_is_not_found() -> None:
    """Half a surrogate pair and numbers beyond all measure are no JSON that a journal could keep."""
    assert find_outputs('{"verdict": "\\ud800"}', [VERDICT]) == {}
    assert find_outputs('{"verdict": 1e999}', [VERDICT]) == {}


def test_a_nest_that_is_too_deep_does_not_hide_what_follows() -> None:
    """An object deeper than the bound is passed over."""
    nest = '{"verdict":' * (MAX_DEPTH + 50) + "1" + "}" * (MAX_DEPTH + 50)

    assert outputs_of(nest + '\n{"verdict": "approve"}', VERDICT) == {"verdict": "approve"}


@bundle(
    "piece",
    ["{", '{"', '{"a":', '{"a":{}', '{"a":[', '{"\\"', "{ ", '{"a" ', '{"a":{"b":"{"},', "verdict ", "\n ", "* "],
)
def test_a_huge_text_takes_linear_time(piece: str) -> None:
    """Four times the text takes about four times as long; a search that starts anew at each brace takes sixteen."""

    def seconds(size: int) -> float:
        text = '"verdict"' + piece * (size // len(piece))
        begin = time.process_time()
        assert "verdict" not in find_outputs(text, [VERDICT])
        return time.process_time() - begin

    seconds(10_000)
    small = min(seconds(30_000) for _ in range(3))
    assert seconds(120_000) < 10 * small + 0.05


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.text(st.sampled_from('{}[]",: a\n'), max_size=12),
    st.dictionaries(st.text(max_size=3), JSON, max_size=3),
    st.booleans(),
)
def test_any_object_after_a_line_break_is_found(before: str, extra: dict[str, Any], spread: bool) -> None:
    """Whatever prose and broken JSON stands above, a whole object on lines of its own is found, and found whole."""
    found = {**extra, "verdict": "approve"}
    text = msgspec.json.encode(found).decode()
    if spread:
        text = msgspec.json.format(text, indent=2)
    assert find_outputs(f"{before}\n```\n{text}\n```\n", [VERDICT]) == found
