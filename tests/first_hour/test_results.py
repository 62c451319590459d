"""Results travel: they are kept, sent, compared and acted on far from the sandbox that they came from."""

import pytest

import groundbox as gb
from groundbox.errors import SandboxLost

BOMB = """
import mmap
shared = mmap.mmap(-1, 300 << 20)
while shared.write(b"x" * (1 << 20)): pass
"""
GONE = "import os; os._exit(3)"


def small(**options):
    return gb.Sandbox(profile="bare", limits=gb.Limits(memory_bytes=128 * gb.MiB), **options)


def test_a_program_in_a_fresh_sandbox_has_nothing_to_lose():
    assert gb.run("1").state == "ended"
    with small() as box:
        first = box.run(GONE)

    assert (first.outcome, first.state) == (gb.Outcome.ERROR, "ended")


def test_variables_of_an_earlier_run_are_lost_with_the_process():
    with small() as box:
        assert box.run("kept = 1").state == "kept"
        assert box.run(GONE).state == "lost"
        box.restart()
        assert box.run(GONE).state == "ended"


def test_a_run_after_the_processs_end_says_what_to_do():
    with small() as box:
        box.run(GONE)

        with pytest.raises(SandboxLost, match="restart"):
            box.run("1")


@pytest.mark.parametrize(("asked", "options"), [("auto", {}), ("never", {"restart": "auto"})])
def test_after_a_memory_kill_the_next_run_starts_afresh_if_asked(asked, options):
    with small(restart=asked) as box:
        box.run("kept = 1")
        box.files.write("kept.txt", "2")
        bomb = box.run(BOMB)
        again = box.run("'kept' in dir(), open('kept.txt').read()", **options)

    assert (bomb.outcome, bomb.state) == (gb.Outcome.MEMORY, "lost")
    assert again.text == "(False, '2')"
    assert [warning.code for warning in again.warnings] == ["session.restarted"]
    assert "its variables are gone" in again.warnings[0].message
    assert again.state == "kept"


def test_a_run_that_need_not_start_afresh_says_nothing_of_it():
    with small(restart="auto") as box:
        box.run("kept = 1")
        again = box.run("kept")

    assert (again.text, again.warnings) == ("1", ())


def test_a_stream_starts_afresh_too():
    with small(restart="auto") as box:
        box.run(GONE)
        last = list(box.stream("6 * 7"))[-1].execution

    assert (last.text, last.warnings[0].code) == ("42", "session.restarted")
    assert "variables" not in last.warnings[0].message
