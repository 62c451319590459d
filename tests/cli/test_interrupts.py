"""Signals while a command's event loop runs."""

import asyncio
import os
import signal
from typing import Any

import pytest

from groundbox.cli.ending import Ended, tidy_end
from groundbox.cli.interrupts import run_until_signal


@pytest.fixture
def handlers():
    """Signals that a command of its own process would take."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("run", [run_until_signal, asyncio.run])
def test_a_signal_is_no_fault_of_the_task_that_runs_when_it_comes(handlers, run, number):
    faults: list[Any] = []
    undone = []

    async def busy():
        try:
            os.kill(os.getpid(), number)
            sum(range(10_000))  # the handler of a signal runs between two instructions, here at the latest
        except BaseException as fault:
            faults.append(fault)
            raise
        await asyncio.sleep(60)

    async def work():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        task = asyncio.ensure_future(busy())
        try:
            await asyncio.wait([task])
        finally:
            undone.append("undone")

    with pytest.raises(Ended) as ended, tidy_end():
        run(work())

    assert ended.value.number == number
    raised_inside = run is asyncio.run and number == signal.SIGTERM
    assert (bool(faults), undone) == (raised_inside, ["undone"])
