"""The definition of the `.at` notation: every block and field, with its meaning and whether it has an effect.

`notation.py` is the table. `coterie.team.formats.at.blocks` reads blocks by it; the reference page and
completion in editors come from it. Fields without effect are read, kept, shown, and reported by `validate`.

    for block in LANGUAGE:
        for field in block.fields:
            print(block.name, field.name, field.kind.words, field.about)
"""

from coterie.team.formats.at.language.notation import LANGUAGE
from coterie.team.formats.at.language.spec import AttributeSpec, BlockSpec, Entries, FieldSpec

__all__ = ["ATTRIBUTES", "BLOCKS", "LANGUAGE", "ROOTS", "AttributeSpec", "BlockSpec", "Entries", "FieldSpec", "within"]

BLOCKS = {block.name: block for block in LANGUAGE}
"""The blocks by name."""

ROOTS = (
    BlockSpec("topology", "A team.", executed=True, named=True, example="topology NAME : [pipeline] { … }"),
    BlockSpec("fragment", "A part of a team, for topologies to include.", executed=True, named=True),
)
"""The blocks at the top of a file."""

ATTRIBUTES = (
    AttributeSpec(
        "when", 'when NAME.OUTPUT == "value"', "The arrow fires if the output has this value: == != < <= > >=.", True
    ),
    AttributeSpec("max", "max 3", "How often the arrow fires at most; then the flow goes forward.", True),
    AttributeSpec("per", "per run | phase | NAME", "The scope in which firings are counted.", True),
    AttributeSpec("on-max", "on-max forward | end | fail | human", "What happens when the maximum is reached.", True),
    AttributeSpec(
        "each",
        "each NAME.OUTPUT [by 10] | input.NAME",
        "The target runs once for each item of this list, or each 10 of them.",
        True,
    ),
    AttributeSpec("at-most", "at-most 50", "How many items there may be; every `each` needs it.", True),
    AttributeSpec("at-once", "at-once 4", "How many items run at once; by default `--max-parallel`.", True),
    AttributeSpec("on-more", "on-more fail | first", "What happens with a longer list: its first items may do.", True),
    AttributeSpec("tolerate", "tolerate 2 | 10%", "How many items may fail, although the node halts.", True),
    AttributeSpec("until", 'until any NAME.OUTPUT == "value"', "An item of the target that ends the rest early.", True),
    AttributeSpec("race", "race", "The first member of the list to succeed wins."),
    AttributeSpec("tolerance", "tolerance: 1 | 20%", "How many members of the list may fail."),
    AttributeSpec("wait", "wait 30s", "How long to wait before the target runs."),
    AttributeSpec("weight", "weight 0.7", "The probability of this arrow among those of its source."),
    AttributeSpec("reflection", "reflection", "The arrow asks for a better answer."),
)
"""The attributes of an arrow, in brackets after its target."""


def within(block: BlockSpec) -> tuple[BlockSpec, ...]:
    """The blocks in *block*: those of its fields, then its entries."""
    kinds = [field.kind for field in block.fields]
    inner = [kind.entries.block if kind.entries is not None else kind.block for kind in kinds]
    return (*(each for each in inner if each is not None), *(entries.block for entries in block.entries))
