"""A chain of command: who plans, who works, what goes up again, and what the top is told in the end."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from bundles import bundle
from parts import parts
from pattern_cases import groups
from pattern_chance import chance, same_at_any_pace
from pattern_play import Performance, Refused, cost, failed, pattern, perform, scripted, text
from steps import lines_run

from coterie.agents.backends.base import Request, Result
from coterie.history.journal.records import MessageSent
from coterie.patterns.builtin.chain_jobs import Subtask, tree
from coterie.team.planning.plan import Plan

TASK = {"task": "BUILD"}
TWO = {"authority_levels": ["commander", "worker"]}


def plan(*subtasks: str, approach: str = "divide", criteria: Sequence[str] = ()) -> str:
    """What a commander says."""
    return json.dumps({"approach": approach, "subtasks": list(subtasks), "success_criteria": list(criteria)})


def split(*subtasks: str) -> str:
    """What a lieutenant says."""
    return json.dumps({"subtasks": list(subtasks)})


def two(script: Mapping[str, Sequence[str | Result]], workers: int = 2, **config: Any) -> Performance:
    """A commander and its workers."""
    slots = ["commander", *(f"worker_{n}" for n in range(1, workers + 1))]
    return perform(pattern("chain", slots, **TWO | config), TASK, script)


def three(script: Mapping[str, Sequence[str | Result]], **config: Any) -> Performance:
    """A commander, two lieutenants, two workers."""
    slots = ["commander", "lieutenant_1", "lieutenant_2", "worker_1", "worker_2"]
    return perform(pattern("chain", slots, **config), TASK, script)


def leaves(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results at the bottom of a tree, by the last key."""
    found = {}
    for key, value in results.items():
        found |= {key: value} if "result" in value else leaves(value)
    return found


def test_the_top_plans_and_puts_together() -> None:
    """The result has the task, the plan, each result under who did what, and the whole."""
    done = two(
        {"commander": [plan("A", "B", criteria=["ok"]), "FINAL"], "worker_1": ["DONE-A"], "worker_2": ["DONE-B"]}
    )

    assert done.output["task"] == "BUILD"
    assert done.output["strategy"] == {"approach": "divide", "subtasks": ["A", "B"], "success_criteria": ["ok"]}
    assert done.output["level_results"] == {
        "worker_1:A": {"task": "A", "result": "DONE-A", "confidence": None},
        "worker_2:B": {"task": "B", "result": "DONE-B", "confidence": None},
    }
    assert (done.output["final_result"], done.text) == ("FINAL", "FINAL")
    last = done.prompts("commander")[-1]
    assert all(word in last for word in ("BUILD", "divide", "ok", "DONE-A", "DONE-B"))


def test_work_goes_down_level_by_level_to_whoever_has_the_fewest() -> None:
    """A counter per level: nobody gets the first item of every plan; the parts say what belongs to what."""
    done = three({"commander": [plan("A", "B"), "FINAL"], "lieutenant_1": [split("A1", "A2", "A3")]})

    assert groups(done.calls) == [
        ["commander"],
        ["lieutenant_1", "lieutenant_2"],
        ["worker_1", "worker_1", "worker_2", "worker_2"],
        ["commander"],
    ]
    tree = done.output["level_results"]
    assert list(tree) == ["lieutenant_1:A", "lieutenant_2:B"]
    assert list(tree["lieutenant_1:A"]) == ["worker_1:A1", "worker_2:A2", "worker_1:A3"]
    assert list(tree["lieutenant_2:B"]) == ["worker_2:B"]
    assert [(part["id"], part.get("parent", ""), part["slot"]) for part in done.output["parts"]] == [
        ("1", "", "lieutenant_1"),
        ("1.1", "1", "worker_1"),
        ("1.2", "1", "worker_2"),
        ("1.3", "1", "worker_1"),
        ("2", "", "lieutenant_2"),
        ("2.1", "2", "worker_2"),
    ]


def test_every_delegation_is_a_request() -> None:
    """From whoever gives the task to whoever gets it."""
    done = three({"commander": [plan("A"), "FINAL"], "lieutenant_1": [split("A1", "A2")]})

    told = [(one.sender, one.recipient, one.type, one.content["task"], one.round) for one in done.records(MessageSent)]
    assert told == [
        ("commander", "lieutenant_1", "request", "A", 1),
        ("lieutenant_1", "worker_1", "request", "A1", 2),
        ("lieutenant_1", "worker_2", "request", "A2", 2),
    ]


