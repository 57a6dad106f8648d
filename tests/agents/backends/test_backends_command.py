"""A program is asked, heard, judged by its end, and ended with all it started."""

import asyncio
import errno
import gc
import json
import os
import re
import stat
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import Heard, agent, ask, asked, pass_time, pids, python, request, started, timed_out

from coterie.agents.backends import command, process_table, processes
from coterie.agents.backends.attempt import variables_of
from coterie.agents.backends.base import Answer, Failure, Launched, Result, Text
from coterie.agents.backends.command import CommandBackend
from coterie.agents.backends.outcome import OutputReader, cannot_start
from coterie.agents.backends.secrets import Secrets
from coterie.agents.backends.wrapper import link_of
from coterie.history.journal.records import NO_USAGE
from coterie.team.planning.plan import AgentPlan

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], sys.stdin.read(), dict(os.environ), os.getcwd()]))"


def run(agent: AgentPlan, **values: Any) -> tuple[Result, Heard]:
    return ask(CommandBackend(grace=0.2), agent, **values)


def answer(agent: AgentPlan, **values: Any) -> Answer:
    result, _ = run(agent, **values)
    assert isinstance(result, Answer), result
    return result


def failure(agent: AgentPlan, **values: Any) -> Failure:
    result, _ = run(agent, **values)
    assert isinstance(result, Failure), result
    return result


def failure_in_time(agent: AgentPlan, holds: Callable[[Heard], bool], grace: float = 0.2) -> Failure:
    """The failure of an attempt whose time-out passes once *holds* is true of what was heard."""
    result, _ = asyncio.run(timed_out(CommandBackend(grace=grace), agent, holds))
    assert isinstance(result, Failure), result
    return result


def shown(agent: AgentPlan, **values: Any) -> Any:
    return json.loads(answer(agent, **values).text)


# -- what it is given --------------------------------------------------------------------------------------------------


def test_the_prompt_is_on_standard_input() -> None:
    """Whole, and as UTF-8."""
    _, prompt, _, _ = shown(python(SHOW), prompt="Größe?\nZweite Zeile")

    assert prompt == "Größe?\nZweite Zeile"


def test_a_long_prompt_and_a_long_answer_do_not_wait_for_each_other() -> None:
    """A program that answers before it has read is heard while it is written to."""
    prompt = "x" * 300_000
    echo = "import sys; print('y' * 300000); sys.stdout.flush(); print(len(sys.stdin.read()))"

    assert answer(python(echo), prompt=prompt).text == "y" * 300_000 + "\n300000\n"


def test_a_program_need_not_read() -> None:
    """A prompt that nobody reads is no failure."""
    assert answer(python("print('done')"), prompt="x" * 300_000).text == "done\n"


def test_the_prompt_in_a_file_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    """Only its owner may read it, standard input is empty, and nothing of it stays."""
    program = """
import json, os, sys
path, turn = os.environ["COTERIE_PROMPT_FILE"], os.environ["COTERIE_TURN_FILE"]
modes = [os.stat(name).st_mode & 0o777 for name in (path, turn)]
print(json.dumps([open(path).read(), sys.stdin.read(), modes, path, turn]))
"""
    prompt, stdin, modes, path, turn = shown(python(program, prompt_via="file"), prompt="Größe?", folder=tmp_path / "a")

    assert (prompt, stdin, modes) == ("Größe?", "", [0o600, 0o600])
    assert (path, turn) == (str(link_of(tmp_path / "a") / "prompt.md"), str(tmp_path / "a" / "turn.json"))
    assert list((tmp_path / "a").iterdir()) == []
    assert not link_of(tmp_path / "a").is_symlink()


def test_without_a_folder_a_temporary_one_comes_and_goes() -> None:
    """An attempt of a run that keeps nothing on disk leaves nothing there either."""
    _, _, env, _ = shown(python(SHOW, prompt_via="file"), folder=None)

    assert Path(env["COTERIE_TURN_FILE"]).parent == Path(env["COTERIE_ATTEMPT_DIR"]).parent
    assert not os.path.exists(env["COTERIE_ATTEMPT_DIR"])


