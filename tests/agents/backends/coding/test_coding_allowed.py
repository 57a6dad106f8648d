"""Which uses of tools need no person: coterie's own commands, and what rules allow. All else is left to a person."""

import asyncio
from contextlib import nullcontext

from bundles import bundle

from coterie.agents.backends.base import Permission
from coterie.agents.backends.coding.acp_messages import ToolCall
from coterie.agents.backends.coding.allowed import commands_of, fits, is_own, rule_for
from coterie.agents.backends.coding.claude import _approval_request
from coterie.agents.backends.coding.permissions import ApprovalRequest, ToolPermissions
from coterie.team.planning.plan import AgentPlan

OWN = """
coterie emit done
coterie emit review.passed 'all 12 tests pass (12/12); cost $3 | ok'
coterie emit done "it's fine; rm -rf / is only text"
coterie emit done "costs $3 for $name"
coterie emit done "a \\"quoted\\" word and a \\\\ backslash"
coterie emit --output verdict=approve
coterie memory add learning "use uv"
coterie task add 'fix it' && coterie emit done x
coterie task list; coterie task done t1
coterie task list || coterie emit failed x
autoloops emit done x
autoloop memory list
bash -lc 'coterie emit done x'
/bin/sh -c "coterie task list"
/run/own/autoloops emit done x
"""
LOOK_ALIKES = """
coterie emit x; rm -rf /
coterie emit x && rm -rf /
coterie emit x || rm -rf /
coterie emit x & rm -rf /
coterie emit x | sh
coterie emit $(rm -rf /)
coterie emit "$(rm -rf /)"
coterie emit `rm -rf /`
coterie emit "`rm -rf /`"
coterie emit "${x:-$(rm -rf /)}"
coterie emit "$((x[`rm -rf /`]))"
coterie emit "$[x[`id`]]"
coterie emit "$x[1]"
coterie emit $((1+1))
coterie emit <(rm -rf /)
coterie emit x > ~/.bashrc
coterie emit x >> file
coterie emit x < file
coterie emit x <<EOF
coterie emit x 2>&1
coterie emit {a,b}
coterie emit *
coterie emit ~
coterie emit x # comment
coterie emit $'\\x41'
coterie emit x\\; rm
coterie emit '\\'' ; rm -rf y ; '
coterie emit 'open
coterie emit "open
(coterie emit x)
{ coterie emit x; }
! coterie emit x
PATH=/tmp/evil coterie emit x
env PATH=/tmp coterie emit x
sudo coterie emit x
./coterie emit x
/tmp/coterie emit x
coterie2 emit x
coterie-emit x
coterie run evil.at
coterie control respond last yes
coterie attention last project
coterie config set notify.command=x --user
coterie
emit x
COTERIE emit x
alias coterie=rm; coterie emit x
coterie() { rm -rf /; }; coterie emit x
bash -c 'coterie emit x; rm -rf /'
bash -c "coterie emit $(id)"
bash -c coterie emit x
bash -x -c 'coterie emit x'
./bash -c 'coterie emit x'
bash -c "bash -c 'coterie emit x'"
eval 'coterie emit x'
"coterie emit x"
coterie "emit x"
"""


def _texts(table: str) -> list[str]:
    return [line for line in table.split("\n") if line]


@bundle("command", _texts(OWN))
def test_a_command_of_coterie_is_its_own(command: str) -> None:
    """By each of its names, and that of the attempt; several of them too, and whatever is in quotes."""
    names = {"coterie", "autoloop", "autoloops", "/run/own/autoloops"}
    assert is_own(command, names)


@bundle("command", [*_texts(LOOK_ALIKES), "coterie emit x\nrm -rf /", "coterie emit \0x"])
def test_what_only_looks_like_one_is_not(command: str) -> None:
    """Nothing slips through behind, before, within or instead of it, in any shell."""
    assert not is_own(command)


def test_words_are_read_as_a_shell_does() -> None:
    """Quotes are removed, adjacent parts join; a word whose text depends on the shell is no word that is compared."""
    assert commands_of("a 'b c'd\"e\" ; f") == [["a", "b cde"], ["f"]]
    assert commands_of('coterie "emit"') == [["coterie", "emit"]]
    [words] = commands_of('a "$b"')
    assert words[1] not in ("$b", "")
    assert not is_own('"$coterie" emit x')


