import pytest
from bundles import bundle
from teams import checked, codes, letters

pytestmark = pytest.mark.once


@pytest.mark.parametrize("key", ['"${HOUSE_KEY}"', '""'])
def test_a_key_is_named_or_left_out(key: str) -> None:
    """By the name of the variable that holds it."""
    assert codes(letters("a -> b", blocks=f"providers {{ house {{ models: [m]  api-key: {key} }} }}")) == []


@pytest.mark.parametrize("key", ["sk-12345", "$HOUSE_KEY", "${HOUSE_KEY}x", "${1}"])
def test_a_key_in_a_file_is_told_without_being_shown(key: str) -> None:
    """Neither in the message nor by the line."""
    text = letters("a -> b", blocks=f'providers {{ house {{ models: [m]  api-key: "{key}" }} }}')

    (found,) = checked(text)
    assert found.code == "key-in-file"
    assert key not in found.render(text)


def test_an_address_may_hold_a_variable() -> None:
    """Part of it is enough: the rest is no secret."""
    blocks = 'interfaces { chat { type: webhook  webhook: "https://chat.example.com/${CHAT}"  channel: "team" } }'

    assert codes(letters("a -> b", blocks=blocks)) == []


@bundle(
    ("value", "code"),
    [
        ('secret "vault://team/token"', ""),
        ('secret "op://team/token"', ""),
        ('secret "team/token"', "unknown-secret-store"),
        ('sensitive "${TOKEN}"', ""),
        ('sensitive "12345"', "sensitive-in-file"),
        ('encrypted "ENC[AES256_GCM,data:YWJj,iv:eA==]"', ""),
        ('encrypted "YWJj"', "bad-encryption"),
        ('"12345"', ""),
    ],
)
def test_a_variable_is_what_it_is_marked_as(value: str, code: str) -> None:
    """And what is told of it does not show it."""
    text = letters("a -> b", blocks=f"env {{ TOKEN: {value} }}")
    found = checked(text)

    assert [each.code for each in found] == ([code] if code else [])
    assert all("12345" not in each.render(text) and "YWJj" not in each.render(text) for each in found)


@bundle(
    ("server", "fits"),
    [
        ('type: stdio  command: "x"', True),
        ('command: "x"', True),
        ('url: "https://x"', True),
        ('type: sse  url: "https://x"', True),
        ('type: sse  command: "x"', False),
        ("type: http", False),
        ("", False),
    ],
)
def test_a_server_can_be_reached(server: str, fits: bool) -> None:
    """Started, or listened to."""
    found = codes(letters("a -> b", blocks=f"mcp-servers {{ files {{ {server} }} }}"))

    assert found == ([] if fits else ["incomplete-server"])
