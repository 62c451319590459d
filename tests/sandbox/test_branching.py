"""Checkpoints, undo and forks, as who uses them sees them."""

import asyncio
import contextlib
import errno
import gc
import json
import os
import threading
from typing import Any

import pytest

from groundbox import (
    AsyncSandbox,
    CheckpointLost,
    InvalidArgument,
    Limits,
    MiB,
    Network,
    Outcome,
    Sandbox,
    SandboxBusy,
    SandboxClosed,
    SandboxLost,
)
from groundbox.jail import cgroup, kernel
from groundbox.sandbox import branching
from groundbox.sandbox import engine as engines
from groundbox.sandbox.portal import PORTAL
from groundbox.sandbox.sandbox import load_of
from groundbox.sandbox.template import Template
from groundbox.sandbox.workdir import Workdir
from groundbox.testing.base import until

pytestmark = pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")


@pytest.fixture
def box():
    with Sandbox(profile="bare", branching=True) as made:
        yield made


def _said(box, source):
    execution = box.run(source)
    assert execution.outcome is Outcome.OK, execution.error
    return execution.stdout


def test_variables_files_and_surroundings_are_as_they_were(box):
    _said(
        box,
        "import os, sys, signal; numbers = [1]; os.makedirs('sub'); os.chdir('sub'); os.environ['NAME'] = 'before'\n"
        "open('/tmp/note', 'w').write('before'); open('file', 'w').write('before'); os.symlink('file', 'link')\n"
        "os.chmod('file', 0o600); os.umask(0o077); signal.signal(signal.SIGUSR1, lambda *_: print('heard'))",
    )
    state = box.checkpoint()
    _said(
        box,
        "numbers.append(2); os.environ['NAME'] = 'after'; open('/tmp/note', 'w').write('after'); os.unlink('file')\n"
        "os.unlink('link'); os.mkdir('link'); open('link/new', 'w').close(); os.chdir('/'); os.umask(0)\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
    )

    box.restore(state)

    told = _said(
        box,
        "print(numbers, os.getcwd(), os.environ['NAME'], open('/tmp/note').read(), open('link').read(), os.listdir())\n"
        "print(oct(os.stat('file').st_mode), oct(os.umask(0))); os.kill(1, signal.SIGUSR1)",
    )
    assert told.splitlines() == [
        "[1] /box/work/sub before before before ['file', 'link']",
        "0o100600 0o77",
        "heard",
    ]


def test_a_checkpoint_serves_more_than_once_and_states_may_branch(box):
    _said(box, "path = ['a']")
    first = box.checkpoint()
    _said(box, "path.append('b')")
    second = box.checkpoint()

    seen = []
    for state in (first, second, first, second):
        box.restore(state)
        seen.append(_said(box, "path.append('c'); print(*path)").strip())

    assert seen == ["a c", "a b c", "a c", "a b c"]


def test_a_restored_state_draws_the_same_numbers_and_forks_draw_others(box):
    _said(box, "import random; random.seed(1)")
    state = box.checkpoint()
    draw = "print(random.random())"
    first = _said(box, draw)

    box.restore(state)
    again = _said(box, draw)
    forks = box.fork(3)

    assert again == first
    assert len({*(_said(each, draw) for each in forks), _said(box, draw)}) == 4
    for each in forks:
        each.close()


def test_a_sandbox_in_which_shell_programs_ran_can_be_copied_at_once(box):
    """One waits for the next, and was started by a thread beside the worker's own."""
    for _ in range(5):
        for number in range(3):
            box.run(f"echo {number}", language="shell")
        box.checkpoint().drop()


def test_why_a_failed_run_was_not_taken_back_is_told():
    with Sandbox(profile="bare", rollback="on_error") as made:
        made.run("import threading, time; threading.Thread(target=time.sleep, args=(9,), name='idler').start()")

        (warning,) = made.run("1 / 0").warnings

    assert warning.code == "session.not_rolled_back"
    assert "idler" in warning.message


def test_forks_draw_others_also_where_random_was_imported_anew(box):
    _said(box, "import sys; del sys.modules['random']; import random")
    forks = box.fork(3)

    assert len({_said(each, "print(random.random())") for each in forks}) == 3
    for each in forks:
        each.close()


_DRAWS = {
    "sqlite3": (
        "import sqlite3; base = sqlite3.connect(':memory:'); base.execute('SELECT random()')",
        "[each.execute('SELECT random()').fetchone() for each in (base, sqlite3.connect(':memory:'))]",
    ),
    "uuid": ("import uuid; uuid.uuid1()", "[uuid.uuid1().node, uuid.uuid1().clock_seq_low, uuid.getnode()]"),
    "multiprocessing": ("import multiprocessing", "bytes(multiprocessing.current_process().authkey).hex()"),
    "tempfile": ("import tempfile; tempfile.mktemp()", "tempfile.mktemp()"),
    "duckdb": (
        "import duckdb\n"
        "own = [duckdb.connect(config={'threads': 1, 'async_threads': 0}) for _ in 'ab']\n"
        "for each in own: each.sql('SELECT random()').fetchall()",
        "[own[1].sql('SELECT random(), uuid()').fetchall()]",
    ),
    "numpy": ("import numpy; numpy.random.rand()", "numpy.random.rand()"),
    "numpy.random": (
        "import numpy; numpy.random.set_bit_generator(numpy.random.PCG64()); numpy.random.rand()",
        "numpy.random.rand()",
    ),
}


