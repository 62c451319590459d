"""Code that runs at any moment: finalisers, exit handlers and signal handlers. None of it waits for a lock."""

import ast
import asyncio
import concurrent.futures.thread
import contextlib
import faulthandler
import gc
import logging
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import groundbox as gb
from groundbox.cli import warm
from groundbox.cli.ending import Ended
from groundbox.jail.openfiles import OpenFiles
from groundbox.learn.evaluation import harness
from groundbox.remote import sandbox as remote_sandbox
from groundbox.remote.checkpoint import RemoteCheckpoint, Unwanted
from groundbox.sandbox import output as outputs
from groundbox.sandbox.branching import Part
from groundbox.sandbox.memfile import Copy
from groundbox.sandbox.output import Output
from groundbox.sandbox.portal import PORTAL
from groundbox.sandbox.workdir import Workdir

SOURCES = Path(outputs.__file__).parents[1]
KNOWN = {
    # Finalisers
    "__del__ sandbox/output.py Output": "appends to a deque",
    "__del__ sandbox/branching.py Part": "closes a file in memory",
    "__del__ sandbox/branching.py Checkpoint": "call_soon_threadsafe",
    "__del__ sandbox/memfile.py Copy": "closes a file in memory",
    "__del__ sandbox/portal.py _Events": "call_soon_threadsafe",
    "__del__ sandbox/template.py Template": "closes a file in memory",
    "__del__ sandbox/workdir.py Workdir": "starts a bare thread",
    "__del__ jail/openfiles.py OpenFiles": "closes files of control groups",
    "__del__ remote/checkpoint.py RemoteCheckpoint": "appends to a list, call_soon_threadsafe",
    "finalize remote/sandbox.py _cancel": "call_soon_threadsafe",
    "finalize learn/evaluation/harness.py _end": "closes a pipe and kills",
    "TemporaryDirectory learn/evaluation/harness.py": "of the standard library: removes a folder of ours",
    # Exit handlers: they hold nothing, and each of their waits has a limit
    "atexit sandbox/engine.py self._close_at_exit": "waits 10 s at most for the loop",
    "Finalize dataset/hosts.py self._process.terminate": "kills",
    # Callbacks of the collector and of fork
    "gc testing/heartbeat.py self._collects": "adds two numbers; benchmarks use it",
    "fork guest/trace/guards.py self._after_in_parent": "in the guest: takes a note",
    "fork guest/trace/guards.py self._after_in_child": "in the guest: takes a note",
    "audit guest/trace/guards.py self._audit": "in the guest: takes a note",
    # Signal handlers
    "signal cli/ending.py _leave": "raises",
    "signal cli/entry.py forward": "sends a byte without waiting",
    "signal cli/entry.py handler": "puts back what was there",
    "signal cli/interrupts.py former[number]": "puts back what was there",
    "signal cli/repl.py former": "puts back what was there",
    "signal cli/repl.py interrupts": "raises, or call_soon_threadsafe",
    "signal cli/repl.py signal.default_int_handler": "raises",
    "signal cli/warm.py alarm": "puts back what was there",
    "signal cli/warm.py former[number]": "puts back what was there",
    "signal cli/warm.py give_up": "raises",
    "signal cli/warm.py take": "raises, or starts a bare thread",
    "signal dataset/cpu_time.py _stop": "raises",
    "signal dataset/cpu_time.py earlier": "puts back what was there",
    "signal guest/children.py self._note": "in the guest: writes to a pipe without waiting",
    "signal guest/parking.py handler": "puts back what was there",
    "signal guest/processes.py lambda number, frame: None": "does nothing",
    "signal guest/python/cells.py before": "puts back what was there",
    "signal guest/python/cells.py handler": "puts back what was there",
    "signal guest/python/cells.py self._sigint": "puts back what was there",
    "signal guest/python/orphans.py _look": "in the guest: reads /proc, and reaps without waiting",
    "signal guest/python/peek.py before": "puts back what was there",
    "signal guest/python/peek.py ring": "raises",
    "signal guest/python/remote_tests.py before": "puts back what was there",
    "signal guest/python/remote_tests.py ring": "raises",
    "signal guest/sql/watch.py self._before": "puts back what was there",
    "signal guest/sql/watch.py self._hear": "raises",
    "signal guest/worker.py signal.default_int_handler": "raises",
    "signal learn/training/trainer.py handler": "puts back what was there",
    "signal learn/training/trainer.py take": "takes a note",
    "signal notebook.py former": "puts back what was there",
    "signal notebook.py interrupt": "raises, or call_soon_threadsafe",
    "signal template/pidfds.py _look": "looks without waiting, and closes pipes",
}


