"""Write the table of public names into `docs/python.md`: `python docs/generate/python_page.py`."""

import inspect
from pathlib import Path

import coterie

PAGE = Path(__file__).parents[1] / "python.md"
HEADING = "## Names\n\n"


def page(text: str) -> str:
    """*text*, the page, with the table as the names are now."""
    names = {name: (inspect.getdoc(getattr(coterie, name)) or "").partition("\n")[0] for name in coterie.__all__}
    rows = (f"| `{name}` | {about.replace('*', '`')} |\n" for name, about in names.items())
    return text.partition(HEADING)[0] + HEADING + "| `coterie.…` | what it is |\n|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