@pytest.mark.parametrize("name", _DRAWS)
def test_forks_draw_other_numbers_from_libraries_that_drew_before(name):
    before, draw = _DRAWS[name]
    with Sandbox(profile="science" if name in ("numpy", "numpy.random") else None, branching=True) as box:
        _said(box, before)
        state = box.checkpoint()
        forks = box.fork(2)
        drawn = [_said(each, f"print({draw})") for each in (box, *forks)]
        box.restore(state)
        again = _said(box, f"print({draw})")
        for each in forks:
            each.close()

    assert len(set(drawn)) == 3
    if name not in ("uuid", "tempfile"):  # which also go by the clock and by what is there
        assert again == drawn[0]


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_forks_draw_other_numbers_in_sql(dialect):
    options: Any = {} if dialect == "duckdb" else {"dialect": "sqlite"}
    ask = "SELECT random() AS number" + (", uuid() AS id" if dialect == "duckdb" else ", hex(randomblob(8)) AS id")
    with Sandbox(branching=True) as box:
        box.run(ask, language="sql", **options)
        forks = box.fork(2)
        drawn = [each.run(ask, language="sql", **options).text for each in (box, *forks)]
        for each in forks:
            each.close()

    assert len(set(drawn)) == 3


def test_a_result_that_is_half_read_survives_a_fork():
    with Sandbox(branching=True) as box:
        _said(
            box,
            "import duckdb; base = duckdb.connect(config={'threads': 1, 'async_threads': 0})\n"
            "base.execute('FROM range(9)').fetchone()",
        )
        [fork] = box.fork(1)
        read = [_said(each, "print(base.fetchmany(2))") for each in (box, fork)]
        fork.close()

    assert read == ["[(1,), (2,)]\n"] * 2


_MAKES = """
import contextlib, os
def set_attribute(*given):
    with contextlib.suppress(OSError):  # before Linux 6.6 a tmpfs has none
        os.setxattr(*given)
os.makedirs("d/e", exist_ok=True); os.chmod("d", 0o555); os.mkfifo("p"); os.symlink("f", "l"); os.mkdir("/tmp/t")
for path in ("f", "d/../g", "/tmp/t/z", "/dev/shm/s"): open(path, "w").write(path)
set_attribute("f", "user.kept", b"kept"); set_attribute("d/e", "user.kept", b"kept"); os.utime("g", ns=(5, 7))
os.utime("d/e", ns=(11, 13)); os.utime("p", ns=(17, 19)); os.utime("l", ns=(23, 29), follow_symlinks=False)
"""
_LOOKS = """
import os
seen = {}
for path in (".", "d", "d/e", "f", "g", "p", "l", "/tmp", "/tmp/t", "/tmp/t/z", "/dev/shm", "/dev/shm/s", ".."):
    found = os.lstat(path)
    names = () if path == "l" else os.listxattr(path)
    seen[path] = found.st_mode, found.st_atime_ns, found.st_mtime_ns, {n: os.getxattr(path, n) for n in names}
print(seen)
"""
_CHANGES = """
for path in (".", "d", "d/e", "f", "g", "p", "/tmp", "/tmp/t", "/tmp/t/z", "/dev/shm", "/dev/shm/s"):
    mode = os.stat(path).st_mode
    os.chmod(path, 0o777)
    if path != "p":
        set_attribute(path, "user.secret", b"secret")
    if "user.kept" in os.listxattr(path):
        set_attribute(path, "user.kept", b"changed")
    os.chmod(path, mode | 0o010)
    os.utime(path, ns=(1234567890, 9876543210))
os.utime("l", ns=(1234567890, 9876543210), follow_symlinks=False)
"""


def test_attributes_modes_and_times_are_as_they_were(box):
    _said(box, _MAKES)
    before = _said(box, _LOOKS)
    state = box.checkpoint()
    changed = _said(box, _CHANGES + _LOOKS)

    box.restore(state)
    once = _said(box, _LOOKS)
    _said(box, "for path in ('f', 'g', 'd/e'): open(path).read() if path != 'd/e' else os.listdir(path)")
    box.restore(state)
    twice = _said(box, _LOOKS)
    [fork] = box.fork(1)
    in_a_fork = _said(fork, _LOOKS)
    fork.close()

    assert changed != before
    assert once == before
    assert twice == before
    assert in_a_fork == before


def test_files_of_a_folder_without_write_permission_are_put_back(box):
    _said(box, "import os; os.mkdir('d'); open('d/f', 'w').write('before'); os.chmod('d', 0o555)")
    state = box.checkpoint()
    _said(box, "os.chmod('d', 0o755); os.unlink('d/f'); os.rmdir('d')")

    box.restore(state)

    assert _said(box, "print(open('d/f').read(), oct(os.stat('d').st_mode))") == "before 0o40555\n"