def test_levels_are_named_by_the_configuration() -> None:
    """Another order of authority, other ways down; a level is a whole word of a slot's name."""
    slots = ["lead", "leader_1", "worker"]
    down = perform(pattern("chain", slots, authority_levels=["leader", "lead", "worker"]), TASK, {})
    other = perform(pattern("chain", slots, authority_levels=["lead", "leader", "worker"]), TASK, {})

    assert [call.slot for call in down.calls] == ["leader_1", "lead", "worker", "leader_1"]
    assert [call.slot for call in other.calls] == ["lead", "leader_1", "worker", "lead"]


def test_a_level_without_anybody_is_skipped_and_told_of() -> None:
    """The work goes on to the next level that has somebody."""
    done = perform(pattern("chain", ["commander", "worker_1"]), TASK, {"commander": [plan("A"), "FINAL"]})

    assert [call.slot for call in done.calls] == ["commander", "worker_1", "commander"]
    assert "A" in done.prompts("worker_1")[0]
    assert done.output["warnings"] == ["no slot belongs to level 'lieutenant', which was skipped"]


def test_a_lone_level_does_its_own_work() -> None:
    """Whoever plans is asked for the subtasks as well, and so are its peers."""
    alone = pattern("chain", ["solo_1", "solo_2"], authority_levels=["solo"])
    done = perform(alone, TASK, {"solo_1": [plan("A", "B"), "A DONE", "FINAL"]})

    assert list(done.output["level_results"]) == ["solo_1:A", "solo_2:B"]
    assert done.counts() == {"solo_1": 3, "solo_2": 1}


@pytest.mark.parametrize(("depth", "asked"), [(3, 5), (2, 5), (1, 3)])
def test_work_is_handed_down_only_so_far(depth: int, asked: int) -> None:
    """At `max_delegation_depth` whoever has a task does it, and a warning says whom that spares."""
    done = three({"commander": [plan("A"), "FINAL"], "lieutenant_1": [split("A1", "A2")]}, max_delegation_depth=depth)

    assert len(done.asked) == asked
    assert len(done.output["warnings"]) == (depth < 2)
    if depth == 1:
        assert done.output["level_results"]["lieutenant_1:A"]["result"] == split("A1", "A2")


def test_subtasks_beyond_the_limit_are_not_done_and_the_top_is_told() -> None:
    """`max_subtasks` counts for each plan."""
    done = two({"commander": [plan("A", "B", "C"), "FINAL"]}, max_subtasks=2)

    assert list(done.output["level_results"]) == ["worker_1:A", "worker_2:B"]
    [lost] = done.output["failures"]
    assert (lost["slot"], lost["kind"]) == ("commander", "cut")
    assert "not done: C" in lost["reason"]
    assert "not done: C" in done.prompts("commander")[-1]
    below = three({"commander": [plan("A"), "FINAL"], "lieutenant_1": [split("A1", "A2")]}, max_subtasks=1)
    assert [lost["slot"] for lost in below.output["failures"]] == ["lieutenant_1"]


def test_of_thousands_of_subtasks_that_do_not_count_some_are_named() -> None:
    """Somebody reads it: the top, and whoever reads the result."""
    done = two({"commander": [plan(*(f"task {n}" for n in range(10_000))), "FINAL"]}, max_subtasks=2)

    [lost] = done.output["failures"]
    assert lost["reason"].startswith("10000 subtasks, of which 2 count; not done: task 2, task 3, ")
    assert lost["reason"].endswith("task 21 and 9978 more")
    assert len(done.prompts("commander")[-1]) < 1500


def test_thousands_of_subtasks_of_one_name_are_told_apart_at_once() -> None:
    """The work grows with their number, not with its square."""

    def work(n: int) -> int:
        jobs = [Subtask(id=str(k), task="the same", superior="commander", slot="worker") for k in range(n)]
        return lines_run(lambda: tree(jobs))

    assert work(800) < 2.2 * work(400)


@pytest.mark.parametrize("config", [{"max_subtasks": 10**12}, {"authority_levels": [f"l{n}" for n in range(40)]}])
def test_turns_beyond_measure_are_counted(config: dict[str, Any]) -> None:
    """Ten subtasks at each of forty levels are more than a machine word holds."""
    slots = config.get("authority_levels", ["commander", "lieutenant", "worker"])
    counted = cost(pattern("chain", slots, **config, max_delegation_depth=99))

    assert max(counted.most.values()) > 2**63
    assert sum(counted.usual.values()) == len(slots) + 1


