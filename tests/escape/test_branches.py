"""Checkpoints and forks: what a guest can do to its own past, to copies of it, and by being copied.

The wall of a keeper itself, whose memory the guest shares, is tried in tests/jail/test_sealed.py, and its guard off.
Here, what a copy inside the sandbox would have been open to is the control that shows an attack to be a real one.
"""

import contextlib
import os

import pytest

from groundbox import Limits, SandboxBusy, SandboxLost
from groundbox.jail import cgroup, enter, kernel
from groundbox.sandbox import branching
from groundbox.sandbox.memfile import seal_all
from groundbox.sandbox.template import Template
from groundbox.testing.base import until

pytestmark = pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")

REACH = """
import signal, time
word = 'SECRET'
pid = os.fork()  # the control: a copy as a program makes it, which waits
if pid == 0:
    time.sleep(60)
    os._exit(0)
def others():
    return [int(name) for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()]
seen = others()
readable = []
for each in seen:
    try:
        with open(f'/proc/{each}/mem', 'rb') as file:
            address = id(word) + word.__sizeof__() - len(word) - 1
            file.seek(address)
            readable.append(file.read(len(word)).decode() == word)
    except OSError:
        readable.append(False)
attempt(os.kill, -1, signal.SIGKILL)
for number in range(2, 400):
    attempt(os.kill, number, signal.SIGKILL)
    attempt(os.killpg, number, signal.SIGKILL)
print(len(seen), readable, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
LIE = """
import gc
from groundbox.guest.parking import Parking
def prepare(self, descriptors, residents):
    self._open, self._folder, self._mask = [], '/box/work', 0o22
    for hook in HOOKS: hook(descriptors)
    return ''
Parking.prepare = prepare
HOOKS = []
"""


@pytest.fixture
def live(sandbox, prelude):
    def make(source="", **options):
        box = sandbox(branching=True, **options)
        execution = box.run(prelude + source)
        assert execution.error is None, execution.error
        return box

    return make


def test_a_guest_that_ends_its_keeper_ends_with_it(live):
    """The page that a keeper waits with is the guest's. Without a keeper, a guest would have its room, too."""
    spoil = """
import socket
from groundbox.guest.parking import Parking
def stand_still(self, frame):
    assert call('munmap', 0x20000, 4096) == 0
    host = socket.socket(fileno=os.dup(68))
    host.sendall(frame)
    host.recv(1, socket.MSG_PEEK)
    return False
Parking.stand_still = stand_still
"""
    box = live(spoil)
    worker = box.asynchronous._loan.worker

    with pytest.raises((SandboxBusy, SandboxLost)):
        box.checkpoint()

    assert until(lambda: worker.ended is not None)


def test_a_checkpoint_is_neither_seen_nor_read_nor_ended_by_its_guest(live, nonce):
    box = live(f"word = {nonce!r}")
    states = [box.checkpoint() for _ in range(3)]

    told = box.run(REACH.replace("SECRET", nonce)).stdout

    assert told == "1 [True] -9\n"  # the control was seen, read and ended, and there was nothing else
    assert [state.lost for state in states] == [""] * 3
    box.restore(states[0])
    assert box.run("print(word)").stdout == f"{nonce}\n"


def test_a_guest_that_hides_what_runs_is_not_copied_by_its_word(live, monkeypatch):
    box = live(LIE + "if os.fork() == 0:\n    import time; time.sleep(60); os._exit(0)")

    with pytest.raises(SandboxBusy, match="another process or thread runs"):
        box.checkpoint()
    monkeypatch.setattr(cgroup.Cgroup, "process_count", lambda self: 1)

    assert box.checkpoint().lost == ""  # with the guard off, its word is all there is