def test_keys_of_copies_differ_although_all_are_process_1(box):
    """OpenSSL tells copies apart by their process ids, so that each would make the same keys and nonces."""
    _said(box, "import ssl; ssl.RAND_bytes(1)")
    state, draw = box.checkpoint(), "print(ssl.RAND_bytes(8).hex())"

    forks = box.fork(2)
    drawn = [_said(each, draw) for each in (box, *forks)]
    for _ in range(2):
        box.restore(state)
        drawn.append(_said(box, draw))

    assert len(set(drawn)) == 5
    for each in forks:
        each.close()


def test_a_copy_of_a_sandbox_that_has_run_nothing_has_the_limits_of_a_run():
    """They are set ahead of the first run in who is copied, and the kernel does not copy them; -1 is none."""
    look = "import resource as r; print(*(r.getrlimit(each)[0] > 0 for each in (r.RLIMIT_DATA, r.RLIMIT_CPU)))"
    with Sandbox(profile="bare", branching=True) as box:
        box.files.write("file", b"x")
        (fork,) = box.fork(1)
        box.restore(box.checkpoint())

        assert [_said(each, look) for each in (box, fork)] == ["True True\n"] * 2
        fork.close()


def test_signals_that_come_while_it_stands_still_spoil_no_copy(box):
    """Who leaves the place where it stands would write over the stack that its copies go on with."""
    ring = "signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)"
    _said(box, f"import signal; rung = []; signal.signal(signal.SIGALRM, lambda *_: rung.append(1)); {ring}")

    seen = []
    for _ in range(4):
        box.restore(box.checkpoint())
        seen.append(_said(box, f"print(len(rung) > 0); {ring}"))

    assert seen == ["True\n"] * 4


def test_files_that_were_open_are_open_at_the_same_place(box):
    _said(box, "log = open('log', 'a'); log.write('one\\n'); log.flush()\nreader = open('log'); reader.readline()")
    state = box.checkpoint()
    _said(box, "log.write('two\\n'); log.flush(); log.close(); reader.close()")

    box.restore(state)

    assert _said(box, "log.write('three\\n'); log.flush(); print(reader.read(), end='')") == "three\n"


def test_writing_through_a_mapping_is_noticed_without_a_new_size_or_call(box):
    _said(box, "import mmap; open('data', 'wb').write(b'a' * 5000)")
    state = box.checkpoint()
    _said(
        box,
        "file = open('data', 'r+b'); view = mmap.mmap(file.fileno(), 5000)\n"
        "view[4500:4501] = b'z'; view.close(); file.close()",
    )

    box.restore(state)

    assert _said(box, "print(set(open('data', 'rb').read()))") == "{97}\n"


def test_what_a_process_writes_until_its_end_is_not_in_the_files_that_are_put_back(box):
    """Its memory takes the kernel a while, for which nobody waits; that nothing of it runs any more is waited for."""
    _said(box, "import os; open('f', 'w').write('before'); held = bytearray(50 << 20)")
    state = box.checkpoint()
    for _ in range(10):
        _said(
            box,
            "for _ in range(30):\n if os.fork() == 0:\n  while True:\n"
            "   with open('f', 'w') as file: file.write('after')\n   open(f'new-{os.getpid()}', 'w').close()",
        )
        box.restore(state)
        assert _said(box, "print(open('f').read(), os.listdir())") == "before ['f']\n"


def test_holes_hard_links_and_pipes_are_put_back(box):
    _said(
        box,
        "import os\nwith open('holes', 'wb') as f: f.seek(1 << 30); f.write(b'end')\n"
        "open('one', 'w').write('x'); os.link('one', 'two'); os.mkfifo('pipe')",
    )
    state = box.checkpoint()
    _said(box, "for name in os.listdir(): os.unlink(name)")

    box.restore(state)

    told = _said(
        box,
        "import stat; s = os.stat('holes'); print(s.st_size, s.st_blocks < 100, os.stat('one').st_nlink,\n"
        "stat.S_ISFIFO(os.stat('pipe').st_mode), open('two').read())",
    )
    assert told == f"{(1 << 30) + 3} True 2 True x\n"


def test_going_back_works_when_the_process_has_ended_or_hangs(box):
    _said(box, "x = 'kept'; open('file', 'w').write('kept')")
    state = box.checkpoint()

    ended = box.run("open('file', 'w').write('lost'); import os; os._exit(3)")
    with pytest.raises(SandboxLost):
        box.run("x")
    box.restore(state)
    after_exit = _said(box, "print(x, open('file').read())")
    late = box.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", wall_s=0.3)
    box.restore(state)

    assert (ended.outcome, late.outcome) == (Outcome.ERROR, Outcome.TIMEOUT)
    assert [after_exit, _said(box, "print(x, open('file').read())")] == ["kept kept\n"] * 2


GREEDY = """
import mmap
more = mmap.mmap(-1, 400 << 20)
for at in range(0, len(more), 4096): more[at] = 1
"""


