"""A loop that hangs ends its process; one that only seems to hang does not. How late a loop is, is counted."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.server.eventloop import EXIT_STATUS

PROGRAM = """
import asyncio, sys, threading, time
from groundbox.server import listening

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

lock = threading.Lock()

def hang():
    lock.acquire()
    lock.acquire()

def debugged():
    sys.settrace(lambda frame, event, arg: debugged_line)
    wait()

def debugged_line(frame, event, arg):
    return debugged_line

def wait():
    time.sleep(4)

def answer():
    print("answers", flush=True)
    act = {"hang": hang, "debug": debugged, "wait": lambda: None}[sys.argv[1]]
    asyncio.get_running_loop().call_later(0.3, act)
    asyncio.get_running_loop().call_later(0.6, lambda: print("went on", flush=True))

listening.serve(
    app, listening.bound("127.0.0.1", 0, may_be_public=False, secret="X"), ready=answer, silence_s=float(sys.argv[2])
)
"""


def started(act, silence_s):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, act, str(silence_s)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_loop_that_hangs_ends_its_process_with_the_stacks_of_all_threads():
    with started("hang", 2) as process:
        out, err = process.communicate(timeout=60)

    assert process.returncode == EXIT_STATUS
    assert "went on" not in out
    assert "the event loop has not run for" in err
    assert "in hang" in err
    assert err.count("hread 0x") >= 2


def test_a_loop_under_a_debugger_is_left_alone():
    with started("debug", 1) as process:
        lines = [process.stdout.readline(), process.stdout.readline()]
        process.terminate()
        _, err = process.communicate(timeout=60)

    assert lines == ["answers\n", "went on\n"]
    assert (process.returncode, "has not run" in err) == (0, False)


def test_time_in_which_the_process_is_stopped_does_not_count():
    with started("wait", 1) as process:
        assert process.stdout.readline() == "answers\n"
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            time.sleep(3)  # three times as long as the loop may be silent
            process.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        time.sleep(0.5)
        is_alive = process.poll() is None
        process.terminate()
        _, err = process.communicate(timeout=60)

    assert is_alive
    assert (process.returncode, "has not run" in err) == (0, False)


def test_a_stopped_loop_is_found_by_the_watchdog_and_by_nothing_else():
    with started("hang", 1000) as process:
        assert process.stdout.readline() == "answers\n"
        time.sleep(3)
        is_alive = process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)

    assert is_alive


def test_the_lag_of_the_loop_is_a_metric(client):
    def lines():
        return [line for line in client.get("/metrics").text.splitlines() if line.startswith("groundbox_loop_lag")]

    def count():
        return next(float(line.split()[1]) for line in lines() if line.startswith("groundbox_loop_lag_seconds_count"))

    before = count()
    deadline = time.monotonic() + 30
    while count() < before + 10 and time.monotonic() < deadline:
        time.sleep(0.1)

    assert count() >= before + 10
    assert any('le="0.05"' in line for line in lines())
