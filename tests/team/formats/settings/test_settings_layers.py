"""Settings files: the two grammars, what is wrong in them, which layer counts, and how one is changed."""

from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st

from coterie.base.diagnostics import Diagnostic
from coterie.errors import UsageError
from coterie.team.formats.settings import Settings, keys, resolve
from coterie.team.formats.settings.edit import set_value, unset_value
from coterie.team.formats.settings.grammar import LINES, TOML, read


def settle(tmp_path: Path, text: str, **more: Any) -> tuple[Settings, list[Diagnostic]]:
    (tmp_path / "autoloops.toml").write_text(text, encoding="utf-8")
    return resolve(tmp_path, work_dir=tmp_path, env={"HOME": str(tmp_path / "home")}, **more)


def values(text: str, grammar: str = "") -> dict[str, Any]:
    return {entry.key: entry.value for entry in read(text, grammar).entries}


@bundle(
    ("line", "value"),
    [
        ("k = word", "word"),
        ("k = two words  # a comment", "two words"),
        ("k = a#b", "a#b"),
        ("k = fix #12 and #13 # soon", "fix #12 and #13"),
        ('k = "Fix" the bug # soon', '"Fix" the bug'),
        ("k = [WIP] the bug", "[WIP] the bug"),
        ("k = [fix #12, b] # soon", ["fix #12", "b"]),
        ("k = [\n  a, # 1\n  b #2\n]", ["a", "b #2"]),
        ("k = [\n  a, # it's ]\n  b\n]", ["a", "b"]),
        ("k = ['a ] # b', c]", ["a ] # b", "c"]),
        ("k = ['C:\\', b]", ["C:\\", "b"]),
        ('k = "a # b" # c', "a # b"),
        ("k = 'it\\n'", "it\\n"),
        ('k = "a\\tb"', "a\tb"),
        ("k = 12", 12),
        ("k = 1.5", 1.5),
        ("k = true", True),
        ("k = yes", "yes"),
        ("k =", ""),
        ("k = [a, b]", ["a", "b"]),
        ('k = [a, "b, c"]', ["a", "b, c"]),
        ('k = [\n  "a", # one\n  b,\n]', ["a", "b"]),
        ("k = []", []),
        ('k = """\none\ntwo"""', "one\ntwo"),
        ("  k   =   x  ", "x"),
        ("\ufeffk = x", "x"),
    ],
)
def test_values_in_lines(line: str, value: Any) -> None:
    """What is a value of TOML is read as one; anything else is a bare text."""
    assert values(line + "\nnext = plain\n", LINES if not line.startswith("\ufeff") else "") == {
        "k": value,
        "next": "plain",
    }


@bundle("text", ['a = "open', "a = [1, 2", "a = 'x\nb = 1", 'a = """x', "a = [1, 2}"])
def test_what_is_never_closed_is_an_error(text: str) -> None:
    """Nothing is guessed about where a quote or bracket should have ended, and nothing is read."""
    reading = read(text, LINES)

    assert not reading.ok
    assert reading.entries == ()
    assert [(found.code, found.span.line if found.span else 0) for found in reading.diagnostics] == [
        ("unclosed-value", 1)
    ]


def test_lines_are_a_second_choice_that_is_told() -> None:
    """The warning names the line that keeps the file from being TOML."""
    reading = read('a.b = "x"\nc.d = word\nno equals sign\n')

    assert reading.grammar == LINES
    assert [(found.code, found.span.line) for found in reading.diagnostics if found.span] == [
        ("not-toml", 2),
        ("skipped-line", 3),
    ]
    assert reading.ok


def test_a_reload_tries_only_what_read_the_file_before() -> None:
    """A file that was TOML and is not any more is an error, not a file of lines."""
    reading = read("a = word", TOML)

    assert [found.code for found in reading.diagnostics if found.is_error] == ["not-toml"]
    assert reading.entries == ()


WORDS = st.text("abcdefgh_", min_size=1, max_size=8).filter(lambda text: text not in ("inf", "nan"))
PLAIN = st.one_of(
    st.integers(-(10**6), 10**6), st.booleans(), st.text("ab \"'#=[],\\\t\n", max_size=12), st.lists(WORDS, max_size=3)
)


@given(st.dictionaries(WORDS, st.dictionaries(WORDS, PLAIN, min_size=1, max_size=3), max_size=3), st.data())
def test_both_grammars_read_toml_alike(sections: dict[str, dict[str, Any]], data: st.DataObject) -> None:
    """Whatever TOML can say, as tables or dotted keys, lines say too."""
    import tomlkit

    if data.draw(st.booleans()):
        text = tomlkit.dumps(sections)
    else:
        text = "".join(
            f"{section}.{name} = {tomlkit.item(value).as_string()}  # said\n"
            for section, all_ in sections.items()
            for name, value in all_.items()
        )

    assert read(text).grammar == TOML
    assert values(text, LINES) == values(text, TOML)