def test_at_the_limit_of_memory_what_runs_is_ended_and_not_the_checkpoint():
    with Sandbox(profile="bare", branching=True, limits=Limits(memory_bytes=200 * MiB)) as box:
        _said(box, "x = bytearray(60 << 20); x[:] = bytes([1]) * len(x)")
        states = [box.checkpoint() for _ in range(3)]
        execution = box.run(GREEDY)

        assert execution.outcome is Outcome.MEMORY
        assert [state.lost for state in states] == [""] * 3
        box.restore(states[1])
        assert _said(box, "print(len(x), x[-1])") == f"{60 << 20} 1\n"


MANY = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        x = bytearray(b"1") * (12 << 20)
        time.sleep(60)
time.sleep(3)
"""


def test_at_the_limit_of_memory_a_large_checkpoint_outlives_many_small_processes():
    """Left to itself, the kernel would end the largest process, which is the checkpoint."""
    with Sandbox(profile="bare", branching=True, limits=Limits(memory_bytes=200 * MiB)) as box:
        _said(box, "x = bytearray(b'1') * (110 << 20)")
        state = box.checkpoint()
        box.run("del x\n" + MANY)

        assert state.lost == ""
        box.restore(state)
        assert _said(box, "print(len(x))") == f"{110 << 20}\n"


def test_after_a_restart_a_checkpoint_of_before_still_serves(box):
    _said(box, "x = 1; open('file', 'w').write('one')")
    state = box.checkpoint()
    box.restart()
    _said(box, "open('file', 'w').write('two')")

    box.restore(state)

    assert _said(box, "print(x, open('file').read())") == "1 one\n"


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_tables_go_along(box, dialect):
    def asked(sandbox, query):
        execution = sandbox.run(query, language="sql", dialect=dialect)
        assert execution.outcome is Outcome.OK, execution.error
        return execution.text.split()

    asked(box, "CREATE TABLE kept AS SELECT 7 AS a")
    state = box.checkpoint()
    asked(box, "DROP TABLE kept; CREATE TABLE later AS SELECT 8 AS a")
    (fork,) = box.fork(1)

    box.restore(state)

    assert "7" in asked(box, "SELECT a FROM kept")
    assert "8" in asked(fork, "SELECT a FROM later")
    fork.close()


THREAD = "import threading, time; threading.Thread(target=time.sleep, args=(60,), name='waits', daemon=True).start()"
MAPPED = "import mmap; f = open('f', 'w+b'); f.truncate(9); shared = mmap.mmap(f.fileno(), 9)"
TASK = """
import asyncio
async def wait(): await asyncio.sleep(60)
task = asyncio.ensure_future(wait())
await asyncio.sleep(0)
"""


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (THREAD, "thread waits"),
        ("import subprocess; child = subprocess.Popen(['sleep', '60'])", "process sleep"),
        ("import socket; pair = socket.socketpair()", "open socket"),
        ("import os; ends = os.pipe()", "open pipe"),
        ("import tempfile; file = tempfile.TemporaryFile()", "open file without a name"),
        ("import mmap; shared = mmap.mmap(-1, 4096)", "memory is shared"),
        (MAPPED, "memory is shared"),
        (TASK, "open"),
    ],
)
def test_what_cannot_go_along_is_named_and_the_sandbox_goes_on(box, source, why):
    _said(box, f"x = 1\n{source}")

    with pytest.raises(SandboxBusy, match=why):
        box.checkpoint()

    assert _said(box, "print(x)") == "1\n"


def test_after_an_await_that_is_over_nothing_is_in_the_way(box):
    _said(box, "import asyncio; await asyncio.sleep(0); x = 1")
    state = box.checkpoint()
    _said(box, "x = 2")

    box.restore(state)

    assert _said(box, "await asyncio.sleep(0); print(x)") == "1\n"


def test_undo_goes_back_run_by_run_as_far_as_states_are_kept():
    with Sandbox(profile="bare", undo=3) as box:
        for number in range(6):
            _said(box, f"x = {number}")

        box.undo()
        one = _said(box, "print(x)")
        box.undo(2)
        more = _said(box, "print(x)")

        assert (one, more) == ("4\n", "3\n")
        with pytest.raises(InvalidArgument, match="n: is 9, and"):
            box.undo(9)


def test_after_an_error_half_done_work_is_put_back_where_that_is_asked_for():
    with Sandbox(profile="bare", rollback="on_error") as box:
        _said(box, "items = []")
        failed = box.run("items.append(1); open('half', 'w').write('done'); 1 / 0")
        ended = box.run("import os; items.append(2); os._exit(1)")

        assert [failed.error.type, failed.state, ended.state] == ["ZeroDivisionError", "kept", "kept"]
        assert [[each.code for each in execution.warnings] for execution in (failed, ended)] == [
            ["session.rolled_back"]
        ] * 2
        assert _said(box, "import os; print(items, os.listdir())") == "[] []\n"


def test_undo_of_a_closed_sandbox_says_that_it_is_closed():
    with Sandbox(profile="bare", undo=2) as box:
        _said(box, "1")

    with pytest.raises(SandboxClosed):
        box.undo()


async def _cancelled(times, **options):
    """What a sandbox holds after a run in it was cancelled, and whether the task was told as cancelled."""
    async with AsyncSandbox(profile="bare", rollback="on_error", **options) as box:
        await box.run("items = []")
        begun = asyncio.Event()

        async def follow():
            async for _event in box.stream(
                "items.append(1); open('half', 'w').write('done'); print(flush=True)\n9**9**9"
            ):
                begun.set()

        task = asyncio.ensure_future(follow())
        await begun.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0.001)
        await asyncio.wait([task])
        first = (await box.run("import os; items, os.listdir()")).text
        return task.cancelled(), first, await _undone(box) if options else None


async def _undone(box):
    await box.undo(2)
    return (await box.run("'items' in globals()")).text


@pytest.mark.parametrize("times", [1, 5])
def test_a_cancelled_run_is_taken_back_too_where_that_is_asked_for(times):
    assert asyncio.run(_cancelled(times)) == (True, "([], [])", None)
    # Its state for `undo` went with it: the second last run that counts is the first one.
    assert asyncio.run(_cancelled(times, undo=4)) == (True, "([], [])", "False")


def test_forks_have_the_state_and_share_nothing():
    with Sandbox(profile="bare", branching=True, limits=Limits(process_count=20)) as box:
        _said(box, "import os; x = [0]; open('file', 'w').write('root'); os.makedirs('/tmp/deep/er')")
        forks = box.fork(3)
        for number, each in enumerate(forks):
            _said(each, f"x.append({number}); open('file', 'w').write('{number}')")

        told = [
            _said(each, "print(x, open('file').read(), os.getpid(), os.path.isdir('/tmp/deep/er'))") for each in forks
        ]
        uids = {_said(each, "print(os.getuid())") for each in (box, *forks)}

        assert told == [f"[0, {number}] {number} 1 True\n" for number in range(3)]
        assert _said(box, "print(x, open('file').read())") == "[0] root\n"
        assert len(uids) == (4 if os.geteuid() == 0 else 1)
        assert forks[0].limits == box.limits
        box.close()
        again = forks[0].fork(1)[0]
        assert _said(again, "print(x)") == "[0, 0]\n"
        for each in (*forks, again):
            each.close()


def test_a_fork_and_a_restored_state_tell_of_new_files_only(box):
    _said(box, "open('old', 'w').write('x')")
    state = box.checkpoint()
    box.restore(state)
    fork = box.fork(1)[0]

    executions = [each.run("open('new', 'w').write('x')") for each in (box, fork)]

    assert [list(each.artifacts) for each in executions] == [["new"], ["new"]]
    fork.close()


def test_what_is_dropped_or_closed_is_told(box):
    _said(box, "x = 1")
    first, second = box.checkpoint(), box.checkpoint()
    first.drop()
    other = box.fork(1)[0]

    with pytest.raises(CheckpointLost, match="it was dropped"):
        box.restore(first)
    with pytest.raises(InvalidArgument, match="of another sandbox"):
        other.restore(second)
    other.close()
    box.close()
    with pytest.raises(CheckpointLost, match="its sandbox was closed"):
        box.restore(second)
    with pytest.raises(SandboxClosed):
        box.checkpoint()


def test_a_sandbox_that_was_not_made_for_it_says_so():
    with Sandbox(profile="bare") as begun:
        begun.run("x = 1")
        with pytest.raises(InvalidArgument, match="branching: .*Sandbox\\(branching=True\\)"):
            begun.checkpoint()
    with Sandbox(profile="bare") as fresh:
        state = fresh.checkpoint()
        fresh.run("x = 1")
        fresh.restore(state)
        assert fresh.run("x").error.type == "NameError"
    wrong: list[dict[str, Any]] = [
        {"undo": -1},
        {"undo": True},
        {"undo": 1000},
        {"rollback": "always"},
        {"branching": 1},
    ]
    for options in ({"backend": "landlock"}, {"waive": ["seccomp"]}, {"network": Network(loopback=True)}):
        with pytest.raises(InvalidArgument, match="branching"):
            Sandbox(profile="bare", branching=True, **options)
    for options in wrong:
        with pytest.raises(InvalidArgument):
            Sandbox(profile="bare", **options)


FORKS = """
made = 0
for _ in range(9):
    try:
        if os.fork() == 0: os.execvp('sleep', ['sleep', '9'])
        made += 1
    except OSError: break