def test_more_levels_than_anybody_has_are_refused() -> None:
    """Results lie in each other as levels do."""
    with pytest.raises(Refused, match="authority_levels"):
        pattern("chain", ["l0", "l1"], authority_levels=[f"l{n}" for n in range(101)])


@pytest.mark.parametrize(("most", "at_once"), [(None, 4), (3, 3), (1, 1)])
def test_subtasks_of_a_level_run_at_once_up_to_a_limit(most: int | None, at_once: int) -> None:
    """`max_concurrency`."""
    done = two({"commander": [plan("A", "B", "C", "D"), "FINAL"]}, workers=4, max_concurrency=most)

    began = Counter(call.began for call in done.calls if call.slot != "commander")
    assert max(began.values()) == at_once

    script = {"commander": [plan("A", "B", "C", "D"), "MINE"], **{f"worker_{n}": [failed()] for n in range(1, 5)}}
    stuck = two(script, workers=4, max_concurrency=most)
    asked = Counter(call.began for call in stuck.calls if call.slot == "commander")
    assert max(asked.values()) == at_once


def test_a_task_that_is_done_twice_has_two_results() -> None:
    """Keys that are the same up to their fiftieth character get a number."""
    same = "x" * 60
    done = two({"commander": [plan(same, same, same), "FINAL"]}, workers=1)

    key = f"worker_1:{same[:50]}"
    assert list(done.output["level_results"]) == [key, f"{key} (2)", f"{key} (3)"]


@pytest.mark.parametrize(("threshold", "goes_up"), [(0.5, True), (0.4, False), (0.0, False)])
def test_what_is_not_sure_enough_goes_up(threshold: float, goes_up: bool) -> None:
    """Below `escalation_threshold` the superior is asked, sees what came, and may answer itself."""
    unsure = text("MAYBE", _confidence=0.4)
    script = {"commander": [plan("A"), "MINE" if goes_up else "FINAL", "FINAL"], "worker_1": [unsure]}
    done = two(script, escalation_threshold=threshold)

    assert len(done.prompts("commander")) == 2 + goes_up
    escalations = [one for one in done.records(MessageSent) if one.type == "escalation"]
    assert [(one.sender, one.recipient) for one in escalations] == [("worker_1", "commander")] * goes_up
    [part] = done.output["parts"]
    if goes_up:
        assert "MAYBE" in done.prompts("commander")[1]
        assert (part["result"], part["answered_by"]) == ("MINE", "commander")
        assert part["escalated"] == "confidence 0.4 is below 0.5"
    else:
        assert (part["result"], part["confidence"]) == ("MAYBE", 0.4)


@bundle(
    ("said", "why"),
    [
        (failed("down"), "down"),
        ("BLOCKED: no key", "BLOCKED: no key"),
        ("**Blocked** - no key", "**Blocked** - no key"),
        (text('{"blocked": true}'), '{"blocked": true}'),
        ("", "an empty answer"),
    ],
)
def test_what_cannot_be_done_goes_up(said: str | Result, why: str) -> None:
    """A failure, a block, an empty answer: the superior has it done by another."""
    again = json.dumps({"reassign_to": "worker_2"})
    done = two({"commander": [plan("A"), again, "FINAL"], "worker_1": [said], "worker_2": ["DONE"]})

    assert [call.slot for call in done.calls] == ["commander", "worker_1", "commander", "worker_2", "commander"]
    [part] = done.output["parts"]
    assert (part["slot"], part["result"], part["escalated"]) == ("worker_2", "DONE", why)
    assert done.output["failures"] == []
    assert list(done.output["level_results"]) == ["worker_2:A"]


@pytest.mark.parametrize("fine", ["true", "Blocked users are listed below.", '{"blocked": false, "result": 1}', "42"])
def test_what_only_looks_like_a_block_is_a_result(fine: str) -> None:
    """Nothing goes up."""
    done = two({"commander": [plan("A"), "FINAL"], "worker_1": [fine]})

    assert done.counts() == {"commander": 2, "worker_1": 1}
    assert done.output["level_results"]["worker_1:A"]["result"] == fine


@pytest.mark.parametrize("named", ["worker_9", "commander", ""])
def test_whoever_is_not_there_gets_nothing(named: str) -> None:
    """A name that is none of the level's is another of the level."""
    again = json.dumps({"reassign_to": named})
    done = two({"commander": [plan("A"), again, "FINAL"], "worker_1": [failed()]})

    assert done.counts() == {"commander": 3, "worker_1": 1, "worker_2": 1}


