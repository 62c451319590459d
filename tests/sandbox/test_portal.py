"""The synchronous face: what its waiting does with signals."""

import asyncio
import signal
import subprocess
import sys
import threading
import time

import pytest

import groundbox as gb
from groundbox.sandbox.portal import PORTAL


def test_signals_that_another_thread_received_are_seen_one_by_one_while_waiting():
    seen = []

    def interrupted_twice():
        for _ in range(2):
            time.sleep(0.5)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        threading.Thread(target=interrupted_twice).start()
        gb.run("import time; time.sleep(2)")
    finally:
        signal.signal(signal.SIGINT, before)

    assert seen == [signal.SIGINT, signal.SIGINT]


def test_the_loop_can_be_asked_for_by_a_signals_handler_that_interrupts_asking_for_it():
    with PORTAL._lock:
        assert PORTAL.loop().is_running()


def test_a_timeout_of_the_work_itself_is_no_look_for_signals():
    async def work():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        PORTAL.call(work())


_TELLS_WHERE_IT_CLOSES = """
import os, threading
import groundbox as gb
from groundbox.sandbox.engine import Engine

close = Engine.close
Engine.close = lambda self: (os.write(1, threading.current_thread().name.encode() + b"\\n"), close(self))
gb.run("1", backend="bare")
if os.fork() == 0:
    raise SystemExit
os.wait()
"""


def test_at_exit_the_engine_closes_in_its_loops_thread_and_not_in_a_forks():
    # Python 3.12 and later warn of a fork beside threads, which is what is tried here.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _TELLS_WHERE_IT_CLOSES]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (ended.stdout, ended.stderr) == ("groundbox\n", "")


_LEAVES_A_GROUP_WITH_PAGES = """
import os, threading, time
import groundbox as gb
from groundbox.jail.cgroup import Cgroup
from groundbox.sandbox import engine

Cgroup.renewed, Cgroup.holds_pages = lambda self: None, lambda self: True
engine._SWEEP_S = 3600
gb.run("1", profile="bare")
time.sleep(0.3)
start = threading.Thread.start
threading.Thread.start = lambda self: (os.write(1, self.name.encode()), start(self))
"""


def test_at_exit_the_engine_starts_no_thread():
    command = [sys.executable, "-c", _LEAVES_A_GROUP_WITH_PAGES]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (ended.stdout, ended.stderr) == ("", "")


def test_work_can_be_awaited_from_any_event_loop():
    box = gb.Sandbox(profile="bare")

    texts = [asyncio.run(PORTAL.wait_for(box.asynchronous.run(source))).text for source in ("x = 1; x", "x + 1")]

    assert texts == ["1", "2"]


def test_who_is_cancelled_while_waiting_goes_on_once_the_work_has_ended():
    started, ended = threading.Event(), []

    async def work():
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    async def caller():
        waiting = asyncio.ensure_future(PORTAL.wait_for(work()))
        await asyncio.to_thread(started.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return list(ended)

    assert asyncio.run(caller()) == [True]
