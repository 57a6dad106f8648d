"""Choose ids for runs. A loop's settings select the format: `quiet-harbor`, `run-mwpmf7sc-f747` or `run-3`."""

import re
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from coterie.base import files
from coterie.base.ids import new_run_id
from coterie.execution.kinds import kind_of
from coterie.execution.runs import index
from coterie.team.planning.plan import Plan

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_COUNTED = re.compile(r"run-(\d+)")
_HOW = (
    "able amber bold brave brief bright brisk calm civil clear clever cool cosmic crisp curious daring deep dry eager "
    "early easy even exact fair fast fine firm fleet fond frank free fresh gentle glad golden grand green happy hardy "
    "honest humble keen kind late lean light lively lofty loud lucid lucky lunar mellow merry mild modest neat nimble "
    "noble novel open patient plain polar prime proud quick quiet rapid ready regal rosy round rural serene sharp "
    "shy silent silver simple sleek slow smart smooth snowy sober soft solar solid spare steady still stout sunny "
    "sure swift tall tidy tranquil true vast vivid warm wide wild wise witty young"
)
_WHAT = (
    "acorn anchor apple arbor aspen badger bamboo basin bay beacon birch bison bramble breeze bridge brook canyon "
    "cedar cliff cloud clover comet coral cove crane creek crest crow dale dawn delta dune eagle echo elm ember falcon "
    "fern field finch fir fjord flame flint forest fox garden glacier glade grove gull harbor hare hawk hazel heath "
    "heron hill hollow ibis inlet iris island ivy jay juniper kestrel lagoon lake lantern larch lark laurel ledge lily "
    "linden lotus lynx maple marsh meadow mesa mist moon moss oak oasis ocean olive orchid osprey otter owl palm peak "
    "pebble pine plain pond poplar prairie quail quartz rain raven reed reef ridge river robin rowan sage sand shore "
    "sky slate snow sparrow spring spruce star stone storm stream summit swan thicket thorn tide trail tulip tundra "
    "vale valley walnut wave willow wind wren yarrow"
)


def choose_id(plan: Plan, state_dir: Path) -> str:
    """Choose an id for a new run of *plan* under *state_dir*, and reserve it by creating the run's folder.

    Where no folder can be created, it is not reserved: the claim of the run says what is wrong there.
    """
    runs, place = state_dir / "runs", kind_of(plan).project.place
    if place is None or not place.project:
        return next(name for name in iter(new_run_id, "") if _reserve(runs / name))
    here = {path.name for home in index.homes(state_dir) for path in (home / "runs").glob("*")}
    known = here | index.ids()
    for name in candidates(place.run_id_format, here, known):
        if not _reserve(runs / name):
            continue
        if index.place_of(name, state_dir) is None:
            return name
        (runs / name).rmdir()  # another process has just taken it
    raise AssertionError("candidates never end")


def _reserve(folder: Path) -> bool:
    with suppress(OSError):
        files.make_folder(folder.parent)
    try:
        folder.mkdir(files.PRIVATE_FOLDER)
    except FileExistsError:
        return False
    except OSError:
        pass
    return True


def candidates(how: str, here: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Yield ids in the format *how* without end: `compact`, `counter`, or `human`, also for any other word.

    Args:
        here: The ids of the runs in the same state directory; a counter continues from these.
        known: The ids of all known runs; readable ids differ from all of them.
    """
    match how:
        case "compact":
            while True:
                yield f"run-{_in_base_36(time.time_ns() // 1_000_000)}-{secrets.token_hex(2)}"
        case "counter":
            counted = [int(found[1]) for name in here if (found := _COUNTED.fullmatch(name))]
            yield from (f"run-{n}" for n in count(max([len(here), *counted]) + 1))
        case _:
            for tried in count():
                words = [secrets.choice(_HOW.split()), secrets.choice(_WHAT.split())]
                if tried >= 50:  # free ids are getting scarce
                    words.insert(1, secrets.choice(_HOW.split()))
                if (name := "-".join(words)) not in known:
                    yield name


def _in_base_36(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