def test_a_bomb_that_goes_off_while_it_is_copied_gains_no_process(live):
    """The bomb has threads of machine code's speed: processes that fork as long as they can, hidden from `prepare`."""
    bomb = """
def bomb(_):
    if os.fork() == 0:
        while True:
            try: os.fork()
            except OSError: pass
HOOKS.append(bomb)
"""
    box = live(LIE + bomb, limits=Limits(process_count=8))
    group = box.asynchronous._loan.worker.cgroup

    with pytest.raises((SandboxBusy, SandboxLost)):
        box.checkpoint()

    assert group.process_count() <= 8
    assert group.keepers == 1


def test_memory_that_a_guest_shares_with_itself_is_not_shared_with_its_copies(live):
    """A channel between forks, were it copied; tests/jail/test_sealed.py shows that it would work."""
    box = live(LIE + "import mmap; shared = mmap.mmap(-1, 4096)")
    with pytest.raises(SandboxBusy, match="memory is shared"):
        box.checkpoint()
    named = live(LIE + "key = call('shmget', 0, 4096, 0o1600); assert call('shmat', key, 0, 0) > 0")
    with pytest.raises(SandboxBusy, match="memory is shared"):
        named.checkpoint()


@pytest.mark.parametrize(
    "file", ["os.open('/box/work/file', os.O_RDWR | os.O_CREAT)", "os.memfd_create('file')"], ids=["named", "in memory"]
)
def test_what_a_guest_writes_to_a_file_is_not_read_by_a_fork_that_has_mapped_it(live, file, nonce, monkeypatch):
    """A private mapping shows what is written to its file later, as long as nobody writes to the mapping itself."""
    box = live(
        "from groundbox.guest import parking; parking._described = lambda number: None\n"  # of files that are open
        f"import mmap; file = {file}; os.ftruncate(file, 4096)\n"
        "mapped = mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)"
    )
    write, read = f"os.pwrite(file, {nonce!r}.encode(), 0)", f"print(mapped[:{len(nonce)}])"
    with pytest.raises(SandboxBusy, match="memory is mapped from a file that can change"):
        box.fork(1)

    keep = Template.keep
    monkeypatch.setattr(Template, "keep", lambda *given, **told: keep(*given, **{**told, "fork": False}))
    fork = box.fork(1)[0]
    box.run(write)

    assert fork.run(read).stdout == f"{nonce.encode()!r}\n"  # with the guard off
    fork.close()


def test_files_of_a_checkpoint_are_not_written_to_later(live):
    """Neither through a descriptor that was kept, nor through a mapping that was made before the file was sealed."""
    keep = "HOOKS.append(lambda given: (os.write(given[0], b'x' * 5000), keep.append(os.dup(given[0]))))\n"
    box = live(LIE + "keep = []\n" + keep)
    box.checkpoint()
    told = box.run("print(attempt(os.write, keep[0], b'y'), attempt(os.ftruncate, keep[0], 0))").stdout
    mapped = live(
        LIE + "import mmap; keep = []\n" + keep + "HOOKS.append(lambda d: keep.append(mmap.mmap(d[0], 5000)))"
    )

    with pytest.raises(SandboxBusy, match="the file that its files are copied into"):
        mapped.checkpoint()

    assert told == "EPERM EPERM\n"
    control = os.memfd_create("control", os.MFD_ALLOW_SEALING)
    assert os.write(control, b"y") == 1
    assert seal_all(control)
    os.close(control)


HOLD = """
from groundbox.guest.snapshots import Snapshots
held, restore = [], Snapshots.restore
def holding(self, descriptors):
    held.extend(map(os.dup, descriptors))
    return restore(self, descriptors)
Snapshots.restore = holding
open('file', 'w').write('x' * 100)
"""