def test_placeholders_are_replaced_once_and_literally(tmp_path: Path) -> None:
    """What a placeholder brings in is not looked through again, and no shell sees any of it."""
    words = ("{python}", "-c", SHOW, "{here}/x", "--model={model}", "$HOME; {unknown}", "{{model}}")
    given, _, _, _ = shown(agent(argv=words, model="{python}*"), here=tmp_path)

    assert given == [f"{tmp_path}/x", "--model={python}*", "$HOME; {unknown}", "{{python}*}"]


def test_a_prompt_file_in_the_command_brings_the_prompt_there() -> None:
    """Whoever names the file gets it, whatever `prompt_via` says."""
    assert answer(agent(argv=("cat", "{prompt_file}")), prompt="the question").text == "the question"


@pytest.mark.parametrize("prompt", ["$HOME; 'it' {model}\n\"is\" *", "-x", "", "ß" * 50_000])
def test_the_prompt_is_the_last_word_of_the_command(prompt: str) -> None:
    """Where it is given so: literally, whatever stands in it, and not on standard input as well."""
    given, stdin, _, _ = shown(python(SHOW, prompt_via="arg"), prompt=prompt)

    assert (given, stdin) == ([prompt], "")


@pytest.mark.parametrize("prompt", ["ß" * 50_000 + "x", "x" * 3_000_000, "a\0b"], ids=["100001", "3000000", "nul"])
def test_a_prompt_that_is_no_word_is_named_by_its_file(tmp_path: Path, prompt: str) -> None:
    """The command gets one line; the environment holds only the path, and nothing of the prompt stays."""
    program = """
import json, os, sys
path = os.environ["COTERIE_PROMPT_FILE"]
print(json.dumps([sys.argv[1:], path, open(path, newline="").read(), sys.stdin.read(),
    [name for name, value in os.environ.items() if len(value) >= 100_000]]))
"""
    words, path, text, stdin, long = shown(python(program, prompt_via="arg"), prompt=prompt, folder=tmp_path / "a")

    assert len(words) == 1
    assert path in words[0]
    assert "\n" not in words[0]
    assert (text, stdin, long) == (prompt, "", [])
    assert list((tmp_path / "a").iterdir()) == []


def test_a_command_that_names_the_file_is_given_no_further_word() -> None:
    """Whoever names the file gets it, and only there."""
    assert answer(agent(argv=("cat", "{prompt_file}"), prompt_via="arg"), prompt="the question").text == "the question"


def test_the_environment_tells_who_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's environment and the agent's own, and what coterie adds, which neither can change."""
    monkeypatch.setenv("FROM_THE_USER", "1")
    monkeypatch.setenv("COTERIE_PROMPT_FILE", "/of/an/outer/run")
    monkeypatch.setenv("COTERIE_CLUSTER", "temporal://operator?export=postgresql://a:secret@b/c")
    plan = python(SHOW, name="writer", model="m", env={"FROM_THE_PLAN": "2", "COTERIE_ATTEMPT_ID": "mine"})
    given = {"run": "root/team#1.1", "turn": "writer#2", "attempt": 3, "epoch": 4, "interrupted": 1}
    _, _, env, _ = shown(plan, folder=tmp_path, **given)

    ours = {name: value for name, value in env.items() if name.startswith("COTERIE_")}
    assert (env["FROM_THE_USER"], env["FROM_THE_PLAN"]) == ("1", "2")
    assert ours == {
        "COTERIE_RUN": "root/team#1.1",
        "COTERIE_TURN": "writer#2",
        "COTERIE_ATTEMPT": "3",
        "COTERIE_ATTEMPT_ID": "root/team#1.1/writer#2.3",
        "COTERIE_KEY": "root/team#1.1/writer#2",
        "COTERIE_EPOCH": "4",
        "COTERIE_AGENT": "writer",
        "COTERIE_MODEL": "m",
        "COTERIE_INTERRUPTED": "1",
        "COTERIE_ATTEMPT_DIR": str(tmp_path / "own"),
        "COTERIE_TURN_FILE": str(tmp_path / "turn.json"),
    }


def test_the_question_is_there_as_data() -> None:
    """The turn file holds the request's context as JSON."""
    program = "import os; print(open(os.environ['COTERIE_TURN_FILE']).read())"

    assert shown(python(program), context={"task": "Größe", "inputs": []}) == {"task": "Größe", "inputs": []}