@given(st.text("ab=[]{}\"'#.\n \\,1", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text ends in anything but entries or findings, and every entry has its place."""
    for grammar in ("", LINES):
        reading = read(text, grammar)
        assert reading.ok or reading.entries == ()
        assert grammar != LINES or all(entry.span is not None for entry in reading.entries)


@bundle(
    ("line", "message"),
    [
        ('event_loop.max_iterations = "many"', "event_loop.max_iterations must be a whole number, not 'many'"),
        ("event_loop.max_iterations = -1", "event_loop.max_iterations must be a whole number, 0 or more, not -1"),
        ("event_loop.max_failures = 0", "event_loop.max_failures must be a whole number, 1 or more, not 0"),
        ("event_loop.max_runtime = '1 h'", "event_loop.max_runtime must be a duration"),
        ("review.enabled = 'no'", "review.enabled must be true or false, not 'no'"),
        ("backend.args = [[1]]", "backend.args must be a list of texts"),
        ("backend.command = 7", "backend.command must be a text, not 7"),
        ("worktree.cleanup = 'later'", "worktree.cleanup must be one of on_success, always, never, not 'later'"),
        (
            "event_loop.gate_timeout = 0",
            "event_loop.gate_timeout must be a duration such as 90s, 15m or 1h30m, or milliseconds, 1 or more, not 0",
        ),
        ("backend.timeout_ms = 0", "backend.timeout_ms must be a whole number of milliseconds, 1 or more, not 0"),
    ],
)
def test_a_value_that_does_not_fit_is_a_finding_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    """It never becomes the default in silence: the finding says where it stands and what is wanted."""
    settings, [found] = settle(tmp_path, f"# first\n{line}\n")

    assert message in found.message
    assert (found.code, found.file, found.span and found.span.line) == (
        "bad-setting",
        str(tmp_path / "autoloops.toml"),
        2,
    )
    assert settings.origins[line.partition(" ")[0]].layer == "default"


@pytest.mark.parametrize("line", ["hooks.pre_emit = 'x'", "backend.disallowed_tools = ['Bash']", "read_only = true"])
def test_a_guard_that_is_not_built_is_an_error_in_a_project(line: str, tmp_path: Path) -> None:
    """In the user's own settings, which other programs read, too, it is a warning."""
    _, [found] = settle(tmp_path, f"{line}\n")
    assert (found.code, found.is_error) == ("bad-setting", True)
    assert "is a guard that coterie does not have" in found.message

    (tmp_path / "autoloops.toml").unlink()
    (tmp_path / "user.toml").write_text(f"{line}\n")
    _, found_for_user = resolve(
        tmp_path, work_dir=tmp_path, env={"AUTOLOOP_CONFIG": str(tmp_path / "user.toml"), "HOME": str(tmp_path)}
    )
    assert [(one.code, one.is_error) for one in found_for_user] == [("unknown-setting", False)]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("[evidence]\nenabled = true\n[[evidence.source]]\ngate = true\n", ["'evidence'"]),
        ("[[check]]\ncommand = 'make'\n", ["'check'"]),
        ("acceptance.verify_cmd = 'make'\n", ["'acceptance'"]),
        (
            "[backend.rules]\ndeny = 'x'\nask.first = 'y'\n[parallel.limit]\nx = 1\n",
            ["'backend.rules'", "'parallel.limit'"],
        ),
        ("backend.rules = {}\n", ["'backend.rules'"]),
        ("kind = bare\n[evidence]\nenabled = true\n", ["'evidence'"]),
    ],
)
def test_an_unknown_table_is_an_error_in_a_project(text: str, tables: list[str], tmp_path: Path) -> None:
    """What it may guard would not happen. It is one error; in the user's own settings, one warning."""
    found = [one for one in settle(tmp_path, text)[1] if one.is_error]
    assert [one.message for one in found] == [f"unknown table {table}" for table in tables]
    assert all("event_loop.gates" in one.hint and one.span for one in found)

    (tmp_path / "autoloops.toml").rename(tmp_path / "user.toml")
    env = {"AUTOLOOP_CONFIG": str(tmp_path / "user.toml"), "HOME": str(tmp_path)}
    for_user = [one for one in resolve(tmp_path, work_dir=tmp_path, env=env)[1] if "table" in one.message]
    assert [(one.message, one.is_error) for one in for_user] == [(one.message, False) for one in found]


