"""Mistakes that users make: each message has its place, what was found, and a line to type."""

import asyncio
from pathlib import Path

import pytest
from bundles import bundle

from coterie import AgentProcess, Runtime, Supervisor, load
from coterie.interfaces.cli import app
from coterie.patterns import agent, debate, ensemble, pipeline

PROGRAM = 'extensions { coterie { command: ["true"] } }'
SYSTEM = """\
supervision:
  name: root
  children:
    - agent:
        name: a
        type: crew.Writer
"""
PATTERN = "pattern:\n  type: debate\n  slots:\n"


def team(a: str = PROGRAM, more: str = "", flow: str = "a -> b") -> str:
    """A team of two agents: *a* is the body of the first one, on line 2."""
    agents = f"  agent a {{ {a} }}\n  agent b {{ {PROGRAM} }}\n"
    return f"topology t : [pipeline] {{\n{agents}  {more}\n  flow {{ {flow} }}\n}}\n"


def command(options: str) -> str:
    """The extension of an agent with *options* beside its command."""
    return f'extensions {{ coterie {{ command: ["true"] {options} }} }}'


AT = [
    ("a misspelt command", team('extensions { coterie { comand: ["true"] } }'), "2:44", "'comand'", "'command'"),
    ("a misspelt extension", team('extension { coterie { command: ["true"] } }'), "2:13", "'extension'", "extensions"),
    ("a misspelt coterie", team('extensions { cotery { command: ["true"] } }'), "2:9", "no model", "write coterie in"),
    ("a command as a field", team('command: ["true"]'), "2:13", "'command'", 'coterie { command: ["true"] }'),
    ("a command as a text", team('extensions { coterie { command: "true" } }'), "2:45", "not 'true'", '["true"]'),
    ("an unknown backend", team('extensions { coterie { backend: "claude-skd" } }'), "2:45", "skd", "'claude-sdk'"),
    ("an unknown sandbox", team(command('sandbox: "requred"')), "2:63", "'requred'", "'required'"),
    ("a folder as a number", team(command("cwd: 3")), "2:59", "not '3'", "in quotes"),
    ("an unknown option", team(command("timout: 3")), "2:62", "'timout'", "'timeout'"),
    (
        "a team that is missing",
        team('extensions { coterie { topology: "lost.at" } }'),
        "2:46",
        "'lost.at'",
        "create it",
    ),
    ("retry at the top", team(more="retry: 3"), "4:3", "'retry'", "agent NAME { retry: 3 }"),
    ("max at the top", team(more="max: 3"), "4:3", "'max'", "NAME -> NAME [max 3]"),
    ("retry as a word", team(f"retry: three {PROGRAM}"), "2:20", "'three'", "write retry: 3"),
    ("a key of retry", team(f"retry {{ atempts: 3 }} {PROGRAM}"), "2:21", "'atempts'", "known fields: max"),
    ("a duration in words", team(f"timeout: 5 minutes {PROGRAM}"), "2:22", "'5 minutes'", "5m"),
    ("tools without brackets", team("model: sonnet tools: Read, Write"), "2:46", "'Write'", "[FIRST, SECOND]"),
    ("curly quotes", team("prompt: “hello” model: sonnet"), "2:21", "“", "in quotes"),
    ("single quotes", team("model: 'sonnet'"), "2:20", "'sonnet'", "double quotes"),
    ("an output block", team(f"output: {{ v: yes | no }} {PROGRAM}"), "2:13", "'output'", "'outputs'"),
    ("a double arrow", team(flow="a => b"), "5:12", "'=>'", "'->'"),
    ("a semicolon", team(flow="a -> b;"), "5:16", "';'", "writer -> reviewer"),
    ("a list without a comma", team(flow="a -> [a b]"), "5:17", "comma", "'[a, b]'"),
    ("an agent in capitals", team(flow="A -> b"), "5:10", "'A'", "did you mean 'a'?"),
    ("an undeclared agent", team(flow="a -> c"), "5:15", "'c'", "agent c { model: … }"),
    ("an assignment", team(flow="a -> b [when a.v = ok]"), "5:27", "'='", "'=='"),
    ("a colon after max", team(flow="a -> b [max: 3]"), "5:21", "'max'", "'max …'"),
    ("a comment of C", "// a team\n" + team(), "1:1", "'/'", "behind #"),
    ("an import too early", 'import "x.at" as x\n' + team(), "1:1", "'import'", "behind its '{'"),
    (
        "a pattern without brackets",
        team().replace("[pipeline]", "pipeline"),
        "1:14",
        "'pipeline'",
        "write: topology t : [pipeline] {",
    ),
    ("an equals sign", team("model = sonnet"), "2:19", "'='", "write model: VALUE"),
    ("backquotes", team("model: `sonnet`"), "2:20", "'`'", "in quotes"),
    ("no flow", team().replace("  flow { a -> b }\n", ""), "1:1", "no flow", "write flow { FIRST -> SECOND }"),
    ("a condition without brackets", team(flow="a -> b when a.v == ok"), "5:17", "'when'", "a -> b [when …]"),
    ("if", team(flow="a -> b [if a.v == ok]"), "5:18", "'if'", "write when"),
    ("one word of one", team(f"isolation: yes {PROGRAM}"), "2:24", "'yes'", "write isolation: worktree"),
    (
        "an import that is missing",
        team().replace("{\n", '{\n  import "wrog.at" as x\n', 1),
        "2:10",
        "'wrog.at'",
        "did you mean 'wrong.at'?",
    ),
    ("a parameter of another language", team(more="params { x: int }"), "4:15", "'x'", "string, number or boolean"),
    ("a pattern misspelt", team().replace("pipeline", "pipline"), "1:15", "'pipline'", "'pipeline'"),
    ("an arrow backwards", team(flow="b <- a"), "5:12", "'<-'", "'->'"),
    ("an unknown value", team(f"on-fail: skp {PROGRAM}"), "2:22", "'skp'", "'skip'"),
    ("a field with an underscore", team(f"on_fail: skip {PROGRAM}"), "2:13", "'on_fail'", "'on-fail'"),
    ("a negative number", team(f"retry: -1 {PROGRAM}"), "2:20", "'-1'", "write retry: 3"),
    ("an agent twice", team(more=f"agent a {{ {PROGRAM} }}"), "4:9", "declared twice", "choose another"),
    ("env in the wrong place", team(f"env {{ A: 1 }} {PROGRAM}"), "2:13", "'env'", 'coterie { env: {"A": 1} }'),
    ("a block of agents", team().replace("agent b", "agents b"), "3:3", "'agents'", "'agent'"),
]
YAML = [
    ("childs", SYSTEM.replace("children", "childs"), "3:3", "'childs'", "'children'"),
    ("agents at the top", "agents: [{name: a, type: crew.Writer}]\n", "1:1", "'agents'", "children: [{agent: {name"),
    ("a transport as a text", SYSTEM + "transport: nats\n", "7:12", "'nats'", "transport: {type: nats}"),
    ("an unknown transport", SYSTEM + "transport: {type: redis}\n", "7:19", "'redis'", "type: in_process"),
    ("an url", SYSTEM + "transport: {type: nats, url: nats://h}\n", "7:25", "'url'", "servers: nats://h"),
    ("a key of a supervisor", SYSTEM + "        strategy: ONE_FOR_ONE\n", "7:9", "'strategy'", "a supervisor: move"),
    ("a prompt", SYSTEM + "        prompt: hi\n", "7:9", "'prompt'", "- model: {name"),
    (
        "a strategy with dashes",
        SYSTEM.replace("root", "root\n  strategy: one-for-one"),
        "3:13",
        "one-for",
        "ONE_FOR_ONE",
    ),
    ("many restarts", SYSTEM.replace("root", "root\n  max_restarts: many"), "3:17", "'many'", "max_restarts: 3"),
    ("another name of a key", SYSTEM.replace("root", "root\n  intensity: 3"), "3:3", "'intensity'", "max_restarts: 3"),
    ("a tab", SYSTEM.replace("    - agent", "\t- agent"), "4:1", "'\\t'", "with spaces"),
    ("no type", SYSTEM.replace("        type: crew.Writer\n", ""), "4:7", "no 'type'", "type: MODULE.CLASS"),
    ("a gateway as a key", SYSTEM + "    - http_gateway: {name: api}\n", "7:7", "http_gateway", "- type: http_gateway"),
    ("a missing class", SYSTEM.replace("Writer", "Wroter"), "6:9", "'Wroter'", "'Writer'"),
    ("a missing module", SYSTEM.replace("crew", "crw"), "6:9", "no module 'crw'", "'crew'"),
    ("a pattern as a text", "pattern: debat\n", "1:10", "'debat'", "pattern: {type: debate"),
    ("a team in a slot", PATTERN + "    mediator: judge.at\n", "4:15", "'judge.at'", "write {flow: judge.at}"),
    ("no model in a slot", PATTERN + "    mediator: {prompt: Hi}\n", "4:5", "no model", "flow: FILE.at"),
    (
        "a slot too few",
        PATTERN + "    proponent: {model: m}\n    opponent: {model: m}\n",
        "3:3",
        "mediator",
        "mediator: {",
    ),
]
CALLS = [
    ("run tem.at", "there is no file 'tem.at'", "'team.at'"),
    ("run team", "'team' cannot be run", "'team.at'"),
    ("run team.at --max-turn 3", "no option --max-turn", "'--max-turns'"),
    ("run team.at --max-turns three", "'three'", "write --max-turns N"),
    ("run team.at --transport nats", "--transport is for supervised systems", "team.at is none"),
    ("run team.at --iterations 3", "'team.at' is not a loop", "only for loops"),
    ("resume", "RUN is missing", "write coterie resume RUN"),
    ("resume lst", "there is no run 'lst'", "'last'"),
    ("graph team.at --format pgn", "'pgn' is not one of", "write --format"),
    ("stats --by modle", "'modle' is not one of", "'model'"),
    ("runs prune", "--older-than AGE is missing", "write coterie runs prune --older-than AGE"),
    ("config set a 3", "extra argument", "write coterie config set KEY=VALUE"),
    ("topology val team.at", "no command `coterie topology val`", "'validate'"),
    ("list", "no command `coterie list`", "`coterie runs`"),
    ("start team.at", "no command `coterie start`", "`coterie run`"),
    ("stop last", "no command `coterie stop`", "`coterie control stop`"),
    ("diff team.at", "NEW is missing", "write coterie diff OLD NEW"),
    ("presets autocde", "'autocde'", "autocode"),
    ("explain no-modle", "'no-modle'", "'no-model'"),
    ("control interupt last", "`coterie control interupt`", "'interrupt'"),
    ("retry last", "no command `coterie retry`", "`coterie resume RUN --retry`"),
    ("restart last", "no command `coterie restart`", "`coterie resume RUN --retry`"),
    ("rerun last", "no command `coterie rerun`", "`coterie fork`"),
    ("continue last", "no command `coterie continue`", "`coterie resume`"),
    ("approve last", "no command `coterie approve`", "`coterie control respond`"),
    ("answer last yes", "no command `coterie answer`", "`coterie control respond`"),
    ("prune", "no command `coterie prune`", "`coterie runs prune`"),
    ("exec team.at", "no command `coterie exec`", "`coterie run`"),
    ("attach last", "no command `coterie attach`", "`coterie watch`"),
    ("dashboard", "no command `coterie dashboard`", "`coterie ui`"),
    ("rehearse team.at", "no command `coterie rehearse`", "`coterie run TARGET --rehearse`"),
    ("run team.at --dry-run", "no option --dry-run", "'--rehearse'"),
    ("run team.at --budget 5", "no option --budget", "'--max-cost'"),
    ("run team.at --param a=1", "no option --param", "'--set'"),
    ("run team.at --timeout 5", "no option --timeout", "`coterie run -h` lists its options"),
    ("fork last --from 3", "no option --from", "'--at'"),
    ("fork last --at soon", "'soon' is not a whole number", "write --at SEQ"),
    ("ui --port high", "'high' is not a whole number", "write --port N"),
    ("run team.at --input", "--input has no value", "write --input K=V"),
    ("run --hlep", "no option --hlep", "'--help'"),
    ("run team.at --set x=1", "no parameter 'x'", "write params { x: string }"),
    ("graph tem.at", "'tem.at' cannot be read", "did you mean 'team.at'?"),
    ("fmt crew.py", "'.py' is no notation", "use .at"),
    ("resume last --retry a", "not for last and a", "write coterie resume last --retry, or --retry NAME#N"),
    ("resume last --retry --when-open", "not with --when-open", "write coterie resume last --retry"),
    ("config set limit", "'limit' is not KEY=VALUE", "write coterie config set limit=VALUE"),
    ("config show all", "unexpected extra argument", "write coterie config show"),
    ("run Team.at", "'Team.at'", "'team.at'"),
    ("Run team.at", "no command `coterie Run`", "'run'"),
    ("run team.at --max-parallel 0", "'0' is not a whole number from 1", "write --max-parallel N"),
    ("run team.at -b modle", "'modle'", "'model'"),
    ("run team.at --cassette lost.json", "lost.json cannot be read", "--cassette record:lost.json"),
    ("run team.at --set x", "'x' is not a named value", "write name=text"),
    ("graph team.at -o team.png", "png cannot be written", "write --output team.svg"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a team and a module of agents."""
    monkeypatch.chdir(tmp_path)
    Path("team.at").write_text(team(), encoding="utf-8")
    code = "from coterie import AgentProcess\n\n\nclass Writer(AgentProcess):\n    pass\n"
    Path("crew.py").write_text(code, encoding="utf-8")
    return tmp_path


@bundle("text, place, found, todo", [one[1:] for one in AT], ids=[one[0] for one in AT])
def test_a_wrong_flow(
    text: str, place: str, found: str, todo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`coterie validate FILE` says it."""
    says(tmp_path / "wrong.at", text, (place, found, todo), capsys)


@bundle("text, place, found, todo", [one[1:] for one in YAML], ids=[one[0] for one in YAML])
def test_a_wrong_system_or_pattern(
    text: str,
    place: str,
    found: str,
    todo: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`coterie validate --import FILE` says it, classes included."""
    (tmp_path / "crew.py").write_text("from coterie import AgentProcess\n\n\nclass Writer(AgentProcess):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    says(tmp_path / ("p.yaml" if text.startswith("pattern") else "topology.yaml"), text, (place, found, todo), capsys)


def says(file: Path, text: str, wanted: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Check *file* with *text*, and find in one diagnostic its place, what was found, and what to write."""
    file.write_text(text, encoding="utf-8")
    app.main(["validate", *(["--import"] if file.suffix == ".yaml" else []), str(file)])
    told = "".join(capsys.readouterr())
    place, found, todo = wanted
    parts = [part for part in told.split(f"{file}:")[1:] if part.startswith(f"{place}: ")]

    assert any(found in part and todo in part for part in parts), told


@bundle("words, found, todo", CALLS, ids=[one[0] for one in CALLS])
def test_a_wrong_call(words: str, found: str, todo: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is that of a usage error or of a failure, and nothing is printed as a result."""
    assert app.main(words.split()) in (1, 2)
    told = capsys.readouterr()

    assert told.out == ""
    assert found in told.err
    assert todo in told.err
    assert "Traceback" not in told.err


class Deaf(AgentProcess):
    """Its `handle` is not `async def`."""

    def handle(self, message: object) -> None:  # type: ignore[override]
        """Return nothing."""


class Unasked(AgentProcess):
    """Its `handle` takes no message."""

    async def handle(self) -> None:  # type: ignore[override]
        """Return nothing."""


class Early(AgentProcess):
    """Its `on_start` is not `async def`."""

    def on_start(self) -> None:  # type: ignore[override]
        """Return nothing."""


class Unmade(AgentProcess):
    """It does not call the constructor of its base class."""

    def __init__(self, name: str) -> None:
        pass


class Writer(AgentProcess):
    """It has no fault but that it lacks `handle`."""


def ask(agent: AgentProcess | type, name: str = "a") -> None:
    """Ask *name* in a system whose only child is *agent*."""

    async def main() -> None:
        async with Runtime(Supervisor("root", children=[agent], max_restarts=0)) as runtime:  # type: ignore[list-item]
            await runtime.ask(name, {})

    asyncio.run(main())


def only(children: object, **settings: object) -> None:
    """Start a system of a supervisor that is given *children*."""

    async def main() -> None:
        async with Runtime(Supervisor("root", children=children, **settings)):  # type: ignore[arg-type]
            pass

    asyncio.run(main())


def ask_too_early() -> None:
    """Ask before the start."""
    asyncio.run(Runtime(Supervisor("root", children=[Writer("a")])).ask("a", {}))


def line_of(function: object) -> str:
    """The place of *function* as messages name it."""
    code = function.__code__  # type: ignore[attr-defined]
    return f"{Path(__file__).name}:{code.co_firstlineno}"


SNIPPETS = [
    ("handle without async", lambda: ask(Deaf("a")), line_of(Deaf.handle), "write `async def handle` in Deaf"),
    ("on_start without async", lambda: ask(Early("a")), line_of(Early.on_start), "write `async def on_start` in Early"),
    ("no message", lambda: ask(Unasked("a")), line_of(Unasked.handle), "write `async def handle(self, message)` in Un"),
    ("a child alone", lambda: only(Writer("a")), "is a Writer, not a list", "write children=[…]"),
    ("another strategy", lambda: only([], strategy="one-for-one"), "'ONE-FOR-ONE'", "write ONE_FOR_ONE"),
    ("a name with a blank", lambda: ask(Writer("my agent")), "'my agent'", "write letters, digits"),
    ("a list as an ensemble", lambda: ensemble(["m", "m"]), "['m', 'm']", "pass several agents one by one"),  # type: ignore[arg-type]
    ("a misspelt setting", lambda: agent(modle="m"), "'modle'", "did you mean 'mode'?"),
    ("a file that is missing", lambda: load("lost.at"), "'lost.at' cannot be read", "create it"),
    ("no super", lambda: ask(Unmade("a")), line_of(Unmade.__init__), "does not call super().__init__(name)"),
    ("no handle", lambda: ask(Writer("a")), "Writer", "does not define handle"),
    ("an unknown name", lambda: ask(Writer("writer"), "writr"), "'writr'", "'writer'"),
    ("a class as a child", lambda: ask(Writer), "the class Writer", "write Writer('writer')"),
    ("ask before the start", ask_too_early, "not started", "write `async with runtime:`"),
    ("a debate by position", lambda: debate("q", agent(model="m")), "debate()", "debate(proponent=…"),  # type: ignore[call-arg]
    ("a debate without a side", lambda: debate(proponent="m", opponent="m"), "'mediator'", "mediator=…"),  # type: ignore[call-arg]
    ("a pipeline by position", lambda: pipeline("m", "m"), "pipeline()", 'pipeline({"first"'),  # type: ignore[call-arg, arg-type]
]


@bundle("snippet, found, todo", [one[1:] for one in SNIPPETS], ids=[one[0] for one in SNIPPETS])
def test_a_wrong_program(snippet: object, found: str, todo: str, caplog: pytest.LogCaptureFixture) -> None:
    """The exception, or one of those that a task group collected, says it, and nothing fails besides."""
    assert callable(snippet)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of many classes
        snippet()
    told = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])

    assert found in told
    assert todo in told
    assert "Exception in callback" not in caplog.text


def test_there_are_a_hundred_and_thirty() -> None:
    """So many mistakes are covered, each once."""
    names = [one[0] for table in (AT, YAML, CALLS, SNIPPETS) for one in table]

    assert len(set(names)) == len(names) >= 130
