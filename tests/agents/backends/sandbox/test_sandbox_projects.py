"""Real small projects are built and tested in a sandbox, with the toolchains of the user's own home."""

import os
import pwd
import shutil
import tempfile
from pathlib import Path

import pytest
from sandboxes import Neighbourhood

PROJECTS = {
    "python": (
        ("python3",),
        r"""
        mkdir -p src/adder tests
        printf 'def add(a, b):\n    return a + b\n' > src/adder/__init__.py
        printf 'import unittest, adder, sqlite3, ssl\nclass T(unittest.TestCase):\n' > tests/test_adder.py
        printf '    def test_add(self):\n        self.assertEqual(adder.add(2, 3), 5)\n' >> tests/test_adder.py
        python3 -m venv --without-pip env && PYTHONPATH=src env/bin/python -m unittest discover -s tests 2>&1
        python3 -m zipapp src/adder -m adder:add -o adder.pyz && test -s adder.pyz
        """,
        "Ran 1 test",
    ),
    "node": (
        ("node", "npm"),
        r"""
        mkdir -p node_modules/left
        printf 'module.exports = (a, b) => a + b\n' > node_modules/left/index.js
        printf '{"name": "adder", "version": "1.0.0", "scripts": {"test": "node --test"}}' > package.json
        printf 'require("node:test")("adds", () => require("assert").equal(require("left")(2, 3), 5))\n' > adder.test.js
        npm test 2>&1 && npm pack 2>&1
        """,
        "adder-1.0.0.tgz",
    ),
    "c": (
        ("make", "cc"),
        r"""
        printf 'int add(int a, int b) { return a + b; }\n' > add.c
        printf '#include <assert.h>\n#include <stdio.h>\nint add(int, int);\n' > test.c
        printf 'int main(void) { assert(add(2, 3) == 5); puts("passed"); return 0; }\n' >> test.c
        printf 'test: all\n\t./test\nall: test.c libadd.a\n\t$(CC) -o test test.c -L. -ladd\n' > Makefile
        printf 'libadd.a: add.c\n\t$(CC) -c add.c\n\tar rc libadd.a add.o\n.PHONY: test all\n' >> Makefile
        make 2>&1
        """,
        "passed",
    ),
    "rust": (
        ("cargo", "cc"),
        r"""
        cargo init --lib --name adder --vcs none -q 2>&1
        printf 'pub fn add(a: u32, b: u32) -> u32 { a + b }\n' > src/lib.rs
        printf '#[test]\nfn adds() { assert_eq!(add(2, 3), 5) }\n' >> src/lib.rs
        cargo test --offline 2>&1
        """,
        "1 passed",
    ),
    "java": (
        ("javac", "java", "jar"),
        r"""
        mkdir -p src out
        printf 'public class Adder { static int add(int a, int b) { return a + b; }\n' > src/Adder.java
        printf 'public static void main(String[] a) { if (add(2, 3) != 5) System.exit(1);\n' >> src/Adder.java
        printf 'System.out.println("passed"); } }\n' >> src/Adder.java
        javac -d out src/Adder.java && jar cfe adder.jar Adder -C out . && java -jar adder.jar
        """,
        "passed",
    ),
    "perl": (
        ("perl", "prove"),
        r"""
        mkdir -p lib t
        printf 'package Adder; sub add { $_[0] + $_[1] } 1;\n' > lib/Adder.pm
        printf 'use Test::More tests => 1; use Adder; is Adder::add(2, 3), 5;\n' > t/adder.t
        prove -l 2>&1
        """,
        "Result: PASS",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_is_built_and_tested(around: Neighbourhood, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, and as outside: with its programs, libraries and settings of the home."""
    programs, script, wanted = PROJECTS[name]
    if lacks := [program for program in programs if not shutil.which(program)]:
        pytest.skip(f"not installed: {', '.join(lacks)}")
    monkeypatch.setattr(around, "home", Path(pwd.getpwuid(os.getuid()).pw_dir))

    done = around.sh(f"set -e\n{script}")

    assert done.returncode == 0, done.stdout + done.stderr
    assert wanted in done.stdout


@pytest.mark.slow
def test_git_works_in_a_clone(around: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository is cloned, changed, and its history is read."""
    monkeypatch.setattr(around, "home", Path(pwd.getpwuid(os.getuid()).pw_dir))

    done = around.sh(
        f"git clone -q '{around.project}' clone 2>&1 && cd clone && echo new > new && git add new && "
        "git -c user.name=a -c user.email=a@b commit -q -m second && git log --oneline | wc -l"
    )

    assert (done.returncode, done.stdout.split()) == (0, ["2"]), done.stdout + done.stderr


MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason="no /dev/shm")
def test_a_project_in_memory_is_worked_on(around: Neighbourhood) -> None:
    """Below `/dev`, where a sandbox sees other devices: what it may see is there, and only what it may write."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as top, tempfile.TemporaryDirectory(dir=MEMORY) as elsewhere:
        inside = Neighbourhood(Path(top))

        done = inside.sh("set -e\ngit log --oneline\ncat file\necho new > new\n")
        assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["x"]), done.stderr
        assert (inside.tree / "new").read_text() == "new\n"

        inside.tried(f"cat '{inside.run}/secret'")
        inside.tried(f"echo evil > '{inside.home}/.profile'")
        inside.tried(f"echo evil > '{inside.project}/file'")
        inside.sh(f"mkdir -p '{elsewhere}'; echo evil > '{elsewhere}/evil'")
        assert os.listdir(elsewhere) == []