def test_a_table_that_restricts_nothing_is_a_warning(tmp_path: Path) -> None:
    """Each of its keys is kept."""
    settings, found = settle(tmp_path, "[stage]\nconcurrency = 2\n[parallel.aggregate]\nmode = 'all'\n")

    assert [(one.code, one.is_error) for one in found] == [("unknown-setting", False)] * 2
    assert settings.unknown == {"stage.concurrency": 2, "parallel.aggregate.mode": "all"}


def test_an_unknown_table_within_two_letters_of_a_known_one_is_an_error(tmp_path: Path) -> None:
    _, [found] = settle(tmp_path, "[backnd]\nkind = 'pi'\n")
    assert (found.code, found.hint) == ("bad-setting", "did you mean 'backend'?")


def test_an_unknown_key_is_kept_and_a_better_one_is_named(tmp_path: Path) -> None:
    """Nothing a file says is dropped."""
    settings, [found, table] = settle(tmp_path, "event_loop.max_iteration = 5\nbackend = 'pi'\n")

    assert (found.code, found.hint) == ("unknown-setting", "did you mean 'event_loop.max_iterations'?")
    assert not found.is_error
    assert settings.unknown == {"event_loop.max_iteration": 5, "backend": "pi"}
    assert (table.code, table.hint) == ("bad-setting", "write backend.NAME = …")


