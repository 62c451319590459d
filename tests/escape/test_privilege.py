"""Row 6: gaining privilege. Capabilities, namespaces, mounts, other processes, kernel interfaces, other ABIs."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import os
import platform
import signal

import pytest

from groundbox import Outcome

STATUS = """
for line in open('/proc/self/status'):
    name, _, value = line.partition(':')
    if name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Groups'): print(name, value.strip())
"""


@pytest.mark.parametrize("mode", ["cell", "script"])
def test_no_capability_is_held_and_none_can_be_gained(attack, mode):
    execution = attack(STATUS, mode=mode)

    none = "0000000000000000"
    lines = dict((line + " ").split(" ", 1) for line in execution.stdout.splitlines())
    assert {name: lines[name].strip() for name in lines if name != "Groups"} == {
        "CapInh": none,
        "CapPrm": none,
        "CapEff": none,
        "CapBnd": none,
        "CapAmb": none,
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }
    if os.geteuid() == 0:
        assert lines["Groups"].strip() == ""


def test_no_mount_honours_setuid_files(attack):
    lines = attack("print(open('/proc/self/mountinfo').read())").stdout.splitlines()

    assert [line for line in lines if line and "nosuid" not in line.split()[5].split(",")] == []


NEW_USER_NAMESPACE = """
results = [call('unshare', 0x10000000)]
stack = ctypes.create_string_buffer(1 << 16)
def made(result):
    if result == 0: os._exit(0)
    if result > 0: os.waitpid(result, 0)
    return result
