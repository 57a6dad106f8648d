"""`coterie attention`: list what needs a person, and answer it."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

from coterie.interfaces.cli.options import AsJson, HomeOptions, Wide
from coterie.interfaces.cli.output import is_dropped, print_result, say, say_json, width
from coterie.interfaces.cli.parameters import Arg, Opt
from coterie.interfaces.cli.places import show_place

if TYPE_CHECKING:
    from coterie.execution.runs.repository import Runs, Where


def attention(
    run: Annotated[
        str | None, Arg("[RUN]", "A run's id, the beginning of one, or 'last'; by default all runs.")
    ] = None,
    item: Annotated[
        list[str] | None,
        Arg(
            "[ID] [ANSWER]",
            "The id, if several are open, and the answer: a word that is listed, or a text for a question.",
        ),
    ] = None,
    follow: Annotated[bool, Opt("--watch", "List what comes, too; of one run until no process drives it.")] = False,
    everywhere: Annotated[bool, Opt("--all", "Look at the runs of other directories of this machine, too.")] = False,
    message: Annotated[str, Opt("-m, --message TEXT", "With `deny`: a message to the agent.")] = "",
    wide: Wide = False,
    as_json: AsJson = False,
    *,
    home: HomeOptions,
) -> int:
    """List what needs a person in runs and child runs, or answer it.

    Shows permissions to use a tool, attempts that may be stuck, questions, turns that wait for `retry` or `cancel`,
    runs whose quota is spent, and work that could not be merged, each with the command that answers it. A permission
    takes `allow` (once), `always` (in this run), `project` (in all runs of the project), `deny`, `park` or `fail`. The
    exit status is 1 if an answer is refused, as one that is too late.
    """
    from coterie.errors import UsageError
    from coterie.execution.runs import attention as reading
    from coterie.execution.runs.repository import find
    from coterie.interfaces.cli.text.attention import items

    if len(item or ()) > 2:
        raise UsageError("give RUN, optionally an ID, and one ANSWER; quote a text of several words")
    if follow and item:
        raise UsageError("--watch lists only; give the ANSWER from another terminal")
    if everywhere and run is not None:
        raise UsageError("--all lists the runs of all directories; give no RUN")
    if message and (not item or item[-1] != "deny"):
        raise UsageError("--message goes with the answer `deny`: coterie attention RUN [ID] deny -m TEXT")
    if message and item:
        item = [*item[:-1], f"deny {message}"]
    where = home.where
    named = find(run, where, show_place if item else None) if run is not None else None
    if item and named is not None:
        return _answer(*named, item, as_json)
    if follow:
        from coterie.interfaces.cli.signals import drive

        drive(_watch(where, named, everywhere, as_json), lambda: "no longer watching; the runs continue")
        return 0
    found = reading.open_in(*named) if named is not None else [*reading.find(where, everywhere=everywhere)]
    print_result(
        as_json,
        found,
        lambda: items(found, everywhere=everywhere or named is not None, width=None if wide else width()),
    )
    return 0


def _answer(runs: "Runs", run: str, words: list[str], as_json: bool) -> int:
    from coterie.errors import RunIsFinished
    from coterie.execution.runs.attention import answer
    from coterie.history.journal.rules import root_of
    from coterie.history.journal.status import ENDS
    from coterie.interfaces.cli.control import tell_verdict
    from coterie.interfaces.cli.inputs import standard_input

    if (state := runs.status(root_of(run))) in ENDS:
        raise RunIsFinished(root_of(run), state)
    word = standard_input() if words[-1] == "-" else words[-1]
    verdict = answer(runs, run, words[0] if len(words) == 2 else "", word)
    return tell_verdict(root_of(run), verdict, as_json)


async def _watch(where: "Where", named: "tuple[Runs, str] | None", everywhere: bool, as_json: bool) -> None:
    from coterie.execution.runs.attention import follow
    from coterie.interfaces.cli.text.attention import change

    async with aclosing(follow(where, named, everywhere=everywhere)) as changes:
        async for one in changes:
            if as_json:
                say_json({"open": one.is_open, "attention": one.attention})
            else:
                say(change(one))
            if is_dropped():
                return