def test_it_runs_in_the_folder_its_plan_names(tmp_path: Path) -> None:
    """`cwd` is relative to the run's."""
    (tmp_path / "sub").mkdir()
    _, _, _, cwd = shown(python(SHOW, cwd="sub"), cwd=tmp_path)

    assert cwd == str((tmp_path / "sub").resolve())


# -- what is heard -----------------------------------------------------------------------------------------------------


def test_what_it_prints_arrives_as_it_prints_it() -> None:
    """Launched first, with pid, group and start time; then text, before the program has ended."""

    async def main() -> None:
        wait = "import sys, time; print('first', flush=True); print('aside', file=sys.stderr); time.sleep(600)"
        session, heard = await started(CommandBackend(grace=0.2), python(wait))
        await heard.until(lambda heard: "first" in heard.said() and "aside" in heard.said("log"))
        launched = heard[0]
        assert isinstance(launched, Launched)
        assert processes.alive(launched.pid, launched.started)
        assert os.getpgid(launched.pid) == launched.group == launched.pid != os.getpgrp()
        assert os.getsid(launched.pid) != os.getsid(0)
        await session.interrupt()

    asyncio.run(main())


def test_the_answer_is_what_was_heard(tmp_path: Path) -> None:
    """The answer's text is standard output, exactly; standard error is not part of it."""
    result, heard = run(python("import sys; print('a'); print('b', file=sys.stderr); sys.stdout.write('c')"))

    assert isinstance(result, Answer)
    assert result.text == heard.said() == "a\nc"
    assert heard.said("log") == "b\n"
    assert result.outputs is None


def test_a_character_in_two_pieces_is_one() -> None:
    """UTF-8 is decoded across reads; what is no UTF-8 is replaced."""
    program = """
import sys, time
for piece in (b"\\xe2\\x82", b"\\xac", b"\\xff!"):
    sys.stdout.buffer.write(piece); sys.stdout.flush(); time.sleep(0.05)
"""
    assert answer(python(program)).text == "€\N{REPLACEMENT CHARACTER}!"


def test_secrets_do_not_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the answer, nor the log, nor a reason, also when one is printed in two pieces."""
    monkeypatch.setenv("MY_API_KEY", "sk-123456789")
    program = """
import os, sys, time
key = os.environ["MY_API_KEY"]
print(key[:5], end="", flush=True); time.sleep(0.05); print(key[5:], os.environ["DB_PASSWORD"])
sys.exit("no access with " + key)
"""
    result, heard = run(python(program, env={"DB_PASSWORD": "hunter22"}))

    assert isinstance(result, Failure)
    assert result.reason.startswith("no access with *** (`")
    assert heard.said() == "*** ***\n"
    assert "sk-" not in repr(list(heard))


def test_the_time_it_took_is_measured() -> None:
    """Also of a failure."""
    assert 0.1 < answer(python("import time; time.sleep(0.1)")).usage.seconds < 100
    assert failure(python("import time; time.sleep(0.1); 1 / 0")).usage.seconds > 0.1


@pytest.mark.parametrize("status", [0, 3])
def test_of_a_long_output_the_end_is_kept(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """More than the limit is no failure, whatever the status; a note says how much is left out."""
    monkeypatch.setattr(command, "ANSWER_LIMIT", 100_000)
    program = f"""
