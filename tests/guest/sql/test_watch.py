"""The watch on SIGINT, in this very process: it needs nothing of the guest's environment."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from groundbox.guest.sql.watch import Watch

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(n) FROM t"
ENDS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 100000) SELECT count(n) FROM t"


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def test_a_query_is_interrupted_and_the_next_one_is_not(connection):
    watch = Watch(connection.interrupt)
    before = signal.getsignal(signal.SIGINT)

    for _ in range(5):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises((sqlite3.OperationalError, KeyboardInterrupt)), watch:
            connection.execute(ENDLESS).fetchall()
        assert watch.heard
        with watch:
            assert connection.execute(ENDS).fetchall() == [(100000,)]
        assert not watch.heard

    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1


def _endless():
    while True:
        pass


def test_python_code_is_interrupted_too(connection):
    watch = Watch(connection.interrupt)

    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), watch:
        _endless()

    assert watch.heard


def test_signals_that_come_again_and_again_leave_it_closed(connection):
    watch = Watch(connection.interrupt)
    before = signal.getsignal(signal.SIGINT)
    over = threading.Event()

    def send():
        while not over.wait(0.001):
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sender = threading.Thread(target=send)
    sender.start()
    for _ in range(200):
        try:
            with watch:
                connection.execute("SELECT 1").fetchall()
        except (KeyboardInterrupt, sqlite3.OperationalError):
            continue
    over.set()
    sender.join()
    signal.signal(signal.SIGINT, before)

    assert connection.execute(ENDS).fetchall() == [(100000,)]


# In a process of its own, since sandboxes of other tests begin and end threads and descriptors in this one.
LEAVES = """
import os, sqlite3
from groundbox.guest.sql.watch import Watch
def held():
    return sorted(os.listdir("/proc/self/task")), sorted(os.listdir("/proc/self/fd"))
connection = sqlite3.connect(":memory:", isolation_level=None)
watch, before = Watch(connection.interrupt), held()
with watch:
    connection.execute("SELECT 1").fetchall()
    during = held()
kept = held()
watch.let_go()
print([len(now[each]) > len(before[each]) for now in (during, kept) for each in (0, 1)], held() == before)
"""


def test_letting_go_leaves_no_thread_and_no_pipe():
    told = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, check=True).stdout

    assert told == "[True, True, True, True] True\n"


def test_after_letting_go_the_next_query_is_interrupted(connection):
    watch = Watch(connection.interrupt)
    with watch:
        connection.execute(ENDS).fetchall()

    watch.let_go()
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises((sqlite3.OperationalError, KeyboardInterrupt)), watch:
        connection.execute(ENDLESS).fetchall()

    assert watch.heard
    watch.let_go()
    watch.let_go()


def test_a_pipe_that_a_cell_has_closed_or_exchanged_keeps_nobody_waiting(connection):
    closed, exchanged = Watch(connection.interrupt), Watch(connection.interrupt)
    nothing = os.open("/dev/null", os.O_WRONLY)
    for watch in (closed, exchanged):
        with watch:
            connection.execute(ENDS).fetchall()
    os.close(closed._writer)
    os.dup2(nothing, exchanged._writer)

    closed.let_go()
    exchanged.let_go()

    for watch in (closed, exchanged):
        with watch:
            assert connection.execute(ENDS).fetchall() == [(100000,)]
        watch.let_go()
    os.close(nothing)
