"""How the suite is cut to what somebody waits for: `--quick`, `--part K/N`, and the durations behind them.

tests/durations.json has the seconds of each test that took SLOW_S or longer when `make durations` last ran;
a test that is not in it counts as fast, and so does a new one.

--quick       leaves out what is in the file, and what is marked `slow` or `soak`.
--part K/N    runs the K-th of N parts of the tests marked `slow` (which rarely break, too), and of those that took
              LONG_S or longer and are not of the wall (tests/escape); all others whole.
              A test belongs to a part by a checksum of its name: it stays there when others come and go.

Both say at the end what they left out, and the command that runs all of it.

Tests run in several processes (pytest-xdist). One marked `alone` counts processes, time or memory of the machine:
it runs while no other does (`turn`).
"""

import contextlib
import fcntl
import json
import os
import threading
import time
import zlib
from pathlib import Path

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
SLOW_S = 0.2
LONG_S = 0.5
_LONGEST_S = 1500  # that the others' tests of one turn may take
_HELD = []
_FORKING = threading.Lock()
WHOLE = "tests/escape/"  # what is not marked `slow` there runs each time, however long it takes


class NoTurn(Exception):
    """Another process has kept a test from its turn for longer than any test takes."""


def add_options(parser):
    group = parser.getgroup("groundbox")
    group.addoption("--quick", action="store_true", help="only tests that took less than 0.2 s when last measured")
    group.addoption("--part", metavar="K/N", type=_part, help="of long tests, only the K-th of N parts")
    group.addoption("--store-durations", action="store_true", help="write tests/durations.json from this run")


def select(config, items):
    """Deselect what the options leave out.

    Returns:
        A line that says how many tests were left out, and the command that runs them.
    """
    if config.getoption("--quick"):
        slow = stored()
        out = [item for item in items if item.nodeid in slow or _slow(item) or item.get_closest_marker("soak")]
        said = f"left out: {len(out)} slow tests; all of them: make test"
    elif config.getoption("--part"):
        part, parts = config.getoption("--part")
        long = {name for name, seconds in stored().items() if seconds >= LONG_S and not name.startswith(WHOLE)}
        some = [item for item in items if _slow(item) or item.nodeid in long]
        out = [item for item in some if part_of(item.nodeid, parts) != part]
        said = (
            f"left out: {len(out)} long tests, for this is part {part} of {parts} of them; all of them: make test-all"
        )
    else:
        return []
    gone = set(out)
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in gone]
    return [said] if out else []


def stored():
    """Seconds by the names of tests that were slow, or nothing when there is no file."""
    return json.loads(DURATIONS.read_text(encoding="utf-8")) if DURATIONS.exists() else {}


def store(seconds):
    """Write the names of the slow ones among `seconds`, which are those of a run of all tests."""
    slow = {name: round(value, 1) for name, value in sorted(seconds.items()) if value >= SLOW_S}
    DURATIONS.write_text(json.dumps(slow, indent=0) + "\n", encoding="utf-8")


@contextlib.contextmanager
def turn(*, alone):
    """Keep a test that is alone and all others of this checkout apart, whatever process they run in.

    Two locks, both on files that are here anyway. All tests hold the room, shared or alone. Whoever wants it passes
    the door first, and one that waits for the room stands in the door: else two processes that share the room in turn
    would keep the third out for good, since flock(2) lets those who share overtake those who wait.
    """
    with _opened(DURATIONS.with_name("conftest.py"), __file__) as (door, room):
        _lock(door, fcntl.LOCK_EX)
        _lock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def _opened(*paths):
    """Children that a test forks close these files: flock(2) holds as long as any process has them open."""
    with _FORKING:  # no thread forks while they are open and not known to be
        files = [open(path, "rb") for path in paths]  # noqa: SIM115
        _HELD.extend(files)
    try:
        yield files
    finally:
        for each in files:
            if each in _HELD:
                _HELD.remove(each)
            each.close()


def _let_go():
    _FORKING.release()
    while _HELD:  # once: a child of the child may have something else of that number
        _HELD.pop().close()


os.register_at_fork(before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_let_go)


def _lock(file, how):
    end = time.monotonic() + _LONGEST_S
    while True:
        try:
            return fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise NoTurn(f"no turn in {_LONGEST_S} s; {file.name} is held by {_holders(file.name)}") from None
            time.sleep(0.01)


def _holders(path):
    """Processes that have a file open, with their command lines."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == path:
                command = link.parents[1].joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.add(f"{link.parts[2]} ({command[:100].strip()})")
    return ", ".join(sorted(found))


def part_of(name, parts):
    """The part, from 1 to `parts`, that a test belongs to."""
    return zlib.crc32(name.encode()) % parts + 1


def _slow(item):
    return item.get_closest_marker("slow") is not None


def _part(text):
    try:
        part, parts = (int(number) for number in text.split("/"))
    except ValueError:
        raise pytest.UsageError(f"--part is K/N, such as 1/4, not {text!r}") from None
    if not 1 <= part <= parts:
        raise pytest.UsageError(f"--part is K/N with K from 1 to N, not {text!r}")
    return part, parts
