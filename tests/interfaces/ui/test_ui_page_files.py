"""What the browser loads: vendored modules as they were published, no markup from texts, types that hold, its size."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from coterie.interfaces.ui.access import IMPORTS
from coterie.interfaces.ui.routes import KINDS, PAGE

VENDOR = PAGE / "vendor"
pytestmark = pytest.mark.once


def sources() -> list[Path]:
    """The page's own modules."""
    return [path for path in PAGE.rglob("*.js") if path.parent != VENDOR]


def test_vendored_modules_are_those_that_were_published() -> None:
    """Each has its version, licence and hash; what was changed in it is said, and undoing that gives the original."""
    table = json.loads((VENDOR / "vendored.json").read_text())
    faults = []
    for one in table:
        text = (VENDOR / one["file"]).read_bytes()
        if hashlib.sha256(text).hexdigest() != one["sha256"]:
            faults.append(f"{one['file']} differs from its hash")
        for change in reversed(one["changes"]):
            to, before = change["to"].encode(), change["from"].encode()
            text = text.replace(to, before) if to else text[:-1] + before + text[-1:]
        if hashlib.sha256(text).hexdigest() != one["source_sha256"]:
            faults.append(f"{one['file']} is not {one['source']} of {one['package']} {one['version']}")
        if one["license"].partition("-")[0] not in (VENDOR / one["license_file"]).read_text():
            faults.append(f"{one['file']} has no licence")

    assert faults == []
    assert {one["file"] for one in table} == {path.name for path in VENDOR.glob("*.js")}
    assert not re.search(r"https?://|registry", (VENDOR / "vendored.json").read_text())


def test_no_module_makes_markup_or_code_of_a_text() -> None:
    """Texts of agents become text nodes: nothing parses one, and no module is loaded from elsewhere."""
    words = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "dangerouslySet",
        "document.write",
        "eval(",
        "new Function",
    )
    found = [f"{path.name}: {word}" for path in sources() for word in words if word in path.read_text()]
    found += [
        f"{path.name}: {url}" for path in sources() for url in re.findall(r"https?://[^\s\"'`]+", path.read_text())
    ]

    assert [one for one in found if "www.w3.org" not in one and "http://file" not in one] == []


def test_a_browser_loads_less_than_150_kb() -> None:
    """Compressed, all of it together."""
    files = [path for path in PAGE.rglob("*") if path.suffix in KINDS]

    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 150_000


def test_modules_import_each_other_by_the_import_map() -> None:
    """A relative address has no meaning in the single file; a worker, which has no import map, needs one."""
    imports = {
        (path.relative_to(PAGE).as_posix(), target)
        for path in PAGE.rglob("*.js")
        for target in re.findall(r'(?:[\w}] ?from ?|\bimport ?\(?)"([^"]+)"', path.read_text())
    }
    relative = {("worker.js", "./hub.js"), ("hub.js", "./merge.js"), ("store.js", "./hub.js")}
    modules = {f"page/{path.relative_to(PAGE).as_posix()}" for path in PAGE.rglob("*.js")}

    assert {one for one in imports if one[1].startswith(".")} == relative
    assert {target for _, target in imports - relative} == modules - {
        f"page/{name}.js" for name in ("app", "file", "hub", "worker")
    }
    assert f'<script type="importmap">{IMPORTS}</script>' in (PAGE / "index.html").read_text()


def test_the_page_names_every_module_that_it_needs() -> None:
    """In the document: a browser would ask for one only when the module that imports it has come."""
    named = re.findall(r'rel="modulepreload" href="/([^"]+)"', (PAGE / "index.html").read_text())
    modules = {path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*.js")}

    assert {*named} == modules - {"app.js", "file.js", "hub.js", "worker.js"}
    assert len({*named}) == len(named)