def _calls_at_any_moment(path, tree):
    """Yield each finaliser, exit handler, collector callback and signal handler that a module installs."""
    managed = {id(item.context_expr) for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
            names |= {
                ast.unparse(target) for each in node.body if isinstance(each, ast.Assign) for target in each.targets
            }
            if "__del__" in names:
                yield f"__del__ {path} {node.name}"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).lstrip("_")
        given = [ast.unparse(each) for each in node.args]
        if name == "weakref.finalize" or name == "finalize":
            yield f"finalize {path} {given[1]}"
        elif name in ("weakref.ref", "weakref.proxy", "weakref.WeakMethod", "ref") and len(given) > 1:
            yield f"callback {path} {given[1]}"
        elif name in ("atexit.register", "threading._register_atexit"):
            yield f"atexit {path} {given[0]}"
        elif name.endswith("Finalize"):
            yield f"Finalize {path} {given[1]}"
        elif name == "gc.callbacks.append":
            yield f"gc {path} {given[0]}"
        elif name == "sys.addaudithook":
            yield f"audit {path} {given[0]}"
        elif name == "os.register_at_fork":
            yield from (f"fork {path} {ast.unparse(each.value)}" for each in node.keywords)
        elif name == "signal.signal" and not given[1].lstrip("_").startswith("signal.SIG_"):
            yield f"signal {path} {given[1]}"
        elif name.endswith("TemporaryDirectory") and id(node) not in managed:
            yield f"TemporaryDirectory {path}"


def _own_nodes(function):
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield child
            yield from _own_nodes(child)


def _parsed():
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_every_finaliser_exit_handler_and_signal_handler_is_known():
    found = {each for path, tree in _parsed() for each in _calls_at_any_moment(path, tree)}

    assert sorted(found - KNOWN.keys()) == []


def test_no_generator_waits_for_the_portal_when_it_is_collected():
    """The `finally` of a generator is a finaliser, too."""
    for path, tree in _parsed():
        for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
            if any("contextmanager" in ast.unparse(each) for each in function.decorator_list):
                continue
            nodes = list(_own_nodes(function))
            if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in nodes):
                ends = [line for each in nodes if isinstance(each, ast.Try) for line in each.finalbody]
                words = {
                    ast.unparse(call.func) for line in ends for call in ast.walk(line) if isinstance(call, ast.Call)
                }
                waits = {word for word in words if word.endswith((".call", ".join", ".wait", ".acquire", ".result"))}
                assert not waits, f"{path} {function.name}"


@contextlib.contextmanager
def _locks_held():
    """Hold every lock that a finaliser of ours, or what it calls, could want."""
    with contextlib.ExitStack() as held:
        for lock in (
            outputs._BUDGET._lock,
            PORTAL._lock,
            threading._active_limbo_lock,  # type: ignore[attr-defined]
            concurrent.futures.thread._global_shutdown_lock,
            logging._lock,  # type: ignore[attr-defined]
        ):
            held.enter_context(lock)
        yield


def _collected_with_locks_held(kept):
    """Drop everything in `kept` by the collector, in a thread that holds all locks."""
    cycle = [*kept]
    cycle.append(cycle)
    kept.clear()

    def collect():
        nonlocal cycle
        with _locks_held():
            del cycle
            gc.collect()

    _ends(collect)