results.append(made(call('clone', 0x10000000 | 17, None, None, None, None)))
import struct
results.append(made(call('clone3', struct.pack('QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)))
any(result >= 0 for result in results)
"""


@pytest.mark.layers(holds=["", "seccomp", "root: user_ns"], breaks=["root: seccomp user_ns"])
def test_two_layers_refuse_another_user_namespace(attack, waive, breached):
    """For an ordinary user the namespace itself cannot be waived: everything else is built in it."""
    assert attack(NEW_USER_NAMESPACE, waive=waive).text == str(breached)


@pytest.mark.layers(
    holds=[
        "",
        "seccomp",
        "landlock",
        "capabilities",
        "seccomp landlock",
        "seccomp capabilities",
        "landlock capabilities",
    ],
    breaks=["root: seccomp landlock capabilities uid", "user: seccomp landlock capabilities"],
)
def test_three_layers_refuse_a_mount(attack, waive, breached):
    source = "os.mkdir('m'); call('mount', b'tmpfs', b'm', b'tmpfs', 0, None) == 0"

    assert attack(source, waive=waive).text == str(breached)


CALLS = {
    "open_tree": "call('open_tree', -100, b'/', 1)",
    "fsopen": "call('fsopen', b'tmpfs', 0)",
    "mount_setattr": "call('mount_setattr', -100, b'/', 0, bytes(32), 32)",
    "umount2": "call('umount2', b'/proc', 2)",
    "chroot": "call('chroot', b'/')",
    "pivot_root": "call('pivot_root', b'.', b'.')",
    "setns": "call('setns', 0, 0)",
    "ptrace": "call('ptrace', 0, 0, 0, 0)",
    "process_vm_readv": "call('process_vm_readv', 1, None, 0, None, 0, 0)",
    "process_vm_writev": "call('process_vm_writev', 1, None, 0, None, 0, 0)",
    "pidfd_getfd": "call('pidfd_getfd', call('pidfd_open', 1, 0), 0, 0)",
    "kcmp": "call('kcmp', 1, 1, 0, 0, 0)",
    "keyctl": "call('keyctl', 0, -3, 1)",
    "add_key": "call('add_key', b'user', b'x', b'y', 1, -2)",
    "request_key": "call('request_key', b'user', b'x', None, 0)",
    "bpf": "call('bpf', 0, bytes(128), 128)",
    "perf_event_open": "call('perf_event_open', bytes([1, 0, 0, 0, 120]) + bytes(123), 0, -1, -1, 0)",
    "userfaultfd": "call('userfaultfd', 1)",
    "memfd_secret": "call('memfd_secret', 0)",
    "init_module": "call('init_module', bytes(64), 64, b'')",
    "finit_module": "call('finit_module', 0, b'', 0)",
    "delete_module": "call('delete_module', b'x', 0)",
    "kexec_load": "call('kexec_load', 0, 0, None, 0)",
    "reboot": "call('reboot', 0, 0, 0, None)",
    "swapon": "call('swapon', b'/x', 0)",
    "acct": "call('acct', None)",
    "syslog": "call('syslog', 3, bytes(64), 64)",
    "settimeofday": "call('settimeofday', None, None)",
    "sethostname": "call('sethostname', b'x', 1)",
    "fanotify_init": "call('fanotify_init', 0, 0)",
    "name_to_handle_at": "call('name_to_handle_at', -100, b'/', bytes(160), bytes(8), 0)",
    "open_by_handle_at": "call('open_by_handle_at', -100, bytes(160), 0)",
    "move_pages": "call('move_pages', 0, 0, None, None, None, 0)",
    "mbind": "call('mbind', 0, 0, 0, None, 0, 0)",
    "seccomp": "call('seccomp', 2, 0, bytes(8))",
    "landlock": "call('landlock_create_ruleset', None, 0, 1)",
    "capset": "call('capset', bytes(8), bytes(24))",
    "setgroups": "call('setgroups', 0, None)",
    "io_uring_setup": "call('io_uring_setup', 1, bytes(120))",
    "pidfd of another thread": "call('process_madvise', 0, None, 0, 0, 0)",
    "quotactl": "call('quotactl', 0x80000700, b'/', 0, None)",
}
if platform.machine() == "x86_64":
    CALLS |= {
        "iopl": "call('iopl', 0)",
        "ioperm": "call('ioperm', 0, 1, 0)",
        "modify_ldt": "call('modify_ldt', 0, bytes(64), 64)",
        "uselib": "call('uselib', b'/x')",
    }


@pytest.mark.parametrize("name", CALLS)
def test_a_privileged_call_is_refused(attack, name):
    """EPERM or ENOSYS, whatever the arguments: the kernel's own code for it is not reached."""
    assert attack(CALLS[name]).text in ("-1", "-38")


NEEDS_NO_PRIVILEGE = ["ptrace", "process_vm_readv", "pidfd_getfd", "keyctl", "add_key", "mbind", "seccomp", "landlock"]


@pytest.mark.parametrize("name", NEEDS_NO_PRIVILEGE)
@pytest.mark.layers(holds=[], breaks=["seccomp"])
def test_without_seccomp_the_kernel_lets_an_unprivileged_call_in(attack, name, waive, breached):
    """The control: seccomp is what refuses these. The others of the list need a capability that is not held either."""
    text = attack(CALLS[name], waive=waive).text

    assert text not in ("-1", "-38")


@pytest.mark.layers(holds=["", "seccomp", "landlock", "dumpable"], breaks=["landlock dumpable"])
def test_the_memory_of_process_one_cannot_be_written(attack, waive, breached):
    """A script is a child of process 1, which tells the host how the script ended."""
    source = "print(isinstance(attempt(os.open, '/proc/1/mem', os.O_RDWR), int))"

    assert attack(source, mode="script", waive=waive).stdout == f"{breached}\n"


@pytest.mark.layers(holds=["", "seccomp", "landlock", "dumpable"], breaks=["landlock dumpable"])
def test_the_memory_of_the_copy_that_scripts_are_forked_from_cannot_be_written(sandbox, prelude, waive, breached):
    """It is the parent of the scripts, and forks the later ones, too."""
    box = sandbox(waive=waive)
    box.run("x = 1")
    source = "print(os.getppid() > 1, isinstance(attempt(os.open, f'/proc/{os.getppid()}/mem', os.O_RDWR), int))"

    assert box.run(prelude + source, mode="script").stdout == f"True {breached}\n"


@pytest.mark.layers(holds=["", "landlock", "seccomp", "dumpable"], breaks=["seccomp dumpable"])
def test_the_descriptors_of_process_one_cannot_be_taken(attack, waive, breached):
    """Least of all its socket to the host."""
    source = """
import stat
one = call('pidfd_open', 1, 0)
taken = [call('pidfd_getfd', one, fd, 0) for fd in range(96)] + [attempt(os.open, f'/proc/1/fd/{fd}', os.O_RDWR) for fd in range(3, 96)]
print(any(isinstance(fd, int) and fd >= 0 and stat.S_ISSOCK(os.fstat(fd).st_mode) for fd in taken))
"""
    assert attack(source, mode="script", waive=waive).stdout == f"{breached}\n"


@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_no_character_can_be_typed_into_a_terminal(attack, waive, breached):
    """On a pipe the kernel would answer that it is no terminal; refused before that, it is so for a terminal too."""
    reached = {
        attack(f"reader, _ = os.pipe(); call('ioctl', reader, {number}, b'x')", waive=waive).text
        for number in (0x5412, 0x541C)
    }

    assert reached == ({"-25"} if breached else {"-1"})


@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_no_line_discipline_can_be_chosen_for_a_terminal(attack, waive, breached):
    """The kernel would load the module of another one. Asked on a pipe, as above; test_processes.py has a terminal."""
    reached = attack("reader, _ = os.pipe(); call('ioctl', reader, 0x5423, b'xxxx')", waive=waive).text

    assert reached == ("-25" if breached else "-1")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the 32-bit entry point is one of x86_64")
@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_the_entry_point_of_32_bit_programs_kills(attack, waive, breached):
    """Numbers mean other calls there: 20 is getpid, and 11 execve."""
    source = """
import mmap
code = bytes.fromhex('b814000000cd80c3')  # mov eax, 20; int 0x80; ret
page = mmap.mmap(-1, 4096, prot=7)
page.write(code)
function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print('pid', function())
"""
    execution = attack(source, mode="script", waive=waive)

    if breached and execution.exit_signal == signal.SIGSEGV:
        pytest.skip("this kernel has no 32-bit entry point")
    assert ("pid" in execution.stdout) is breached
    if not breached:
        assert (execution.outcome, execution.exit_signal) == (Outcome.SIGNAL, signal.SIGSYS)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is an ABI of x86_64")
def test_the_x32_numbers_are_unknown(attack):
    assert attack("_libc.syscall(ctypes.c_long(0x40000000 | 39)), ctypes.get_errno()").text == "(-1, 38)"


def test_a_program_may_not_put_a_filter_of_its_own_over_its_children(attack):
    """A filter that lies to process 1's children is of no use to an honest program, and could answer for the kernel."""
    assert attack("_libc.prctl(22, 2, None, 0, 0), ctypes.get_errno()").text == "(-1, 1)"


@pytest.mark.parametrize("own", [True, False])
def test_a_process_may_not_have_its_pages_merged_with_those_of_others(own, attack):
    """How long a write to a merged page takes tells what others have in theirs (ksm, PR_SET_MEMORY_MERGE)."""
    call = (
        "_libc.prctl(67, 1, 0, 0, 0)" if own else "_libc.madvise(ctypes.c_void_p(0x10000), ctypes.c_size_t(4096), 12)"
    )
    assert attack(f"{call}, ctypes.get_errno()").text == ("(-1, 1)" if own else "(-1, 22)")


def test_real_time_priority_cannot_be_had(attack):
    source = """
[attempt(os.sched_setscheduler, 0, policy, os.sched_param(1)) for policy in (os.SCHED_FIFO, os.SCHED_RR)] + [attempt(os.nice, -1)]
"""
    assert attack(source).text == "['EPERM', 'EPERM', 'EPERM']"


def test_ids_cannot_be_changed(attack):
    source = "sorted({attempt(f, *[i] * n) for f, n in ((os.setuid, 1), (os.setgid, 1), (os.setresuid, 3), (os.setresgid, 3)) for i in (0, 1, 65534, 1001 if os.getuid() != 1001 else 1002)}, key=str)"

    assert set(eval(attack(source).text)) <= {"EPERM", "EINVAL"}
