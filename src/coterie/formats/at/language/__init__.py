"""What the `.at` notation can say: every block and field, in one line each, and whether coterie acts on it.

The table is `notation.txt`: blocks are read by it (`coterie.formats.at.blocks`), pages are generated and editors
complete from it. What has no effect is read, kept, shown, and reported by `validate`.

    for block in LANGUAGE:
        for field in block.fields:
            print(block.name, field.name, field.kind.words, field.about)
"""

from coterie.formats.at.language.spec import AttributeSpec, BlockSpec, Entries, FieldSpec
from coterie.formats.at.language.table import read_table

__all__ = ["ATTRIBUTES", "BLOCKS", "LANGUAGE", "ROOTS", "AttributeSpec", "BlockSpec", "Entries", "FieldSpec", "within"]

LANGUAGE: tuple[BlockSpec, ...] = read_table()
"""The blocks of a topology, what most files have first."""

BLOCKS = {block.name: block for block in LANGUAGE}
"""The same by name."""

ROOTS = (
    BlockSpec("topology", "A team.", executed=True, named=True, example="topology NAME : [pipeline] { … }"),
    BlockSpec("fragment", "A part of a team, for others to include.", executed=True, named=True),
)
"""What a file may hold."""

ATTRIBUTES = (
    AttributeSpec(
        "when", 'when NAME.OUTPUT == "value"', "Fires when the output has that value: == != < <= > >=.", True
    ),
    AttributeSpec("max", "max 3", "Fires at most so often; then the flow goes on forward.", True),
    AttributeSpec("per", "per run | phase | NAME", "Within what firings are counted.", True),
    AttributeSpec("on-max", "on-max forward | end | fail | human", "What happens when it may fire no more.", True),
    AttributeSpec("race", "race", "The first of the list to succeed counts."),
    AttributeSpec("tolerance", "tolerance: 1 | 20%", "How many of the list may fail."),
    AttributeSpec("wait", "wait 30s", "How long to wait before."),
    AttributeSpec("weight", "weight 0.7", "How often this arrow is drawn, of those that leave its source."),
    AttributeSpec("reflection", "reflection", "This arrow goes back for a better answer."),
)
"""What stands in brackets behind an arrow."""


def within(block: BlockSpec) -> tuple[BlockSpec, ...]:
    """The blocks in *block*: those of its fields, then its entries."""
    kinds = [field.kind for field in block.fields]
    inner = [kind.entries.block if kind.entries is not None else kind.block for kind in kinds]
    return (*(each for each in inner if each is not None), *(entries.block for entries in block.entries))