print(made)
"""


def test_checkpoints_are_no_processes_of_the_sandbox_and_count_as_its_memory():
    with Sandbox(profile="bare", branching=True, limits=Limits(process_count=6)) as box:
        _said(box, "import os; data = os.urandom(30 << 20)")
        before = box.asynchronous._loan.worker.load()
        states = [box.checkpoint() for _ in range(12)]
        _said(box, "data = os.urandom(30 << 20)")  # what the checkpoints hold is held beside it
        assert until(lambda: len(states[-1]._copies) == 2 and states[-1]._copies[1].answered.done())
        after = box.asynchronous._loan.worker.load()

        assert (before.process_count, after.process_count) == (1, 1)
        assert after.memory_bytes - before.memory_bytes > 25 * MiB
        assert _said(box, FORKS) == "5\n"
        assert len({state.lost for state in states}) == 1


def _copies(box):
    """Copies that the template keeps of this sandbox, spare ones among them."""
    return [kept for kept in box.asynchronous._loan.template._kept.values() if not kept.refusal]


def test_a_spare_copy_of_the_last_checkpoint_serves_one_going_back_and_then_there_is_another(box):
    _said(box, "x = 1; open('f', 'w').write('one')")
    first, second = box.checkpoint(), box.checkpoint()
    spared = second._copies

    assert until(lambda: len(spared) == 2 and spared[1].answered.done())
    assert first._copies == [first._kept]  # of one checkpoint at a time
    spare = spared[1]
    for number in range(3):
        _said(box, "x = 2; open('f', 'w').write('two')")
        box.restore(second)
        assert _said(box, "print(x, open('f').read())") == "1 one\n"
        if not number:
            assert spare not in spared  # it is the sandbox now
        assert until(lambda: len(spared) == 2)
    assert until(lambda: spared[1].answered.done() and box.asynchronous._loan.worker.load().process_count == 1)
    second.drop()
    assert until(lambda: _copies(box) == [first._kept])
    box.restore(first)
    assert _said(box, "print(x, open('f').read())") == "1 one\n"


def test_without_a_spare_copy_going_back_makes_its_own(box, monkeypatch):
    _said(box, "x = 1")
    state = box.checkpoint()
    assert until(lambda: len(state._copies) == 2)

    state._copies[1].has_gone("the kernel has ended it")
    box.run("x = 2")
    box.restore(state)

    assert _said(box, "print(x)") == "1\n"


def test_a_spare_copy_that_is_still_to_come_hides_no_process_of_the_guest(box, monkeypatch):
    """That nothing else runs while a guest is copied is asked of its group, less what is ours in there."""
    ask, held = Template._ask, []

    def late(self, identity, order, descriptors):
        told = json.loads(order)
        if told.get("op") == "keep" and told["of"] in self._kept:
            held.append(lambda: ask(self, identity, order, descriptors))
        else:
            ask(self, identity, order, descriptors)

    monkeypatch.setattr(Template, "_ask", late)
    state = box.checkpoint()
    group = box.asynchronous._loan.worker.cgroup

    assert until(lambda: bool(held))
    assert group.process_count() == 1
    PORTAL.loop().call_soon_threadsafe(held[0])
    assert until(lambda: state._copies[1].answered.done() and group.keepers == 3)
    assert group.process_count() == 1


def test_there_is_no_spare_copy_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(branching, "_SPARE_AFTER_S", 0.0)
    with Sandbox(profile="bare", branching=True, limits=Limits(memory_bytes=64 * MiB)) as box:
        few = box.checkpoint()
        assert until(lambda: len(few._copies) == 2)
        few.drop()
        _said(box, f"held = bytearray({48 * MiB})")
        many = box.checkpoint()
        _said(box, "1")  # the lock was free meanwhile

        assert not until(lambda: len(many._copies) == 2, within_s=0.3)


def _below(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += map(int, file.read().split())
    return found + [below for each in found for below in _below(each)]


def _descriptors(pid):
    """But for what is kept open for the next sandboxes: files of control groups, and empty networks."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/{pid}/fd/{name}")
            count += "cgroup" not in link and not link.startswith("net:")
    return count