import sys
for k in range(20_000): print(f"{{k:06}}äöü")
print("the end")
sys.exit({status})
"""
    result, heard = run(python(program))
    said = result.text.splitlines()

    assert isinstance(result, Answer) is (status == 0)
    assert said[0] == f"(the first {20_000 * 13 + 8 - 100_000} bytes of this output are left out)"
    assert said[-2:] == ["019999äöü", "the end"]
    assert said[2] == f"{20_000 - (len(said) - 3):06}äöü"
    assert len("\n".join(said[1:]).encode()) in range(99_990, 100_001)
    assert heard.said().startswith("000000äöü")


def test_memory_is_bounded_while_it_is_heard() -> None:
    """What is kept of an output never exceeds twice the limit."""
    voice = OutputReader("answer", Secrets({}), lambda text: None, 1000)
    sizes = []
    for _ in range(500):
        voice.feed(b"x" * 333)
        sizes.append(len(voice._kept))

    assert max(sizes) <= 2000
    assert len(voice.text.splitlines()[-1]) == 1000


def test_a_secret_at_the_edge_of_what_is_kept_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are hidden first and the output is cut then, so that no end of one remains."""
    monkeypatch.setattr(command, "ANSWER_LIMIT", 1000)
    monkeypatch.setattr(command, "LOG_LIMIT", 1000)
    program = """
import os, sys
for out in (sys.stdout, sys.stderr): out.write("x" * 3000 + os.environ["MY_KEY"] + "y" * 990)
sys.exit(1)
"""
    result = failure(python(program, env={"MY_KEY": "secret-1234567890"}))

    assert [text.splitlines()[-1] for text in (result.text, result.log)] == ["x" * 7 + "***" + "y" * 990] * 2
    assert "4567890" not in repr(result)


# -- what a failure keeps ----------------------------------------------------------------------------------------------

BOTH = "import os, sys, time; print('half of it', flush=True); print('a warning', file=sys.stderr, flush=True); "


def has_both(heard: Heard) -> bool:
    return heard.said() == "half of it\n" and heard.said("log") == "a warning\n"


@pytest.mark.parametrize(
    ("program", "kind", "exit_code", "signal"),
    [
        ("sys.exit(3)", "exit", 3, ""),
        ("sys.exit(75)", "transient", 75, ""),
        ("sys.exit(137)", "exit", 137, ""),
        ("os.kill(os.getpid(), 9)", "exit", 137, "SIGKILL"),
        ("os.kill(os.getpid(), 15)", "exit", 143, "SIGTERM"),
    ],
)
def test_a_failure_holds_what_was_printed(program: str, kind: str, exit_code: int, signal: str) -> None:
    """Both outputs, the exit status as a shell counts it, and the signal."""
    result = failure(python(BOTH + program))

    assert (result.kind, result.text, result.log) == (kind, "half of it\n", "a warning\n")
    assert (result.exit_code, result.signal) == (exit_code, signal)


def test_a_time_out_holds_what_was_printed() -> None:
    """Also the last words on the signal that ends it."""
    listens = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {15}); " + BOTH + "signal.sigwait({15}); "
    result = failure_in_time(python(listens + "sys.exit('I was stopped')", timeout=600.0), has_both, grace=60.0)

    assert (result.kind, result.text, result.log) == ("timeout", "half of it\n", "a warning\nI was stopped\n")
    assert (result.exit_code, result.signal) == (1, "")


def test_a_time_out_says_which_signal_ended_it() -> None:
    """One that does not listen is ended by SIGKILL."""
    program = "import signal; signal.signal(15, signal.SIG_IGN); " + BOTH + "time.sleep(600)"
    result = failure_in_time(python(program, timeout=600.0), has_both)

    assert (result.kind, result.exit_code, result.signal) == ("timeout", 137, "SIGKILL")


def test_the_beginning_of_a_secret_is_not_kept_by_a_time_out() -> None:
    """What could have become a secret is left out when the program is cut off in the middle of it."""
    program = "import os, time; print('with ' + os.environ['MY_KEY'][:9], end='', flush=True); time.sleep(600)"
    plan = python(program, env={"MY_KEY": "secret-1234567890"}, timeout=600.0)
    result = failure_in_time(plan, lambda heard: "with " in heard.said())

    assert result.text == "with "