def _ends(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(60)
    if thread.is_alive():
        faulthandler.dump_traceback()
    assert not thread.is_alive(), "it waits for a lock"


def test_a_result_that_is_collected_inside_the_budget_gives_its_bytes_back():
    before = outputs._BUDGET.take(0), outputs._BUDGET._left
    kept = Output(10)
    kept.add(b"x" * 100)
    assert outputs._BUDGET._left == before[1] - 100

    every = [kept]
    del kept
    _collected_with_locks_held(every)

    outputs._BUDGET.take(0)
    assert outputs._BUDGET._left == before[1]


def test_a_result_is_collected_at_every_point_inside_the_budget(monkeypatch):
    budget: Any = outputs._Budget(1000)

    class Lock:
        """The budget's lock, with a collection at each end of the time that it is held."""

        def __enter__(self):
            lock.acquire()
            gc.collect()

        def __exit__(self, *_):
            gc.collect()
            lock.release()

    lock, budget._lock = budget._lock, Lock()
    monkeypatch.setattr(outputs, "_BUDGET", budget)

    def work():
        for _ in range(20):
            kept: Any = Output(10)
            kept.add(b"x" * 100)
            kept.itself = kept
            del kept

    _ends(work)
    gc.collect()
    budget.take(0)

    assert budget._left == 1000


def _is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _comes(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_a_workdir_is_collected_without_waiting_for_a_thread(is_on_disk, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "file").write_text("x")
    kept = [Workdir(os.open(folder, os.O_RDONLY), str(folder) if is_on_disk else "")]
    kept[0].is_crowded = lambda: True
    descriptor = kept[0]._descriptor

    _collected_with_locks_held(kept)

    assert _comes(lambda: not _is_open(descriptor) and folder.exists() != is_on_disk)


def test_descriptors_are_closed_by_the_collector(tmp_path):
    (tmp_path / "file").write_text("x")
    files = OpenFiles()
    opened = files.descriptor(str(tmp_path / "file"), os.O_RDONLY)
    kept: list[Any] = [Part(), Copy(b"x"), files]
    descriptors = [kept[0].descriptor, kept[1].descriptor, opened]
    del files

    _collected_with_locks_held(kept)

    assert not any(map(_is_open, descriptors))


def test_a_checkpoint_is_collected_without_waiting():
    with gb.Sandbox(branching=True) as box:
        box.run("x = 1")
        kept = [box.checkpoint()]

        _collected_with_locks_held(kept)

        assert box.run("print(x)").stdout == "1\n"


def test_a_remote_checkpoint_and_a_hold_are_collected_without_waiting():
    asked = []

    class Connection:
        async def ask(self, method, path):
            asked.append((method, path))

    async def main():
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(asyncio.sleep(1000))
        connection: Any = Connection()
        kept = [RemoteCheckpoint(connection, "/checkpoint", Unwanted(connection))]
        await asyncio.to_thread(_collected_with_locks_held, kept)

        def cancel():
            with _locks_held():
                remote_sandbox._cancel(loop, task)

        await asyncio.to_thread(_ends, cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert asked == [("DELETE", "/checkpoint")]


def test_a_stream_may_be_collected_by_the_loop_that_it_needs():
    with gb.Sandbox() as box:
        events = box.stream("print('begun', flush=True)\nimport time\ntime.sleep(1000)")
        assert next(events).text.strip() == "begun"
        cycle: list[Any] = [events]
        cycle.append(cycle)
        del events

        async def collect():
            nonlocal cycle
            del cycle
            gc.collect()

        _ends(lambda: PORTAL.call(collect()))

        with pytest.raises(gb.SandboxLost, match="its run was cancelled"):
            box.run("1")


def test_a_stream_may_be_collected_with_all_locks_held():
    with gb.Sandbox() as box:
        kept = [box.stream("print('begun', flush=True)\nimport time\ntime.sleep(1000)")]
        next(kept[0])

        _collected_with_locks_held(kept)

        with pytest.raises(gb.SandboxLost, match="its run was cancelled"):
            box.run("1")


def test_a_process_that_scores_is_killed_and_not_waited_for(monkeypatch):
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=time.sleep, args=(1000,), daemon=True)
    process.start()
    theirs.close()

    def fail(*_):
        raise AssertionError("a finaliser waits")

    with monkeypatch.context() as patched:
        patched.setattr(process, "join", fail)
        harness._end(process, pipe)
    process.join(60)

    assert process.exitcode == -signal.SIGKILL


def test_an_interrupt_by_a_signal_needs_no_lock():
    with gb.Sandbox() as box:
        held, over = threading.Event(), threading.Event()

        def hold():
            with PORTAL._lock:
                held.set()
                over.wait(100)

        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        try:
            _ends(box.interrupt)
        finally:
            over.set()


@pytest.mark.timeout(120)
def test_a_signal_does_not_wait_for_an_engine_that_does_not_answer(tmp_path):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "engine"))
    listening.listen()
    came = []

    def interrupt_twice():
        with warm._heeding_signals(str(tmp_path / "engine"), "/v1/runs/1"):
            signal.raise_signal(signal.SIGINT)
            came.append("first")
            signal.raise_signal(signal.SIGINT)
            came.append("second")

    with listening, pytest.raises(Ended):
        interrupt_twice()

    assert came == ["first"]


_EXITS = """
import threading, time
import groundbox as gb
from groundbox.sandbox import engine, output
from groundbox.sandbox.portal import PORTAL
engine._CLOSING_S = 0.5
gb.run("1", backend="bare")
PORTAL.loop().call_soon_threadsafe(time.sleep, 1000)
output._BUDGET._lock.acquire()
PORTAL._lock.acquire()
"""


def test_a_process_ends_although_its_loop_is_stuck_and_its_locks_are_held():
    ended = subprocess.run([sys.executable, "-c", _EXITS], capture_output=True, text=True, timeout=120)

    assert ended.returncode == 0, ended.stderr