def _held(box, engine):
    """What there is on this host, without the workers that wait in the pool."""
    waiting = box._loan.pool.waiting
    processes = _below(box._loan.template.pid)
    mounts = {os.readlink(f"/proc/{pid}/ns/mnt") for pid in processes}
    groups = sum(name.isdigit() for name in os.listdir(engine._cgroups.folders()[0])) - len(engine._spare)
    return {
        "processes": len(processes) - 2 * waiting,
        "mount namespaces": len(mounts) - 2 * waiting,
        "descriptors of the template": max(map(_descriptors, processes)) - 3 * waiting,
        "descriptors of ours": _descriptors(os.getpid()) - 5 * waiting,
        "groups": groups - waiting,
        "memory of the sandbox": load_of(box).memory_bytes,
    }


async def _round_after_round(cycles, forks):
    async with AsyncSandbox(profile="bare", branching=True, hash_seed=4711) as box:
        await box.run("x = 0; open('f', 'w').write('x')")
        engine = await engines.current()

        async def settled():
            for _ in range(200):
                gc.collect()
                await asyncio.sleep(0.05)
                if all(each.is_ready for each in box._loan.pool._waiting) and not engine._leaving and not engine._full:
                    break
            return _held(box, engine)

        async def go(cycles, forks):
            for number in range(cycles):
                state = await box.checkpoint()
                await box.run(f"x += 1; open('f', 'w').write(str(x) * {number % 7})")
                if number % 10 < 2:  # so that there is a spare copy, which is gone back to or dropped
                    await asyncio.sleep(2 * branching._SPARE_AFTER_S)
                if number % 2:
                    await box.restore(state)
                state.drop()
            for _ in range(forks):
                (fork,) = await box.fork(1)
                await fork.close()

        await go(4, 4)
        before = await settled()
        await go(cycles, forks)
        after = await settled()
        for _ in range(20):  # what has just ended may still be going
            if not _more(before, after):
                break
            after = await settled()
        return _more(before, after)


