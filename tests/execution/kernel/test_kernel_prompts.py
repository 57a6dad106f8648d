"""What an agent is asked, word for word."""

import json
from itertools import pairwise

from bundles import bundle
from stage import Cast, Stage, flow
from steps import lines_run

from coterie.agents.backends.base import Answer
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.prompts import inputs, task_parts
from coterie.execution.kinds import kind_of
from coterie.team.planning.plan import AgentPlan, Wanted

VERDICT = Wanted(name="verdict", type="enum", values=("approve", "revise"))


def asked(stage: Stage, turn: str, **given: object) -> str:
    """The question of *turn*, after the run of *stage*."""
    stage.start(**given)
    return next(request.prompt for request in stage.cast.asked if request.turn == turn)


def test_a_prompt_holds_everything_in_its_order() -> None:
    """The agent's own words, its role, the task, what marked it, what it reads, how to answer."""
    plan = flow(
        "a -> b -> c",
        a=AgentPlan(name="a"),
        c=AgentPlan(name="c", prompt="Judge.", role="You are a reviewer.", reads=("a",), outputs=(VERDICT,)),
    )
    cast = Cast({"c": [Answer(text="good", outputs={"verdict": "approve"})]})

    assert asked(Stage(plan, cast), "c#1", depth=2) == (
        "Judge.\n\n"
        "You are a reviewer.\n\n"
        "# Task\n\ngo\n\n"
        "# Input\n\n- depth: 2\n\n"
        "# Result of b (b#1)\n\n~~~text\nb#1 done\n~~~\n\n"
        "# Result of a (a#1)\n\n~~~text\na#1 done\n~~~\n\n"
        "# How to answer\n\nEnd your reply with one JSON object in a ```json block that holds:\n"
        '- `verdict`: one of "approve", "revise"'
    )


def test_what_marked_an_agent_is_not_shown_again_because_it_reads_it() -> None:
    """Tokens cost money."""
    plan = flow("a -> b", b=AgentPlan(name="b", reads=("a",)))

    assert asked(Stage(plan), "b#1").count("a#1 done") == 1


def test_of_an_answer_with_a_text_only_declared_outputs_are_shown() -> None:
    """What an agent gave beside them stands in its text; without a text all that it gave is shown."""
    plan = flow("a -> b", a=AgentPlan(name="a", outputs=(VERDICT,)))
    given = {"verdict": "approve", "aside": 1}

    for text, shown in (("Fine.", {"verdict": "approve"}), ("", given)):
        prompt = asked(Stage(plan, Cast({"a": [Answer(text=text, outputs=given)]})), "b#1")
        assert f"Outputs: {json.dumps(shown)}" in prompt, text


def test_a_text_that_only_repeats_the_outputs_is_not_shown() -> None:
    """The answer of a function would be shown twice to the next model, which is paid by the token."""
    plan = flow("a -> b", a=AgentPlan(name="a", outputs=(VERDICT,)))
    given = {"verdict": "approve"}
    cast = Cast({"a": [Answer(text=json.dumps(given), outputs=given)]})

    assert asked(Stage(plan, cast), "b#1").endswith('# Result of a (a#1)\n\nOutputs: {"verdict": "approve"}')


def test_a_human_is_not_asked_for_json() -> None:
    """Lines are understood as well."""
    node = AgentPlan(name="b", kind="human", backend="human", prompt="Publish?", outputs=(VERDICT,))
    cast = Cast({"b": [Answer(text="verdict: approve")]})

    assert asked(Stage(flow("a -> b", b=node), cast), "b#1").endswith(
        "# How to answer\n\nGive each of these on a line of its own, as `name: value`:\n"
        '- `verdict`: one of "approve", "revise"'
    )


def test_what_many_gates_checked_is_found_once() -> None:
    """Two gates behind two gates behind two gates: as many ways lead back as there are sets of them."""

    def work(layers: int) -> int:
        names = [(f"g{k}a", f"g{k}b") for k in range(layers)]
        gates = {name: AgentPlan(name=name, kind="gate") for pair in names for name in pair}
        steps = [f"[{a}, {b}] -> [{c}, {d}]" for (a, b), (c, d) in pairwise(names)]
        first, last = names[0], names[-1]
        stage = Stage(flow(f"start -> [{', '.join(first)}]", *steps, f"[{', '.join(last)}] -> end", **gates))
        stage.start()
        fold = Fold("r", kind_of(stage.plan))
        fold.fold(stage.records())
        turn = fold.turns["end#1"]
        *checked, own = [result.turn for result in inputs(fold, turn)]
        assert (checked, own) == (["start#1", *(f"{name}#1" for pair in names for name in pair)], "end#1")
        return lines_run(lambda: inputs(fold, turn))

    assert work(16) < 2.5 * work(8)


@bundle(
    ("given", "shown"),
    [
        ({}, []),
        ({"prompt": ""}, []),
        ({"prompt": "go"}, ["# Task\n\ngo"]),
        ({"topic": "bees"}, ["# Input\n\n- topic: bees"]),
        ({"prompt": "go", "topic": "bees"}, ["# Task\n\ngo", "# Input\n\n- topic: bees"]),
        ({"topic": "bees", "depth": 2}, ["# Input\n\n- topic: bees\n- depth: 2"]),
    ],
    ids=["nothing", "an empty prompt", "a prompt", "an input", "both", "two inputs"],
)
def test_a_task_has_all_that_was_given(given: dict[str, object], shown: list[str]) -> None:
    """With a prompt, without one, or neither."""
    assert [part.text for part in task_parts(given)] == shown