def test_where_the_users_files_lie(tmp_path: Path) -> None:
    """`AUTOLOOP_CONFIG` names the user's file; overrides lie in the configuration folder all the same."""
    (tmp_path / "mine.toml").write_text("event_loop.max_iterations = 7\n")
    overrides = tmp_path / "xdg" / "autoloop" / "overrides"
    overrides.mkdir(parents=True)
    (overrides / "code.toml").write_text("event_loop.max_runtime = '1h'\n")
    env = {"AUTOLOOP_CONFIG": str(tmp_path / "mine.toml"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}

    settings, found = resolve(None, work_dir=tmp_path, env=env, preset="code")

    assert found == []
    assert settings.event_loop.max_iterations == 7
    assert settings.event_loop.max_runtime == 3600.0
    assert str(settings.origins["event_loop.max_iterations"]) == f"user ({tmp_path / 'mine.toml'}:1)"


@pytest.mark.parametrize("is_linked", [False, True], ids=["a repository", "a linked work tree"])
def test_the_override_of_a_repository(tmp_path: Path, is_linked: bool) -> None:
    """It is found from any folder inside; in a linked work tree `.git` is a file."""
    if is_linked:
        (tmp_path / ".git").write_text("gitdir: /elsewhere/.git/worktrees/x\n")
    else:
        (tmp_path / ".git").mkdir()
    override = tmp_path / ".autoloop" / "overrides" / "code.toml"
    override.parent.mkdir(parents=True)
    override.write_text("event_loop.max_iterations = 7\n")
    work_dir = tmp_path / "src" / "deep"
    work_dir.mkdir(parents=True)

    settings, _ = resolve(None, work_dir=work_dir, env={"HOME": str(tmp_path / "home")}, preset="code")

    assert str(settings.origins["event_loop.max_iterations"]) == f"repo override ({override}:1)"


def test_what_the_command_line_sets(tmp_path: Path) -> None:
    """It has the last word, takes values as files do, and says what it cannot use."""
    settings, found = settle(
        tmp_path,
        "backend.args = ['a']\n",
        overrides=["backend.args=[x, y]", "event_loop.prompt=Fix it = now", "nothing", "review.enabled=perhaps"],
    )

    assert settings.backend.args == ("x", "y")
    assert settings.event_loop.prompt == "Fix it = now"
    assert [(each.code, each.span) for each in found] == [("bad-override", None), ("bad-setting", None)]
    assert str(settings.origins["backend.args"]) == "command line"


def test_unset_files_lie_in_the_state_directory(tmp_path: Path) -> None:
    """The old name of the journal still counts."""
    settings, _ = settle(tmp_path, "core.state_dir = '.state'\ncore.events_file = 'e.jsonl'\n")

    assert settings.path("journal") == "e.jsonl"
    assert settings.path("tasks") == ".state/tasks.jsonl"


def test_every_setting_says_what_it_does() -> None:
    """One sentence each, and a default that its own type admits."""
    for key in keys().values():
        assert key.meaning.what.endswith("."), key.name
        assert key.default is None or not key.meaning.choices or key.default in key.meaning.choices, key.name


# -- changing a file ------------------------------------------------------------------------------------------------


def test_a_change_keeps_everything_else(tmp_path: Path) -> None:
    """Comments, order and other values stay as they are, dotted or in tables."""
    path = tmp_path / "autocode.toml"
    path.write_text("# mine\nbackend.command = 'pi' # the best\n\n[event_loop]\n# much\nmax_iterations = 5\n")
    path.chmod(0o600)

    set_value(path, "event_loop.max_iterations", "250")
    set_value(path, "event_loop.required_events", "a.b, c.d")
    set_value(path, "backend.timeout_ms", "900000")
    set_value(path, "review.enabled", "false")

    text = path.read_text()
    assert "# mine\nbackend.command = 'pi' # the best" in text
    assert "# much\nmax_iterations = 250" in text
    assert path.stat().st_mode & 0o777 == 0o600
    settings, found = resolve(None, work_dir=tmp_path, env={"AUTOLOOP_CONFIG": str(path)})
    assert found == []
    assert settings.event_loop.required_events == ("a.b", "c.d")
    assert settings.backend.timeout == 900.0
    assert not settings.review.enabled

    assert unset_value(path, "review.enabled")
    assert not unset_value(path, "review.enabled")
    assert "review" not in path.read_text()


@bundle("name", [name for name, key in keys().items() if key.type != "flag"])
def test_what_is_set_is_what_is_read(tmp_path: Path, name: str) -> None:
    """For every setting: set a value, resolve, and it is there."""
    key = keys()[name]
    words = {"whole": "7", "number": "1.5", "duration": "1h30m", "ms": "1500", "list": "a,b", "text": "some words"}
    text = {**words, "commands": '[["a", "b"], ["c"]]'}[key.type]
    text = key.meaning.choices[-1] if key.meaning.choices else text
    path = tmp_path / "one.toml"

    set_value(path, name, text)

    settings, found = resolve(None, work_dir=tmp_path, env={"AUTOLOOP_CONFIG": str(path)})
    assert found == []
    expected = {"whole": 7, "number": 1.5, "duration": 5400.0, "ms": 1.5, "list": ("a", "b"), "text": text}
    assert settings.value(name) == {**expected, "commands": (("a", "b"), ("c",))}[key.type]


def test_what_cannot_be_set_changes_nothing(tmp_path: Path) -> None:
    """A name that is mistyped, a value that does not fit, a file that is not TOML."""
    path = tmp_path / "x.toml"
    path.write_text("a = word\n")

    with pytest.raises(UsageError, match=r"did you mean 'event_loop\.max_iterations'"):
        set_value(path, "event_loop.max_iteration", "5")
    with pytest.raises(UsageError, match="a whole number"):
        set_value(path, "event_loop.max_iterations", "five")
    with pytest.raises(UsageError, match="is not TOML, so nothing was changed"):
        set_value(path, "event_loop.max_iterations", "5")
    assert path.read_text() == "a = word\n"


def test_a_list_of_quoted_texts_needs_no_brackets(tmp_path: Path) -> None:
    """Text after the first quoted one belongs to the value."""
    found, _ = settle(tmp_path, 'event_loop.required_events = "a.b","c.d"\nbackend.command = pi\n')

    assert found.event_loop.required_events == ("a.b", "c.d")


@bundle(
    ("text", "name", "value"),
    [
        ("review.enabled:=true", "review.enabled", True),
        ("review.enabled:=false", "review.enabled", False),
        ('event_loop.required_events:=["a,b", "c"]', "event_loop.required_events", ("a,b", "c")),
        ("event_loop.max_iterations:=7", "event_loop.max_iterations", 7),
        ('event_loop.prompt:="a = b"', "event_loop.prompt", "a = b"),
    ],
)
def test_json_on_the_command_line(text: str, name: str, value: Any, tmp_path: Path) -> None:
    """`KEY:=JSON` as for the parameters of a file."""
    found, diagnostics = settle(tmp_path, "", overrides=(text,))

    assert (found.value(name), diagnostics) == (value, [])


def test_what_is_not_json_is_reported(tmp_path: Path) -> None:
    _, diagnostics = settle(tmp_path, "", overrides=("review.enabled:=yes",))

    assert [one.code for one in diagnostics] == ["bad-override"]


def test_a_user_file_that_is_named_and_missing_is_reported(tmp_path: Path) -> None:
    """A mistyped AUTOLOOP_CONFIG would otherwise drop all settings of the user."""
    env = {"HOME": str(tmp_path), "AUTOLOOP_CONFIG": str(tmp_path / "confg.toml")}
    _, diagnostics = resolve(tmp_path, work_dir=tmp_path, env=env)

    assert [(one.code, one.is_error) for one in diagnostics] == [("no-such-config", False)]
    (tmp_path / "confg.toml").write_text("")
    assert resolve(tmp_path, work_dir=tmp_path, env=env)[1] == []