def _more(before, after):
    """What has grown, and by how much. Of memory, what a few runs may take is let pass."""
    room = {"memory of the sandbox": 8 * MiB}
    return {name: after[name] - count for name, count in before.items() if after[name] - count > room.get(name, 0)}


@pytest.mark.alone
@pytest.mark.parametrize(
    ("cycles", "forks"),
    [(100, 30), pytest.param(1000, 200, marks=pytest.mark.slow), pytest.param(10_000, 1000, marks=pytest.mark.soak)],
)
@pytest.mark.timeout(3600)
def test_nothing_is_left_of_what_was_dropped(cycles, forks):
    more = asyncio.run(_round_after_round(cycles, forks))

    assert more == {}


def test_after_a_refusal_files_of_the_next_checkpoint_are_its_own(box, monkeypatch):
    """The worker had written its files down already when something was in the way; its parts are begun anew then."""
    _said(box, "open('file', 'w').write('first')")
    first = box.checkpoint()
    _said(box, "open('file', 'w').write('second')")
    monkeypatch.setattr(cgroup.Cgroup, "process_count", lambda self: 2)
    with pytest.raises(SandboxBusy):
        box.checkpoint()
    monkeypatch.undo()
    second = box.checkpoint()

    seen = []
    for state in (first, second):
        box.restore(state)
        seen.append(_said(box, "print(open('file').read())"))

    assert seen == ["first\n", "second\n"]


@pytest.mark.parametrize("has_spare", [False, True])
def test_where_going_back_cannot_begin_the_sandbox_goes_on_within_its_bounds(box, monkeypatch, has_spare):
    monkeypatch.setattr(branching, "_SPARE_AFTER_S", 0.0 if has_spare else 3600.0)
    _said(box, "x = 1")
    state, worker = box.checkpoint(), box.asynchronous._loan.worker
    group = worker.cgroup
    assert until(lambda: group.keepers == 2 + has_spare)
    monkeypatch.setattr(branching, "_SPARE_AFTER_S", 3600.0)
    _said(box, "x = 2")

    def refuse(*given, **told):
        raise OSError(errno.EMFILE, "no descriptors are left")

    with monkeypatch.context() as patched:
        patched.setattr(Template, "branch", refuse)
        with pytest.raises(OSError, match="no descriptors"):
            box.restore(state)

    assert until(lambda: group.keepers == 2)
    assert (worker.cgroup, _said(box, "print(x)")) == (group, "2\n")
    box.restore(state)
    assert (group.keepers, _said(box, "print(x)")) == (2, "1\n")


def test_a_template_that_cannot_be_asked_leaves_nothing_counted(box, monkeypatch):
    """Where it has just died, the answer comes before anybody could wait for one."""
    monkeypatch.setattr(branching, "_SPARE_AFTER_S", 3600.0)
    _said(box, "x = 1")
    group = box.asynchronous._loan.worker.cgroup

    with monkeypatch.context() as patched:
        patched.setattr(Template, "_ask", lambda self, identity, *_: self._refuse(identity, "the template is gone"))
        with pytest.raises(SandboxBusy, match="the template is gone"):
            box.checkpoint()
    state = box.checkpoint()

    assert group.keepers == 2
    state.drop()
    assert until(lambda: group.keepers == 1)


def test_a_result_is_told_also_where_going_back_after_it_cannot_begin(monkeypatch):
    def refuse(*given, **told):
        raise OSError(errno.EMFILE, "no descriptors are left")

    monkeypatch.setattr(Template, "branch", refuse)
    with Sandbox(profile="bare", rollback="on_error") as box:
        failed = box.run("x = 1; x / 0")

        assert failed.error.type == "ZeroDivisionError"
        assert [(each.code, each.message) for each in failed.warnings] == [
            ("session.not_rolled_back", "going back could not begin: no descriptors are left")
        ]
        assert _said(box, "print(x)") == "1\n"


def test_checkpoints_end_with_whoever_had_them(box):
    _said(box, "x = 1")
    group = box.asynchronous._loan.worker.cgroup
    states = [box.checkpoint() for _ in range(5)]
    held = group.keepers

    del states
    gc.collect()

    assert held == 6
    assert until(lambda: group.keepers == 1)


async def _closed_meanwhile(at_s):
    """What becomes of forks whose origin is closed while they are made, and how many processes are left."""
    async with AsyncSandbox(profile="bare", branching=True, hash_seed=4712) as box:
        await box.run("open('file', 'w').write('x')")
        template = box._loan.template
        forking = asyncio.ensure_future(box.fork(3))
        await asyncio.sleep(at_s)
        await box.close()
        try:
            told = "".join([(await each.run("print(open('file').read())")).stdout for each in await forking])
            for each in forking.result():
                await each.close()
        except SandboxClosed:
            told = "closed"
        del forking
        for _ in range(100):
            gc.collect()
            await asyncio.sleep(0.02)
            if not template._kept:
                break
        return told in ("closed", "x\nx\nx\n"), len(template._kept)


@pytest.mark.parametrize("at_s", [0.002, 0.01, 0.02, 0.04])
def test_closing_the_origin_while_forks_are_made_is_told_as_that(at_s):
    assert asyncio.run(_closed_meanwhile(at_s)) == (True, 0)