def test_a_step_that_fails_keeps_what_the_steps_before_it_printed() -> None:
    """Standard error is that of the step that failed."""
    steps = (("sh", "-c", "echo one; echo aside >&2"), ("sh", "-c", "echo two; echo why >&2; exit 4"))
    result = failure(agent(kind="action", steps=steps))

    assert (result.text, result.log, result.exit_code) == ("one\ntwo\n", "why\n", 4)


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("print('API Error: 429 Too Many Requests'); sys.exit(1)", "rate_limited"),
        ("sys.exit('error: invalid api key')", "auth"),
        ("sys.exit('402 Payment Required')", "quota"),
        ("sys.exit('socket hang up')", "transient"),
        ("print('usage limit reached'); sys.exit(75)", "transient"),
        ("print('timeout', flush=True); os.kill(os.getpid(), 9)", "exit"),
    ],
)
def test_the_kind_of_a_failure_is_in_the_text(program: str, kind: str) -> None:
    """On either output; status 75 is `transient` and a signal `exit`, whatever the text says."""
    result = failure(python("import os, sys; " + program))

    assert result.kind == kind


def test_an_answer_has_no_kind_of_failure() -> None:
    """What an agent writes and ends well with is never looked at."""
    assert answer(python("print('429 rate limit, 401 unauthorized, timeout')")).text.startswith("429")


def test_what_an_action_prints_does_not_say_the_kind() -> None:
    """It is about the work: a failed test may mention a time-out, and is not to be repeated for it."""
    assert failure(agent(kind="action", steps=(("sh", "-c", "echo timeout; exit 1"),))).kind == "exit"


def test_what_only_began_like_a_secret_is_kept_when_the_program_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On both channels: it was held back, since it could have gone on."""
    monkeypatch.setenv("MY_API_KEY", "sk-abcdefgh")
    result, heard = ask(CommandBackend(), python("import sys; print('x sk-ab', end=''); sys.stderr.write('y sk-ab')"))

    assert isinstance(result, Answer)
    assert (result.text, heard.said("answer"), heard.said("log")) == ("x sk-ab", "x sk-ab", "y sk-ab")


def test_a_secret_in_a_command_is_hidden_where_it_is_quoted() -> None:
    """Whole, before the command is cut short, and also where it is the program that cannot be started."""
    env = {"MY_KEY": "secret-1234567890"}
    long = failure(agent(argv=("sh", "-c", "exit 1", "x" * 60, "secret-1234567890", "y" * 80), env=env))
    short = failure(agent(argv=("sh", "-c", "exit 1", "--key=secret-1234567890"), env=env))
    missing = failure(agent(argv=("no-such-secret-1234567890",), env=env))

    assert long.reason == f"`sh -c exit 1 {'x' * 60} *** y…` ended with status 1"
    assert short.reason == "`sh -c exit 1 --key=***` ended with status 1"
    assert missing.reason.startswith("`no-such-***` cannot be started")
    assert "secret-" not in repr([long, short, missing])


# -- how its end is read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "kind", "reason"),
    [
        ("raise ValueError('no such file')", "exit", "ValueError: no such file ({} ended with status 1)"),
        ("import sys; sys.exit(3)", "exit", "{} ended with status 3"),
        ("import sys; print('busy', file=sys.stderr); sys.exit(75)", "transient", "busy ({} ended with status 75)"),
        ("import os; os.kill(os.getpid(), 9)", "exit", "{} was ended by SIGKILL (9)"),
    ],
)
def test_a_status_is_a_failure(program: str, kind: str, reason: str) -> None:
    """The reason begins with the last line of standard error, which a narrow terminal shows, and has the status."""
    result = failure(python(program))

    assert result.kind == kind
    assert re.sub("`.*`", "{}", result.reason) == reason


def test_a_command_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    """What is missing, and where, and how to mend it."""
    plain = tmp_path / "plain.sh"
    plain.write_text("echo hello\n")
    missing = failure(agent(argv=("no-such-program-here",)))
    refused = failure(agent(argv=(str(plain),)))
    plain.chmod(plain.stat().st_mode | stat.S_IXUSR)
    formless = failure(agent(argv=(str(plain),)))
    nowhere = failure(agent(argv=("true",), cwd="gone"), cwd=tmp_path)

    assert {one.kind for one in (missing, refused, formless, nowhere)} == {"not_found"}
    assert missing.reason.startswith("`no-such-program-here` cannot be started: program not found")
    assert refused.reason == f"`{plain}` cannot be started: it is not executable: `chmod +x` it, " + (
        "or name its interpreter first"
    )
    assert "begin it with a `#!` line" in formless.reason
    assert nowhere.reason == f"the working directory {tmp_path}/gone does not exist: create it, or change `cwd`"


@pytest.mark.parametrize(
    ("number", "kind", "why"),
    [
        (errno.ENOTDIR, "not_found", "program not found"),
        (errno.EACCES, "not_found", "it is not executable"),
        (errno.EPERM, "not_found", "it is not executable"),
        (errno.ELOOP, "failed", os.strerror(errno.ELOOP)),
    ],
)
def test_the_error_of_a_start_has_a_kind(tmp_path: Path, number: int, kind: str, why: str) -> None:
    """A program that may not be run is as good as none: a retry would not mend it."""
    result = cannot_start("tool", tmp_path, OSError(number, os.strerror(number)))

    assert result.kind == kind
    assert why in result.reason


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "program not found"),
        (lambda path: path.write_text("#!/bin/sh\n"), "it is not executable"),
        (lambda path: (path.write_text("#!/no/such/shell\n"), path.chmod(0o755)), "program not found"),
    ],
    ids=["absent", "not executable", "no interpreter"],
)
def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    """With what to do; it is not taken for one that ran and failed."""
    make(path := tmp_path / "tool")
    result = failure(agent(argv=(str(path),)))

    assert result.kind == "not_found"
    assert result.reason.startswith(f"`{path}` cannot be started: {why}")


def test_an_agent_without_a_command_says_so() -> None:
    """An agent must have one; an action may have nothing to do."""
    assert failure(agent("writer")).kind == "not_found"
    assert answer(agent(kind="action")).text == ""


def test_too_long_arguments_are_a_failure_that_says_so() -> None:
    """The kernel's limit is named, not a traceback."""
    result = failure(python("", env={"LONG": "x" * 3_000_000}))

    assert result.kind == "failed"
    assert "too long" in result.reason