def test_a_plain_answer_of_a_superior_is_no_name() -> None:
    """A bare value is the result."""
    done = two({"commander": [plan("A"), "42", "FINAL"], "worker_1": [failed()]})

    assert done.output["parts"][0]["result"] == "42"


def test_whoever_had_it_does_not_get_it_again_unless_named() -> None:
    """Even where that one has no more to do than the others."""
    again = json.dumps({"reassign_to": "somebody"})
    done = two({"commander": [plan("A", "B"), again, "FINAL"], "worker_1": [failed()]})

    assert done.counts() == {"commander": 3, "worker_1": 1, "worker_2": 2}


def test_nobody_goes_up_to_itself() -> None:
    """In a lone level the top's own subtask has nobody above; its peers' go up to it."""
    alone = pattern("chain", ["solo_1", "solo_2"], authority_levels=["solo"])
    own = perform(alone, TASK, {"solo_1": [plan("A", "B"), failed("down"), "FINAL"]})
    peer = perform(alone, TASK, {"solo_1": [plan("A", "B"), "A DONE", "MINE", "FINAL"], "solo_2": [failed("down")]})

    assert own.counts() == {"solo_1": 3, "solo_2": 1}
    assert [(lost["slot"], lost["reason"]) for lost in own.output["failures"]] == [("solo_1", "A: down")]
    assert peer.output["level_results"]["solo_2:B"]["result"] == "MINE"


def test_what_was_divided_without_being_sure_may_be_answered_instead() -> None:
    """Then nobody works on the pieces."""
    unsure = text(split("A1", "A2"), _confidence=0.1)
    done = three({"commander": [plan("A"), "MINE", "FINAL"], "lieutenant_1": [unsure]})

    assert "- A1" in done.prompts("commander")[1]
    assert done.counts() == {"commander": 3, "lieutenant_1": 1}
    assert done.output["level_results"]["lieutenant_1:A"]["result"] == "MINE"


def test_work_goes_up_only_once() -> None:
    """What fails again is not done: the others' results are put together, and the top is told."""
    again = json.dumps({"reassign_to": "worker_1"})
    script = {"commander": [plan("A", "B"), again, "FINAL"], "worker_1": [failed("down")], "worker_2": ["DONE-B"]}
    done = two(script)

    assert done.counts() == {"commander": 3, "worker_1": 2, "worker_2": 1}
    assert [(lost["slot"], lost["reason"]) for lost in done.output["failures"]] == [("worker_1", "A: down")]
    assert done.output["level_results"]["worker_1:A"]["error"] == "down"
    last = done.prompts("commander")[-1]
    assert "- worker_1: A: down" in last
    assert "DONE-B" in last


def test_what_had_come_stays_when_nothing_better_comes() -> None:
    """An unsure result is worth more than a second attempt that fails."""
    again = json.dumps({"reassign_to": "worker_2"})
    script = {
        "commander": [plan("A"), again, "FINAL"],
        "worker_1": [text("MAYBE", _confidence=0.1)],
        "worker_2": [failed()],
    }
    [part] = two(script).output["parts"]

    assert (part["slot"], part["result"], part["confidence"]) == ("worker_1", "MAYBE", 0.1)
    assert "failed" not in part


def test_a_refusal_after_reassigning_is_a_failure() -> None:
    """The earlier result counts, and the result names who refused."""
    again = json.dumps({"reassign_to": "worker_2"})
    unsure = text("MAYBE", _confidence=0.1)
    script = {"commander": [plan("A"), again, "FINAL"], "worker_1": [unsure], "worker_2": ["BLOCKED: no key"]}
    done = two(script)

    assert done.output["parts"][0]["result"] == "MAYBE"
    assert done.output["failures"] == [{"slot": "worker_2", "kind": "blocked", "reason": "A: BLOCKED: no key"}]
    assert "no key" not in done.prompts("commander")[-1]


def test_a_superior_that_refuses_has_not_done_the_part() -> None:
    """A refusal is no result, whoever gives it."""
    script = {"commander": [plan("A", "B"), "BLOCKED: nor can I", "FINAL"], "worker_1": [failed("down")]}
    done = two(script)

    assert done.output["level_results"]["worker_1:A"]["error"] == "down"
    assert [(one["slot"], one["reason"]) for one in done.output["failures"]] == [
        ("worker_1", "A: down"),
        ("commander", "A: BLOCKED: nor can I"),
    ]