async def _closed_while(action, at_s):
    async with AsyncSandbox(profile="bare", branching=True, hash_seed=4712) as box:
        await box.run("data = bytearray(b'x') * (64 << 20); open('file', 'w').write('x')")
        template, state = box._loan.template, await box.checkpoint()
        doing = asyncio.ensure_future({"checkpoint": box.checkpoint, "restore": lambda: box.restore(state)}[action]())
        await asyncio.sleep(at_s)
        await box.close()
        with contextlib.suppress(SandboxClosed):
            await doing
        del doing
        for _ in range(100):
            gc.collect()
            await asyncio.sleep(0.02)
            if not template._kept:
                break
        return len(template._kept), len((await engines.current())._held)


@pytest.mark.parametrize("at_s", [0.001, 0.003, 0.006])
@pytest.mark.parametrize("action", ["checkpoint", "restore"])
def test_closing_it_meanwhile_is_told_as_that_and_nothing_is_left(action, at_s):
    assert asyncio.run(_closed_while(action, at_s)) == (0, 0)


def test_many_checkpoints_are_in_no_other_sandboxes_way():
    """Their descriptors are the template's, and more than a guest may have, who begins with a copy of all."""
    with Sandbox(profile="bare", branching=True) as first, Sandbox(profile="bare", branching=True) as second:
        _said(second, "x = 1")
        states = [each.checkpoint() for each in (first, second) for _ in range(250)]

        second.restore(states[-1])

        assert _said(second, "print(x)") == "1\n"
        look = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1] <= 1024)"
        assert _said(second, look) == "True\n"


LATE = """
import threading, time
def late():
    time.sleep(0.2)
    print("late", flush=True)
    open("told", "w").close()
threading.Thread(target=late).start()
"""


@pytest.mark.parametrize("options", [{}, {"undo": 1}, {"rollback": "on_error"}], ids=["plain", "undo", "rollback"])
def test_what_is_printed_between_runs_is_told_by_the_next_one(options):
    """Small orders go on between runs, such as for files, or for the checkpoint before each run."""
    with Sandbox(profile="bare", **options) as box:
        box.run(LATE)
        assert until(lambda: "told" in box.files.list())
        box.files.write("file", b"x")

        assert box.run("print('now')").stdout == "late\nnow\n"


def test_forks_can_be_made_where_a_sandbox_may_have_one_process():
    with Sandbox(profile="bare", branching=True, limits=Limits(process_count=1)) as box:
        _said(box, "x = 1")
        group = box.asynchronous._loan.worker.cgroup

        forks = box.fork(3)

        assert [_said(each, "print(x)") for each in forks] == ["1\n"] * 3
        assert until(lambda: group.keepers == 1)
        for each in forks:
            each.close()


def test_many_files_of_a_fork_are_looked_at_beside_the_loop(box, monkeypatch):
    _said(box, "for i in range(600): open(str(i), 'w').close()")
    threads: Any = []
    note = Workdir.note
    monkeypatch.setattr(Workdir, "note", lambda self: (threads.append(threading.current_thread()), note(self))[1])

    box.fork(1)[0].close()

    assert [each.name.startswith("asyncio") for each in threads] == [True]


async def _given_up(at_s):
    """A checkpoint of which its caller thinks better after a while; what is left of it."""
    async with AsyncSandbox(profile="bare", branching=True) as box:
        await box.run("import os; data = os.urandom(100 << 20)")  # making a copy takes a while
        template, group = box._loan.template, box._loan.worker.cgroup
        asking = asyncio.ensure_future(box.checkpoint())
        for _ in range(1000):
            await asyncio.sleep(0)
            if template._kept:
                break
        await asyncio.sleep(at_s)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        del asking
        for _ in range(100):
            gc.collect()
            await asyncio.sleep(0.02)
            if not template._kept:
                break
        engine = await engines.current()
        return len(template._kept), group in engine._held


@pytest.mark.parametrize("at_s", [0, 0.003])
def test_a_checkpoint_that_is_given_up_while_it_is_made_is_not_kept(at_s):
    """The template hears of it before there is anything to drop."""
    assert asyncio.run(_given_up(at_s)) == (0, False)


def test_a_checkpoint_that_was_dropped_takes_no_place(monkeypatch, box):
    monkeypatch.setattr(branching, "MOST_KEPT", 2)

    states = [box.checkpoint() for _ in range(2)]
    with pytest.raises(SandboxBusy, match="2 checkpoints of it are kept"):
        box.checkpoint()
    states[0].drop()

    assert not box.checkpoint().lost


def test_a_checkpoint_that_is_dropped_while_it_is_gone_back_to_has_its_files(monkeypatch, box):
    """`drop` may be called from any thread."""
    unpack = branching._unpack

    async def dropped(*given, **told):
        state.drop()
        await unpack(*given, **told)

    _said(box, "open('file', 'w').write('before')")
    state = box.checkpoint()
    _said(box, "open('file', 'w').write('after')")
    monkeypatch.setattr(branching, "_unpack", dropped)

    box.restore(state)

    assert _said(box, "print(open('file').read())") == "before\n"