def test_files_that_cannot_be_kept_are_a_failure(tmp_path: Path) -> None:
    """A folder that cannot be made is told, not raised."""
    (tmp_path / "file").write_text("")
    result = failure(python(""), folder=tmp_path / "file" / "below")

    assert result.kind == "failed"
    assert "could not be kept" in result.reason


# -- actions and gates -------------------------------------------------------------------------------------------------


def test_steps_run_in_order_and_each_is_given_the_prompt() -> None:
    """One attempt, one answer: their texts one after the other."""
    result, heard = run(agent(kind="action", steps=(("echo", "one"), ("cat",), ("echo", "two"))), prompt="p\n")

    assert isinstance(result, Answer)
    assert result.text == "one\np\ntwo\n"
    assert sum(isinstance(event, Launched) for event in heard) == 3


def test_the_first_step_that_fails_is_the_last() -> None:
    """The reason names it as the file writes it."""
    result, heard = run(agent(kind="action", steps=(("echo", "one"), ("{python}", "-c", "1/0"), ("echo", "two"))))

    assert isinstance(result, Failure)
    assert result.reason == "ZeroDivisionError: division by zero (`{python} -c 1/0` ended with status 1)"
    assert heard.said() == "one\n"


@pytest.mark.parametrize(("status", "passed"), [(0, True), (1, False), (75, False)])
def test_a_verdict_is_the_exit_status(status: int, passed: bool) -> None:
    """What a gate prints, on either output, is its text, in the order printed."""
    program = f"import sys; print('out', flush=True); print('err', file=sys.stderr, flush=True); sys.exit({status})"
    result = answer(agent(kind="gate", verdict=True, steps=(("{python}", "-c", program),)))

    assert (result.outputs, result.text) == ({"passed": passed}, "out\nerr\n")


def test_a_gate_that_cannot_judge_fails() -> None:
    """A program that is not there, or that a signal ended, has said nothing about the work."""
    assert failure(agent(kind="gate", verdict=True, steps=(("no-such-program-here",),))).kind == "not_found"
    assert failure(agent(kind="gate", verdict=True, steps=(("sh", "-c", "kill -9 $$"),))).kind == "exit"