@bundle(
    ("rules", "tool", "command", "allowed"),
    [
        (["Bash(make test)"], "Bash", "make test", True),
        (["Bash(make test)"], "execute", "make test", True),
        (["Bash(make test)"], "Bash", "make test2", False),
        (["Bash(make test)"], "Bash", "make test; id", False),
        (["Bash(make test)"], "Bash", "make test > x", False),
        (["Bash(make test)"], "Bash", "id; make test", False),
        (["Bash(make test)", "Bash(make lint)"], "Bash", "make test && make lint", True),
        (["Bash(git log:*)"], "Bash", "git log -1 'a b'", True),
        (["Bash(git log:*)"], "Bash", "git log", True),
        (["Bash(git log:*)"], "Bash", "git logs", False),
        (["Bash(git log:*)"], "Bash", "git push", False),
        (["Bash(git log:*)"], "Bash", "git log | sh", False),
        (["Bash(git log:*)"], "Bash", "git log $(id)", False),
        (["Bash(git log:*)"], "Bash", "git log; git push", False),
        (["Bash(rm build/*)"], "Bash", "rm build/*", True),
        (["Bash(rm build/*)"], "Bash", "rm build/a", False),
        (["Bash(:*)"], "Bash", "id", False),
        (["Bash"], "Bash", "id | sh", True),
        (["Bash"], "Edit", "", False),
        (["Edit"], "Edit", "", True),
        (["Edit"], "Write", "", False),
        (["Edit"], "Edit", "id", False),
        (["id"], "Bash", "id", False),
        (["Glob(id)"], "Bash", "id", False),
        (["Bash(id"], "Bash", "i", False),
        ([], "Edit", "", False),
        ([""], "Bash", "a:*", False),
    ],
)
def test_a_rule_allows_what_it_says(rules: list[str], tool: str, command: str, allowed: bool) -> None:
    """A command as a whole, or its beginning in words; of several commands each."""
    assert fits(rules, tool, command) is allowed


def test_a_rule_for_a_use_allows_just_that() -> None:
    """The rule that is offered to a person fits the use it was made for; where none is exact, none is offered."""
    for tool, command in (("Edit", ""), ("mcp__x__y", ""), ("Bash", "rm build/*"), ("Bash", "a $(b)\nc")):
        assert fits([rule_for(tool, command)], tool, command)
    assert rule_for("Bash", "git log:*") == rule_for("Read a (file)", "") == rule_for("Bash", "") == ""


def decided(wish: ApprovalRequest, **options: object) -> tuple[bool, str]:
    said: list[Permission] = []
    permissions = ToolPermissions(AgentPlan(name="a", options=options), said.append, nullcontext)  # type: ignore[arg-type]
    return asyncio.run(asyncio.wait_for(permissions.decide(wish), 5)).is_allowed, said[-1].why


def test_own_commands_and_rules_are_never_asked_nor_denied() -> None:
    """Whatever trust and attention say; the policy refuses first, and a title is no fact."""
    for options in ({"attention": "ask"}, {"trust_all_tools": False}):
        own = ApprovalRequest(id="1", tool="Bash", command="coterie emit done x")
        assert decided(own, **options) == (True, "a command of coterie")
        ruled = ApprovalRequest(id="1", tool="Bash", command="make test")
        assert decided(ruled, allow=["Bash(make test)"], **options) == (True, "a rule allows it")
    harmful = ApprovalRequest(id="1", tool="Bash", command="rm -rf /")
    assert decided(harmful, allow=["Bash"])[0] is False
    titled = ApprovalRequest(id="1", tool="Bash", command="coterie emit done x", is_certain=False)
    assert decided(titled, trust_all_tools=False)[0] is False
    unreadable = ApprovalRequest(id="1", tool="Bash", command="$CMD x")
    assert decided(unreadable, allow=["Bash"], trust_all_tools=False)[0] is False


def test_only_the_shell_of_an_agent_runs_commands() -> None:
    """A `command` of any other tool, or one in a title alone, is what an agent, or a server of tools, calls so."""
    given = {"command": "coterie emit done x"}
    assert _approval_request("1", "Bash", given).is_certain
    assert not _approval_request("1", "mcp__evil__run", given).is_certain
    shown, titled, named = ToolCall(), ToolCall(), ToolCall()
    shown.add({"kind": "execute", "title": "x", "rawInput": given})
    titled.add({"kind": "execute", "title": "`coterie emit done x`"})
    named.add({"kind": "other", "title": "x", "rawInput": given, "_meta": {"claudeCode": {"toolName": "Edit"}}})
    assert (shown.is_certain, shown.command) == (True, "coterie emit done x")
    assert (titled.is_certain, titled.command) == (False, "coterie emit done x")
    assert not named.is_certain
