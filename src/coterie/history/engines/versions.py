"""What earlier versions of an engine did otherwise. A run keeps the rules of the version that began it."""

from typing import NamedTuple


class EngineRules(NamedTuple):
    """The rules by which an engine decides; the defaults are those of its latest version.

    Attributes:
        exact: Whether conditions of a flow compare texts with case and a closing full stop, and the end of a path names
            no values.
        checks_needed: Whether a reply in a flow must give the outputs that conditions on its agent's arrows need.
        retries_missing: Whether a loop tries again what failed since a program is missing.
        ends_early: Whether a turn of a loop that the end of its owner cut off is not tried again if it had emitted the
            completion event, or any event before Ctrl-C.
        names_nothing: Whether a set of functions that give None has no output, rather than a list of None as `result`.
        passes_untyped: Whether a value of a program that declares no type may reach its readers as another one.
        takes_answer: Whether a cross-check that is given an answer checks that one.
        adds_up: Whether a debate adds up the agreements of its sides, so that one side can end it.
        takes_prompt: Whether a pattern at a node takes the whole prompt of the node as its question where functions
            fill its slots, rather than the node's own question.
    """

    exact: bool = False
    checks_needed: bool = True
    names_nothing: bool = False
    passes_untyped: bool = False
    retries_missing: bool = False
    ends_early: bool = False
    takes_answer: bool = True
    adds_up: bool = False
    takes_prompt: bool = False


PATTERN = 4
"""The version of the rules of patterns. The wording of questions is one of them: a resumed run must ask those that its
journal has."""
_EARLIER = {
    ("flow", 1): EngineRules(exact=True, checks_needed=False, names_nothing=True),
    ("flow", 2): EngineRules(checks_needed=False, names_nothing=True),
    ("flow", 3): EngineRules(names_nothing=True),
    ("generator", 1): EngineRules(passes_untyped=True),
    ("loop", 1): EngineRules(retries_missing=True, ends_early=True),
    ("loop", 2): EngineRules(ends_early=True),
    ("pattern", 1): EngineRules(takes_answer=False, adds_up=True, takes_prompt=True),
    ("pattern", 2): EngineRules(adds_up=True, takes_prompt=True),
    ("pattern", 3): EngineRules(takes_prompt=True),
}


def rules_of(engine: str, version: int) -> EngineRules:
    """The rules of a *version* of *engine*; those of the latest one for any that is not earlier."""
    return _EARLIER.get((engine, version), EngineRules())