def test_the_time_out_is_that_of_the_attempt(tmp_path: Path) -> None:
    """Steps share it."""
    os.mkfifo(tmp_path / "go")
    step = ("sh", "-c", "echo .; read go < go")

    async def main() -> Result:
        plan = agent(kind="action", timeout=600.0, steps=(step, step))
        session, heard = await started(CommandBackend(grace=0.2), plan, cwd=tmp_path)
        await heard.until(lambda heard: heard.said() == ".\n")
        await pass_time(400.0)
        (tmp_path / "go").write_text("on\n")
        await heard.until(lambda heard: heard.said() == ".\n.\n")
        await pass_time(400.0)
        return await asyncio.wait_for(session.result(), 60)

    result = asyncio.run(main())
    assert isinstance(result, Failure)
    assert (result.kind, result.reason) == ("timeout", "it took longer than its time-out of 600 s")


# -- how it is ended ---------------------------------------------------------------------------------------------------

FAMILY = """
import os, signal, sys, time
def here(name): open(os.path.join(sys.argv[1], "pid-" + name), "w").write(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        here("grandchild"); print(".", flush=True); time.sleep(600)
    here("child"); print(".", flush=True); time.sleep(600)
here("parent"); print(".", flush=True); time.sleep(600)
"""


def everybody_is_there(heard: Heard) -> bool:
    return heard.said().count(".") == 3


def family(folder: Path, **values: Any) -> AgentPlan:
    return agent(argv=(sys.executable, "-c", FAMILY, str(folder)), **values)


def living(folder: Path) -> list[int]:
    return [pid for pid in pids(folder) if processes.alive(pid, processes.started(pid))]


def test_an_interruption_ends_it_with_all_it_started(tmp_path: Path) -> None:
    """Those too who ignore SIGTERM and those who left the group; nobody lives when the result is there."""

    async def main() -> None:
        session, heard = await started(CommandBackend(grace=0.2), family(tmp_path))
        await heard.until(everybody_is_there)
        assert len(living(tmp_path)) == 3
        await session.interrupt()
        assert living(tmp_path) == []
        result = await session.result()
        assert isinstance(result, Failure)
        assert result.kind == "interrupted"

    asyncio.run(main())


def test_cancelling_the_wait_ends_it_with_all_it_started(tmp_path: Path) -> None:
    """Nobody lives when the cancelled wait is over, however often it is cancelled."""

    async def main() -> None:
        session, heard = await started(CommandBackend(grace=0.2), family(tmp_path))
        waiting = asyncio.create_task(session.result())
        await heard.until(everybody_is_there)
        waiting.cancel()
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert living(tmp_path) == []

    asyncio.run(main())


def test_a_time_out_ends_it_with_all_it_started(tmp_path: Path) -> None:
    """The failure says how long it could have taken."""
    result = failure_in_time(family(tmp_path, timeout=600.0), everybody_is_there)

    assert result.kind == "timeout"
    assert len(pids(tmp_path)) == 3
    assert living(tmp_path) == []


def test_closing_the_backend_ends_every_attempt(tmp_path: Path) -> None:
    """All at once, not one grace after the other."""

    async def main() -> None:
        backend = CommandBackend(grace=0.2)
        folders = [tmp_path / name for name in "abc"]
        sessions = []
        for folder in folders:
            folder.mkdir()
            session, heard = await started(backend, family(folder), turn=f"{folder.name}#1")
            await heard.until(everybody_is_there)
            sessions.append(session)
        await backend.close()
        assert [living(folder) for folder in folders] == [[], [], []]
        assert {getattr(await session.result(), "kind", None) for session in sessions} == {"interrupted"}

    asyncio.run(main())


def test_a_loop_that_ends_ends_its_programs(tmp_path: Path) -> None:
    """An attempt nobody waits for does not outlive `asyncio.run`."""

    async def main() -> None:
        _, heard = await started(CommandBackend(grace=0.2), family(tmp_path))
        await heard.until(everybody_is_there)

    asyncio.run(main())
    assert living(tmp_path) == []


def test_a_grandchild_that_holds_the_output_does_not_hold_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes a moment after the program has ended, and who held on is ended, group or no group."""
    monkeypatch.setattr(command, "_LINGER", 0.05)
    program = """
