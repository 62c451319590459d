"""A sandbox for code tools and one for commands, without any framework."""

import asyncio
import re

import pytest

from groundbox import InvalidArgument, Limits, Sandbox
from groundbox.agent.adapters.interpreter import Interpreter
from groundbox.agent.adapters.telling import told
from groundbox.agent.adapters.workplace import Workplace
from groundbox.sandbox.portal import PORTAL


@pytest.mark.parametrize(
    ("made", "first", "second"),
    [
        (lambda: Interpreter(profile="bare"), "import time; time.sleep(0.5); 'whole'", "1"),
        (Workplace, "sleep 0.5; echo whole", "echo 1"),
    ],
)
def test_who_is_cancelled_while_waiting_disturbs_nobody(made, first, second):
    async def work():
        place = made()
        await place.sandbox.worker()
        running = asyncio.ensure_future(place.run(first))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(place.run(second))
        await asyncio.wait([waiting], timeout=0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        done = await running
        await place.close()
        return done

    done = asyncio.run(work())

    assert done.exit_code == 0
    assert "whole" in (done.texts[0] if made is Workplace else done.text)


def test_a_program_that_heeds_no_interrupt_is_ended_and_the_next_one_begins_anew():
    source = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"

    async def work():
        place = Interpreter(profile="bare")
        await place.run("open('kept', 'w').close()")
        running = asyncio.ensure_future(place.run(source))
        await asyncio.wait([running], timeout=0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        after = await place.run("import os; os.listdir()")
        await place.close()
        return after

    assert asyncio.run(work()).text == "['kept']"


def test_options_belong_to_a_sandbox_that_is_made():
    with Sandbox(profile="bare") as box:
        for kind in (Interpreter, Workplace):
            with pytest.raises(InvalidArgument, match="limits: belongs to a new sandbox"):
                kind(box, limits=Limits())


def test_commands_start_in_the_workdir_wherever_cells_have_gone():
    with Sandbox(profile="bare") as box:
        box.run("import os; os.chdir('/tmp')")
        place = Workplace(box)
        done = [PORTAL.call(place.run(["pwd"], cwd=cwd)).texts[0] for cwd in (None, ".", "/tmp")]

    assert done == ["/box/work\n", "/box/work\n", "/box/tmp\n"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("pass", "python: ok, it printed nothing and its last expression has no value"),
        ("print('said')\n42", "python: ok\n<value>\n42\n</value>\n<stdout>\nsaid\n</stdout>"),
        ("import sys; print('odd', file=sys.stderr)", "python: ok\n<stderr>\nodd\n</stderr>"),
    ],
)
def test_a_run_is_told_part_by_part(source, expected):
    with Sandbox(profile="bare") as box:
        assert re.sub(r" [0-9a-f]{8}>", ">", told(box.run(source)).text) == expected
