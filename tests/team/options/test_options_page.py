"""The reference page of the options."""

import re
from pathlib import Path

import options_page as reference

from coterie.team.options.agents import AGENT_KEYS, DEFAULT_KEYS, HUMAN_KEYS, PROCESS_KEYS, TEAM_KEYS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "options.md"


def test_the_page_is_fresh() -> None:
    """`python docs/generate/options_page.py > docs/reference/options.md` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == reference.page()


def test_every_key_has_its_places_and_a_value() -> None:
    """An agent, the topology for all agents, an action or a gate, a human."""
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| [^|]* \| [^|]+ \| ([a-z, ]+) \|", reference.page(), re.MULTILINE)
    places = {
        "agent": AGENT_KEYS,
        "topology": (*DEFAULT_KEYS, *TEAM_KEYS),
        "action": PROCESS_KEYS,
        "gate": PROCESS_KEYS,
        "human": HUMAN_KEYS,
    }

    assert {key: where.split(", ") for key, _, where in rows} == {
        key: [place for place, keys in places.items() if key in keys] for key in (*AGENT_KEYS, *TEAM_KEYS)
    }
    assert all(value.strip() for _, value, _ in rows)