def test_workers_see_the_whole_task_beside_their_part() -> None:
    """So do those who divide a part; a part that is the whole task is shown once."""
    divided = three({"commander": [plan("A"), "FINAL"], "lieutenant_1": [split("A1")]})
    whole = two({"commander": ["Just do it.", "FINAL"]})

    for slot, part in (("lieutenant_1", "A"), ("worker_1", "A1")):
        [prompt] = divided.prompts(slot)
        assert f"{part}\n\nIt is a part of this task:\n\nBUILD" in prompt
    assert whole.prompts("worker_1")[0].count("BUILD") == 1


def test_a_plan_without_subtasks_is_one_subtask() -> None:
    """Its approach; the top is not asked again."""
    done = two({"commander": ['{"approach": "Write it all"}', "FINAL"]})

    assert done.output["strategy"]["subtasks"] == ["Write it all"]
    assert len(done.prompts("commander")) == 2
    assert done.output["warnings"] == []


def test_a_superior_that_fails_leaves_things_as_they_are() -> None:
    """What came counts, however unsure."""
    script = {"commander": [plan("A"), failed(), "FINAL"], "worker_1": [text("MAYBE", _confidence=0.1)]}
    done = two(script)

    assert (done.ended.status, done.output["parts"][0]["result"]) == ("completed", "MAYBE")


def test_a_lieutenant_that_cannot_divide_a_task_gives_it_back() -> None:
    """Its superior answers, or another lieutenant divides it."""
    answers = three({"commander": [plan("A"), "MINE", "FINAL"], "lieutenant_1": ["BLOCKED: no idea"]})
    again = json.dumps({"reassign_to": "lieutenant_2"})
    moved = three(
        {"commander": [plan("A"), again, "FINAL"], "lieutenant_1": [failed()], "lieutenant_2": [split("A1")]},
    )

    assert answers.counts() == {"commander": 3, "lieutenant_1": 1}
    assert answers.output["level_results"]["lieutenant_1:A"]["result"] == "MINE"
    assert list(leaves(moved.output["level_results"])) == ["worker_1:A1"]
    assert list(moved.output["level_results"]) == ["lieutenant_2:A"]


def test_the_superior_of_a_worker_is_whoever_gave_it_the_task() -> None:
    """Not the top."""
    done = three(
        {
            "commander": [plan("A", "B"), "FINAL"],
            "lieutenant_2": [split("B1"), "MINE"],
            "worker_2": [failed()],
        }
    )

    assert done.counts() == {"commander": 2, "lieutenant_1": 1, "lieutenant_2": 2, "worker_1": 1, "worker_2": 1}
    assert done.output["level_results"]["lieutenant_2:B"]["worker_2:B1"]["result"] == "MINE"


def test_nothing_done_is_no_success() -> None:
    """The top is not asked to make something of nothing."""
    done = two({"commander": [plan("A"), failed("tired"), "FINAL"], "worker_1": [failed("down")]})

    assert (done.ended.status, done.ended.reason) == ("failed", "no part of the task was done: worker_1: down")
    assert len(done.prompts("commander")) == 2


@pytest.mark.parametrize("script", [[failed("down")], [plan("A"), failed("down")], [plan("A"), ""]])
def test_without_its_top_a_chain_fails(script: list[str | Result]) -> None:
    """No plan, no whole, an empty whole: never an empty success."""
    done = two({"commander": script})

    assert done.ended.status == "failed"
    assert "down" in done.ended.reason or "empty" in done.ended.reason


@bundle(
    ("said", "subtasks"),
    [
        ("```json\n" + plan("A", "B") + "\n```", ["A", "B"]),
        ('Here you are: {"subtasks": ["A", {"do": "B"}]} Good luck!', ["A", '{"do": "B"}']),
        ('["A", "B"]', ["A", "B"]),
        ('{"subtasks": []}', ["BUILD"]),
        ('{"subtasks": ["", " "]}', ["BUILD"]),
        ("Just do it.", ["BUILD"]),
    ],
)
def test_a_plan_is_found_wherever_it_stands(said: str, subtasks: list[str]) -> None:
    """Fenced, in prose, as a list; without subtasks the task is the one, and prose is the approach."""
    done = two({"commander": [said, "FINAL"]})

    assert done.output["strategy"]["subtasks"] == subtasks
    assert len(done.prompts("commander")) == 2
    if said == "Just do it.":
        assert done.output["strategy"]["approach"] == said


