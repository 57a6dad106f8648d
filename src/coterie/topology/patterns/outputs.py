"""Outputs of a pattern: the scalar values of its result, which conditions can compare, and all its keys."""

from collections.abc import Mapping
from types import MappingProxyType

OUTPUTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "debate": {
            "question": "text",
            "rounds": "integer",
            "synthesis": "text",
            "conclusion": "text",
            "method": "text",
            "convergence": "number",
            "winner": "text",
            "consistent": "boolean",
            "share": "number",
            "margin": "number",
            "tie": "boolean",
        },
        "chain": {"task": "text", "final_result": "text"},
        "delegation": {"final_output": "text"},
        "ensemble": {
            "input": "text",
            "ensemble_size": "integer",
            "successful": "integer",
            "failed": "integer",
            "aggregated_result": "text",
            "method": "text",
            "degraded": "boolean",
            "share": "number",
            "margin": "number",
            "entropy": "number",
            "spread": "number",
            "tie": "boolean",
        },
        "pipeline": {},
        "crosscheck": {
            "prompt": "text",
            "primary_output": "text",
            "checkers": "integer",
            "asked": "integer",
            "approvals": "integer",
            "rejections": "integer",
            "final_approved": "boolean",
            "revisions": "integer",
        },
        "compound": {"composition": "text", "selected_route": "text", "status": "text"},
    }
)
"""By the stored name of the kind, then by name: the type, `text`, `integer`, `number` or `boolean`."""

_OTHERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "debate": ("debate_history", "verdicts", "votes"),
        "chain": ("strategy", "level_results", "parts"),
        "delegation": ("tasks", "unrouted"),
        "ensemble": ("individual_results", "votes"),
        "pipeline": ("stages", "stage_results", "checkpoints", "final_output"),
        "crosscheck": ("approval_details", "rejection_details", "consensus"),
        "compound": ("sub_results", "final_output", "output"),
    }
)

COMMON = ("text", "failures", "warnings", "usage")
"""The keys of every result."""


def keys_of(kind: str) -> tuple[str, ...]:
    """Every key that a result of *kind* may have."""
    return (*OUTPUTS[kind], *_OTHERS[kind], *COMMON)
