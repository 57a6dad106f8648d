"""What a foreign program logs is kept, bounded and without secrets."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.backends.log_file import LogFile
from coterie.agents.backends.secrets import Secrets

SECRET = "correct-horse"


@given(st.lists(st.sampled_from(["a", "b\n", SECRET[:5], SECRET[5:], SECRET]), max_size=20), st.integers(0, 40))
def test_a_log_has_no_secret_and_no_more_than_fits(tmp_path_factory: object, texts: list[str], most: int) -> None:
    """However the texts are split, and says how much of the redacted text is missing."""
    path = Path(tmp_path_factory.mktemp("log")) / "a.log"  # type: ignore[attr-defined]
    log = LogFile(path, Secrets({"TOKEN": SECRET}), most)
    for text in texts:
        log.write(text)
    log.close()
    whole = "".join(texts).replace(SECRET, "***")
    kept = path.read_text()
    assert kept.startswith(whole[:most])
    assert SECRET not in kept
    left_out = len(whole) - most
    assert kept[min(most, len(whole)) :] == (
        f"\n(the last {left_out} bytes of this log are left out)\n" if left_out > 0 else ""
    )


def test_a_log_of_no_file_keeps_nothing() -> None:
    """An attempt whose run is not kept on disk has none."""
    log = LogFile(None, Secrets())
    log.write("x")
    log.close()