def test_a_broken_plan_is_asked_for_once_more() -> None:
    """Then the task stays whole, and a warning says so; the same holds for lieutenants."""
    mended = two({"commander": ['{"subtasks": ["A"', plan("A"), "FINAL"]})
    broken = two({"commander": ["{", "{", "FINAL"]})
    below = three({"commander": [plan("A"), "FINAL"], "lieutenant_1": ["{", split("A1")]})

    assert (mended.output["strategy"]["subtasks"], mended.output["warnings"]) == (["A"], [])
    assert (broken.output["strategy"]["subtasks"], len(broken.output["warnings"])) == (["BUILD"], 1)
    assert list(leaves(below.output["level_results"])) == ["worker_1:A1"]


@bundle(
    ("slots", "config", "words"),
    [
        (["worker_1"], {}, "No agent assigned to top level: commander"),
        (["commander"], {}, "no level below"),
        (["commander", "worker", "cook"], {}, "cook"),
        (["commander", "worker"], {"authority_levels": []}, "authority_levels"),
        (["commander", "worker"], {"authority_levels": ["commander", "commander"]}, "authority_levels"),
        (["commander", "worker"], {"escalation_threshold": 1.5}, "escalation_threshold"),
        (["commander", "worker"], {"max_delegation_depth": 0}, "max_delegation_depth"),
        (["commander", "worker"], {"max_subtasks": 0}, "max_subtasks"),
        (["commander", "worker"], {"max_concurrency": 0}, "max_concurrency"),
        (["commander", "worker"], {"levels": ["commander"]}, "levels"),
    ],
)
def test_what_cannot_be_is_refused(slots: list[str], config: dict[str, Any], words: str) -> None:
    """Nobody at the top, nobody to work, unknown slots and keys, values out of range."""
    with pytest.raises(Refused, match=words):
        pattern("chain", slots, **config)


def test_without_a_task_nobody_is_asked() -> None:
    """There must be something to do."""
    done = perform(pattern("chain", ["commander", "worker"]), {}, {})

    assert (done.ended.status, done.asked) == ("failed", [])


def _drawn(seed: int) -> Plan:
    rng = Random(seed)
    levels = ["a", "b", "c", "d"][: rng.randint(1, 4)]
    slots = [f"{level}_{n}" for level in levels for n in range(rng.randint(1, 3))]
    config = {
        "authority_levels": levels,
        "escalation_threshold": rng.choice([0.0, 0.5, 1.0]),
        "max_delegation_depth": rng.randint(1, 4),
        "max_subtasks": rng.randint(1, 3),
        "max_concurrency": rng.choice([None, 1, 2]),
    }
    return pattern("chain", slots, **config)


def _parts(done: Performance) -> list[int]:
    """How many parts there were at each depth."""
    depths = Counter(part["id"].count(".") for part in done.output["parts"])
    return [depths[n] for n in sorted(depths)]


@parts(4)
def test_what_it_costs_is_known(part: int) -> None:
    """Any chain: by the number of its subtasks when all goes well, and never more than its formula says."""
    for seed in range(part * 50, (part + 1) * 50):
        team = _drawn(seed)
        well = Performance(team, TASK, chance(seed, _sure))
        badly = Performance(team, TASK, chance(seed, _unsure))

        assert well.turns() == {slot: n for slot, n in cost(team, subtasks=_parts(well)).usual.items() if n}
        for slot, n in badly.turns().items():
            assert n <= cost(team).most[slot]


def test_without_numbers_everybody_below_the_top_has_one_subtask() -> None:
    """So that a cost can be told before anything runs."""
    team = pattern("chain", ["commander", "worker_1", "worker_2"], **TWO)

    assert cost(team).usual == {"commander": 2, "worker_1": 1, "worker_2": 1}
    assert cost(team).usual == Performance(team, TASK, scripted({"commander": [plan("A", "B"), "F"]})).turns()


def test_it_does_not_matter_who_is_slow() -> None:
    """Same questions, same end."""
    for seed in range(30):
        same_at_any_pace(_drawn(seed), TASK, seed, _unsure)


def _sure(rng: Random, request: Request) -> Result:
    return text(split(*(f"{request.turn} {n}" for n in range(rng.randint(1, 4)))))


def _unsure(rng: Random, request: Request) -> Result:
    match rng.randint(0, 5):
        case 0:
            return failed()
        case 1:
            return text(f"maybe {request.turn}", _confidence=rng.random())
        case 2:
            return text(rng.choice(["BLOCKED: no", "{", "", '{"reassign_to": "b_1"}']))
        case _:
            return _sure(rng, request)