import os, sys, time
print("answer", flush=True)
if os.fork() == 0:
    os.setsid()
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    open(os.path.join(sys.argv[1], "pid-1"), "w").write(str(pid))
    os._exit(0)
os.wait()
"""
    result = answer(agent(argv=(sys.executable, "-c", program, str(tmp_path))))

    assert result.text == "answer\n"
    if process_table.HAS_PROC:
        assert living(tmp_path) == []


def test_what_is_left_in_the_group_is_ended_after_an_answer(tmp_path: Path) -> None:
    """A child that let go of the outputs does not delay the answer, and does not outlive it."""
    program = """
import subprocess, sys
quiet = {"stdin": -3, "stdout": -3, "stderr": -3}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **quiet)
child.returncode = 0
print(child.pid)
"""
    pid = int(answer(python(program)).text)

    assert not processes.alive(pid, processes.started(pid))


def test_nothing_is_heard_after_the_result() -> None:
    """The result is the last word, also of a program that goes on talking while it is ended."""

    async def main() -> tuple[Heard, int]:
        chatter = "import signal\nsignal.signal(15, signal.SIG_IGN)\nwhile True: print('x' * 100, flush=True)"
        session, heard = await started(CommandBackend(grace=0.2), python(chatter))
        await heard.until(lambda heard: len(heard) > 1)
        await session.interrupt()
        return heard, len(heard)

    heard, count = asyncio.run(main())
    assert len(heard) == count


def test_many_programs_at_once() -> None:
    """Answers do not get mixed up."""

    async def main() -> None:
        backend = CommandBackend()
        plans = [agent(f"a{n}", argv=("sh", "-c", f"cat; echo {n}")) for n in range(30)]
        results = await asyncio.gather(*(asked(backend, request(plan, prompt=plan.name)) for plan in plans))
        said = [getattr(result, "text", None) for result, _ in results]
        assert said == [f"a{n}{n}\n" for n in range(30)]
        assert all(result.usage != NO_USAGE for result, _ in results)

    asyncio.run(main())


def test_events_are_those_of_the_promise() -> None:
    """A program that only prints gives `Launched` once, first, and then `Text`."""
    _, heard = run(python("print('x')"))

    assert isinstance(heard[0], Launched)
    assert {type(event) for event in heard[1:]} == {Text}


def test_a_backend_keeps_no_attempt_that_has_ended() -> None:
    """It lives as long as its process, and each attempt holds what its program has printed."""

    async def main() -> object:
        backend = CommandBackend()
        session = await backend.start(request(python("print('done')")), Heard())
        await session.result()
        ended = weakref.ref(session)
        del session
        await asyncio.sleep(0)
        gc.collect()
        return ended()

    assert asyncio.run(main()) is None


def test_the_time_an_earlier_owner_waited_counts() -> None:
    """A time-out that has passed already ends the program that goes on."""
    program = python("import time; time.sleep(600)", timeout=600.0)
    assert failure(program, taken=600.0).kind == "timeout"


def test_a_value_that_is_written_outright_comes_before_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only values of `env_from` name variables; one that is not set is empty."""
    monkeypatch.setenv("HELD", "held")
    monkeypatch.delenv("MISSING", raising=False)
    agent = AgentPlan(name="a", env={"A": "${HELD}"}, env_from={"A": "x", "B": "<${HELD}${MISSING}>"})
    assert variables_of(agent) == {"A": "${HELD}", "B": "<held>"}


def test_a_gate_ends_nothing_of_the_attempt_that_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when every process is inspected, as where the system does not say which are younger."""
    monkeypatch.setattr(process_table, "moment", lambda: None)

    async def main() -> tuple[Result, bool]:
        backend = CommandBackend(grace=0.2)
        try:
            _, heard = await started(backend, python("import time; time.sleep(60)"))
            await heard.until(lambda heard: any(isinstance(one, Launched) for one in heard))
            [process] = [one for one in heard if isinstance(one, Launched)]
            gate = request(agent(kind="gate", steps=(("true",),)), clean=True)
            passed, _ = await asked(backend, gate)
            return passed, processes.alive(process.pid, process.started)
        finally:
            await backend.close()

    passed, lives = asyncio.run(main())

    assert isinstance(passed, Answer)
    assert lives