def test_forks_tell_each_other_nothing_by_the_files_of_their_checkpoint(live, monkeypatch):
    """All get the same bytes; an open file that they shared would have one place, which one sets and another reads."""
    told = []
    for shared in (False, True):
        if shared:  # the control: the guard is off

            @contextlib.contextmanager
            def opened(parts):
                yield [part.descriptor for part in parts]

            monkeypatch.setattr(branching, "_opened", opened)
        box = live(HOLD)
        first, second = box.fork(2)
        first.run("os.lseek(held[0], 4711, 0)")
        told.append(second.run("print(len(held), os.lseek(held[0], 0, 1))").stdout)
        if os.geteuid() == 0:  # an ordinary user's guests own the file
            refused = first.run("print(attempt(os.setxattr, held[0], 'user.word', b'x'))")
            assert refused.stdout in ("EACCES\n", "EPERM\n", "ENOTSUP\n")
        for each in (first, second):
            each.close()

    assert told == ["1 0\n", "1 4711\n"]


def test_a_guest_that_seals_the_file_of_a_checkpoint_itself_has_none(live):
    """The host's own seal is refused then; a run that was to be undone goes on as one that could not be copied."""
    box = live(LIE + "import fcntl\nHOOKS.append(lambda given: fcntl.fcntl(given[0], 1033, 1))", undo=1)  # F_SEAL_SEAL

    with pytest.raises(SandboxBusy, match="the file that its files are copied into"):
        box.checkpoint()

    assert box.run("print(1)").stdout == "1\n"


def test_a_link_in_place_of_the_workdir_leads_the_host_nowhere(live):
    """The template opens the workdir of a copy, in whose view other sandboxes lie; a guest may have replaced it."""
    box = live()
    swap = "os.chdir('/'); os.rename('/box/work', '/box/gone'); os.symlink('/etc', '/box/work')"
    box.run(swap)
    state = box.checkpoint()

    with pytest.raises(SandboxLost, match="its workdir is not there"):
        box.restore(state)
    honest = live("open('kept', 'w').write('x')")
    before = honest.checkpoint()
    honest.run(swap)
    honest.restore(before)

    assert list(honest.files.list()) == ["kept"]


def test_a_copy_has_no_descriptor_of_its_template_at_any_moment(live):
    """Its code goes on before anything of ours could tidy up; the streams of a keeper are the template's log."""
    look = """
from groundbox.guest.parking import Parking
seen = []
def awake(self):
    seen.extend(os.readlink(f'/proc/self/fd/{number}') for number in range(3))
    for number in (1, 2): os.dup2(68 + number, number)
Parking.awake = awake
"""
    box = live(look)
    state = box.checkpoint()

    box.restore(state)

    assert box.run("print(seen)").stdout == f"{['/dev/null'] * 3}\n"


def test_what_a_copy_runs_by_itself_uses_no_more_time_than_a_run_may(live):
    spin = """
from groundbox.guest.parking import Parking
awake = Parking.awake
def spinning(self):
    if os.fork() == 0:
        while True: pass
    awake(self)
Parking.awake = spinning
"""
    box = live(spin, limits=Limits(cpu_s=1.0))
    state = box.checkpoint()

    box.restore(state)

    worker = box.asynchronous._loan.worker
    assert until(lambda: worker.ended is not None, within_s=30)


def test_what_is_dropped_ends_whatever_the_guest_holds(live):
    box = live(LIE + "keep = []\nHOOKS.append(lambda descriptors: keep.append(os.dup(descriptors[0])))")
    group = box.asynchronous._loan.worker.cgroup
    state = box.checkpoint()
    held = group.keepers

    state.drop()

    assert held in (2, 3)  # there may be a spare copy by now
    assert until(lambda: group.keepers == 1)


