"""Cells that await outside a function run in the loop from their first statement on."""

import pytest

import groundbox as gb

FUTURE_OF_A_LOOP = """
import asyncio
async def m(): return 7
loop = asyncio.get_event_loop()
f = loop.create_future()
loop.call_later(.01, f.set_result, 9)
await f
"""
TASK_BEFORE_GATHER = """
import asyncio
async def twice(n):
    await asyncio.sleep(0)
    return 2 * n
tasks = [asyncio.create_task(twice(n)) for n in range(3)]
await asyncio.gather(*tasks)
"""
LOCK_OF_A_CLASS = """
import asyncio
class Counter:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
counter = Counter()
(await asyncio.sleep(0, counter.loop)) is asyncio.get_running_loop()
"""
STATEMENT_AFTER_AWAIT = """
import asyncio
await asyncio.sleep(0)
queue = asyncio.Queue()
asyncio.get_running_loop().call_soon(queue.put_nowait, "x")
value = await queue.get()
value
"""


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (FUTURE_OF_A_LOOP, "9"),
        (TASK_BEFORE_GATHER, "[0, 2, 4]"),
        (LOCK_OF_A_CLASS, "True"),
        (STATEMENT_AFTER_AWAIT, "'x'"),
    ],
)
def test_statements_before_an_await_run_in_its_loop(source, value):
    ran = gb.run(source)

    assert ran.ok, ran.error
    assert ran.value["text/plain"] == value


def test_cells_share_the_loop_that_a_cell_without_await_has_asked_for():
    with gb.Sandbox() as box:
        box.run("import asyncio\nloop = asyncio.get_event_loop()\nf = loop.create_future()")
        box.run("_ = loop.call_soon(f.set_result, 5)")
        awaited = box.run("await f")
        box.run("t = asyncio.create_task(asyncio.sleep(0, 'task'))")
        task = box.run("await t")
        own = box.run("asyncio.run(asyncio.sleep(0, 'run'))")
        same = box.run("loop is asyncio.get_event_loop()")

    assert [each.value["text/plain"] for each in (awaited, task, own, same)] == ["5", "'task'", "'run'", "True"]


def test_a_cell_may_run_a_loop_of_its_own_and_await_after_it():
    ran = gb.run("import asyncio\nx = asyncio.run(asyncio.sleep(0, 1))\nx + await asyncio.sleep(0, 2)")

    assert ran.value["text/plain"] == "3"


def test_context_variables_set_in_the_loop_are_set_for_later_cells():
    with gb.Sandbox() as box:
        box.run("import asyncio, contextvars\nv = contextvars.ContextVar('v')\n_ = v.set(1)")
        box.run("await asyncio.sleep(0)\n_ = v.set(v.get() + 1)")
        ran = box.run("v.get()")

    assert ran.value["text/plain"] == "2"


@pytest.mark.parametrize("endless", ["while True: pass", "await asyncio.sleep(600)"])
def test_a_cell_in_the_loop_is_interrupted_and_keeps_its_variables(endless):
    with gb.Sandbox() as box:
        box.run("kept = 'kept'")
        stopped = box.run(f"import asyncio\nawait asyncio.sleep(0)\n{endless}", wall_s=1)
        after = box.run("kept")

    assert stopped.outcome == gb.Outcome.TIMEOUT
    assert stopped.state == "kept"
    assert after.value["text/plain"] == "'kept'"
