"""How the suite is cut and shared among processes (tests/tiers.py)."""

import fcntl
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import tiers_for_tests as tiers

HERE = Path(__file__).parent


@pytest.fixture
def suite(tmp_path):
    """A folder with the conftest of these tests and one file of tests, and what pytest says of it."""
    for name in ("conftest.py", "tiers.py"):
        (tmp_path / name).write_text((HERE / name).read_text())
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_fast(): pass\n"
        "def test_long(): pass\n"
        "@pytest.mark.slow\n@pytest.mark.parametrize('n', range(20))\ndef test_marked(n): pass\n"
        "@pytest.mark.alone\ndef test_alone(): pass\n"
        "@pytest.mark.soak\ndef test_for_minutes(): pass\n"
    )
    (tmp_path / "tests" / "escape").mkdir(parents=True)
    (tmp_path / "tests" / "escape" / "test_wall.py").write_text("def test_wall(): pass\n")
    (tmp_path / "durations.json").write_text(
        '{"test_it.py::test_long": 3.0, "tests/escape/test_wall.py::test_wall": 3.0}\n'
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  alone\n  soak\n")

    def run(*options):
        command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    return run


def test_every_slow_test_is_in_one_part_and_stays_there():
    names = [f"tests/test_it.py::test_{n}" for n in range(1000)]

    parts = [{name for name in names if tiers.part_of(name, 4) == part} for part in (1, 2, 3, 4)]

    assert sorted(name for part in parts for name in part) == sorted(names)
    assert all(len(part) > 150 for part in parts)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_quick_leaves_out_what_is_stored_or_marked_and_says_so(suite, workers):
    said = suite("--quick", *workers)

    assert "2 passed" in said
    assert "left out: 23 slow tests; all of them: make test\n" in said


def test_the_parts_of_the_long_ones_add_up_to_all_and_the_wall_is_in_each(suite):
    said = [suite("--part", f"{part}/3", "-m", "not soak") for part in (1, 2, 3)]

    passed = [int(text.split(" passed")[0].split()[-1]) for text in said]
    assert sum(passed) == 3 * 3 + 20 + 1  # the fast one, that which is alone and that of the wall; marked; long
    assert all("all of them: make test-all" in text for text in said)


@pytest.mark.parametrize("part", ["5/4", "1"])
def test_a_part_that_cannot_be_meant_is_refused(suite, part):
    assert "passed" not in suite("--part", part)


def test_one_that_is_alone_waits_for_the_others_and_they_for_it(tmp_path):
    # A copy, since the locks are on its files, and those of this suite are held while its tests run.
    for name in ("conftest.py", "tiers.py"):
        (tmp_path / name).write_text((HERE / name).read_text())
    spec = importlib.util.spec_from_file_location("tiers_copied", tmp_path / "tiers.py")
    copied: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    events = []

    def one(*, alone):
        with copied.turn(alone=alone):
            events.append("alone" if alone else "shared")

    with copied.turn(alone=False):
        first = threading.Thread(target=one, kwargs={"alone": True})
        first.start()
        with open(tmp_path / "conftest.py", "rb") as door:
            while _is_free(door):
                time.sleep(0.01)
        later = threading.Thread(target=one, kwargs={"alone": False})
        later.start()
        later.join(0.2)
        assert events == []  # the later one does not overtake
    first.join()
    later.join()

    assert events == ["alone", "shared"]


def test_a_child_that_a_test_leaves_holds_no_turn(tmp_path):
    for name in ("conftest.py", "tiers.py"):
        (tmp_path / name).write_text((HERE / name).read_text())
    spec = importlib.util.spec_from_file_location("tiers_copied_too", tmp_path / "tiers.py")
    copied: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)

    with copied.turn(alone=False):
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
    try:
        copied._LONGEST_S = 10
        with copied.turn(alone=True):
            pass
        with open(tmp_path / "tiers.py", "rb") as room:
            fcntl.flock(room, fcntl.LOCK_SH)
            copied._LONGEST_S = 0.1
            turn = copied.turn(alone=True)
            with pytest.raises(copied.NoTurn, match=rf"no turn in 0.1 s; .*tiers.py is held by {os.getpid()} "):
                turn.__enter__()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_test_that_gets_no_turn_fails_and_says_who_has_it(suite, tmp_path):
    tiers_there = tmp_path / "tiers.py"
    tiers_there.write_text(tiers_there.read_text().replace("_LONGEST_S = 1500", "_LONGEST_S = 0.1"))
    with open(tiers_there, "rb") as room:
        fcntl.flock(room, fcntl.LOCK_EX)

        said = suite("-n", "1", "--quick")

    assert re.search(rf"tiers.py is held by .*\b{os.getpid()} \(", said)
    assert "1 failed, 1 passed" in said  # and keeps no other


def test_a_child_of_a_child_keeps_what_it_opens():
    """Under the numbers of the files that the child let go."""
    spec = importlib.util.spec_from_file_location("tiers_copied_for_children", HERE / "tiers.py")
    copied: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    with copied._opened(HERE / "tiers.py") as (file,):
        number = file.fileno()
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_RDONLY), number)
                if grandchild := os.fork():
                    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
                os.fstat(number)
                os._exit(0)
            finally:
                os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _is_free(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True