def test_a_copy_stands_behind_the_same_walls(live, sandbox, prelude):
    """What the kernel says of a fork and of a restored state is what it says of a sandbox that was never copied."""
    look = """
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
names = 'CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters NSpid Threads'.split()
import resource
print({name: status[name].strip() for name in names})
print(len(os.listdir('/proc/self/fd')), os.getpid(), os.getpgid(0), open('/proc/self/cgroup').read().split())
print([resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, 11)])
print(sorted({line.split()[4] for line in open('/proc/self/mountinfo')}))
print([attempt(open, path) for path in ('/etc/shadow', '/proc/1/root/etc/shadow')], call('unshare', 0x20000000))
print(call('setns', 0, 0), call('mount', 0, 0, 0, 0, 0), call('ptrace', 0, 0, 0, 0), call('clone3', 0, 0))
print(os.uname().nodename, call('landlock_create_ruleset', 0, 0, 1), attempt(os.setuid, 0))
"""
    # The last run of its sandbox, because others have a socket more: to the copy from which scripts are forked.
    plain = sandbox().run_last(prelude + look).stdout.splitlines()
    box = live("")
    fork = box.fork(1)[0]
    box.restore(box.checkpoint())

    told = [each.run(look).stdout.splitlines() for each in (box, fork)]

    assert len(plain) == 7
    assert told == [plain, plain]
    fork.close()


def test_forks_of_forks_do_not_gather_memory_of_which_nobody_is_charged(live, monkeypatch):
    """Each is charged for what it writes itself; without a look at the rest, every generation adds its limit."""
    box = live("import resource; kept = []", limits=Limits(memory_bytes=96 << 20))
    more = "resource.setrlimit(resource.RLIMIT_DATA, (resource.getrlimit(resource.RLIMIT_DATA)[1],) * 2)\n"
    more += "kept.append(bytearray(b'x') * (64 << 20))"
    assert box.run(more).error is None
    fork = box.fork(1)[0]
    box.close()
    assert fork.run(more).error is None  # 128 of 96 MiB

    with pytest.raises(SandboxBusy, match="more than its limit"):
        fork.fork(1)
    keep = Template.keep
    monkeypatch.setattr(Template, "keep", lambda *given, **told: keep(*given, **{**told, "memory_bytes": None}))
    third = fork.fork(1)[0]

    assert third.run("sum(map(len, kept))").text == str(128 << 20)  # with the guard off
    for each in (fork, third):
        each.close()


def test_two_forks_find_no_trace_of_each_other(live, nonce):
    box = live("import random, secrets, uuid")
    first, second = box.fork(2)
    first.run(
        f"open('/tmp/{nonce}', 'w').close(); open('/dev/shm/{nonce}', 'w').close(); import socket\n"
        f"s = socket.socket(socket.AF_UNIX); s.bind('\\x00{nonce}'); s.listen()"
    )

    told = second.run(
        f"import socket; s = socket.socket(socket.AF_UNIX)\n"
        f"print(attempt(s.connect, '\\x00{nonce}'), os.listdir('/tmp'), os.listdir('/dev/shm'))"
    ).stdout
    drawn = [each.run("print(random.random(), secrets.token_hex(8), uuid.uuid4())").stdout for each in (first, second)]

    assert told.split()[0] == "ECONNREFUSED"
    assert nonce not in told
    assert len({word for line in drawn for word in line.split()}) == 6
    for each in (first, second):
        each.close()


def test_every_layer_of_the_jail_is_in_the_sealed_program():
    """The program is recorded from the worker's own list of steps; one that is added there is added here."""
    recorded = {step.layer for step in enter.WORKER} - {"cgroup", "workdir"}
    names = set()
    plan = enter.Plan(backend="namespaces", landlock_abi=6, uid_base=1000)
    entry_of = {}
    for step in enter.WORKER:
        if step.layer in recorded and "namespaces" in {str(each) for each in step.backends}:
            with kernel.recording(range(58, 90)) as calls:
                step.run(
                    enter.Entry(
                        plan=plan,
                        uid=1000,
                        disk_bytes=1,
                        file_count=1,
                        process_count=None,
                        network="off",
                        join=[],
                        keep=[44],
                    )
                )
            entry_of[step.layer] = len(calls)
            names |= {call.name for call in calls}

    assert {layer for layer, count in entry_of.items() if count == 0} == {"network"}
    assert {"seccomp", "capset", "landlock_restrict_self", "setresuid", "mount", "close_range", "prlimit64"} <= names
