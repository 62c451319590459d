"""seccomp: the system calls that a guest may make.

Covered: every call of every process of the sandbox, for good; filters are inherited and only ever add up.
Not covered: what a permitted call does with its arguments behind a pointer.

How it works: two filters stand one behind the other, and the kernel takes the stricter answer.
The *wide* one is an allow-list, installed once in the template after its imports, so that workers
inherit it for nothing (installing costs 0.1 ms and more). It still lets a worker mount and change its ids,
because a worker has to put itself into its own jail. The *narrow* one is small and is a worker's last step:
it takes those calls away again, and the network when there is none.

Of what looks harmless, watching files is left out (inotify, dnotify): it tells what the host and other sandboxes
do with files that all of them can read, and instances are counted against the host's user.
Reserved huge pages are refused as if there were none: no memory group counts them, and they are somebody's.

What is not allowed answers EPERM, or ENOSYS above the highest number known here, so that a libc newer than
this list falls back instead of failing. Nothing is killed for an unknown call (that broke users of other
sandboxes when their libc was updated); only a foreign architecture's entry point kills, since its
numbers mean other calls. See seccomp(2); the shape follows the published profiles of Docker and Chromium.
"""

import ctypes
import errno
import functools
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from . import kernel

_ALLOWED_NAMES: Final = """
    read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction
    rt_sigprocmask rt_sigreturn ioctl pread64 pwrite64 readv writev access pipe select sched_yield
    mremap msync mincore madvise shmget shmat shmctl dup dup2 pause nanosleep getitimer alarm setitimer
    getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind listen
    getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit wait4 kill
    uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate
    ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink readlink chmod
    fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo times getuid getgid setuid
    setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setresuid
    getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget rt_sigpending rt_sigtimedwait
    rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod statfs fstatfs getpriority setpriority
    sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max
    sched_get_priority_min sched_rr_get_interval mlock munlock mlockall munlockall prctl arch_prctl
    setrlimit sync gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr
    llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity
    sched_getaffinity epoll_create getdents64 set_tid_address restart_syscall semtimedop fadvise64
    timer_create timer_settime timer_gettime timer_getoverrun timer_delete clock_gettime clock_getres
    clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes get_mempolicy mq_open mq_unlink
    mq_timedsend mq_timedreceive mq_notify mq_getsetattr waitid openat mkdirat mknodat fchownat
    futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll
    set_robust_list get_robust_list splice tee sync_file_range utimensat epoll_pwait signalfd
    timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2
    epoll_create1 dup3 pipe2 preadv pwritev rt_tgsigqueueinfo recvmmsg prlimit64 syncfs sendmmsg getcpu
    sched_setattr sched_getattr renameat2 getrandom memfd_create execveat membarrier mlock2
    copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx rseq pidfd_send_signal
    pidfd_open close_range openat2 faccessat2 epoll_pwait2 futex_waitv cachestat fchmodat2 futex_wake
    futex_wait futex_requeue mseal personality
"""
ALLOWED: Final = frozenset(_ALLOWED_NAMES.split())

_ENTRY_NAMES: Final = """
    mount umount2 unshare setns clone3 setgroups capset landlock_create_ruleset landlock_add_rule
    landlock_restrict_self seccomp sethostname
"""
ENTRY: Final = frozenset(_ENTRY_NAMES.split())

_INTERNET: Final = (2, 10)
_UNIX: Final = 1
_PROTOCOLS: Final = (0, 1, 6, 17, 58)
"""The family's own, ICMP, TCP, UDP, ICMPv6. Asked for another, the kernel would load its module (SCTP, L2TP, …)."""
_STREAM, _SEQPACKET, _TYPE_MASK = 1, 5, 0xF
_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT: Final = 0x40000000
_NEW_NAMESPACES: Final = 0x7E020080
_CLONE_PARENT: Final = 0x8000
"""Makes a sibling: a process that nobody finds among what its maker leaves behind."""
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _JUMP, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06
_AND: Final = 0x54
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENT = 0, 4, 16
_SET_MODE_FILTER: Final = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SETLEASE, _NOTIFY = 1024, 1026
_MAP_HUGETLB, _MFD_HUGETLB, _SHM_HUGETLB = 0x40000, 4, 0o4000
_SHARED: Final = """
    socket connect bind sendmmsg shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv
    msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr chown fchown lchown fchownat
    setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
"""
"""Without namespaces these reach what belongs to others, and Landlock does not cover them."""
_MODES: Final = "chmod fchmod fchmodat fchmodat2 utime utimes utimensat futimesat"
"""The same, but too many programs set modes and times of their own files: answered as done, without effect."""
_ON_A_PROCESS: Final = """
    prlimit64 sched_setaffinity sched_setparam sched_setscheduler sched_setattr setpgid
"""
"""Allowed on the calling process, which is 0, and on no other."""
_WITHOUT_EFFECT: Final = ("sync", "syncfs")
"""Would write out the whole host's disks; answered as done."""
_PR_SET_SECCOMP: Final = 22
_PRIO_PROCESS: Final = 0


class Instruction(NamedTuple):
    """One `struct sock_filter`."""

    code: int
    if_true: int
    if_false: int
    operand: int


Program = list[Instruction]


def wide() -> Program:
    """The template's filter: the allow-list, plus what a worker needs to enter its jail."""
    special = {
        "socket": _only_families(_UNIX, *_INTERNET)[:-1] + _only_values(2, *_PROTOCOLS, refusal=errno.EPROTONOSUPPORT),
        "socketpair": _only_families(_UNIX),
        "ioctl": _refuse_values(1, _TIOCSTI, _TIOCLINUX),
        **{name: [_errno(0)] for name in _WITHOUT_EFFECT},
        "fcntl": _refuse_values(1, _SETLEASE, _NOTIFY),
        "personality": _only_values(0, 0, 0xFFFFFFFF),
        "mmap": _refuse_bits(3, _MAP_HUGETLB, errno.ENOMEM),
        "memfd_create": _refuse_bits(1, _MFD_HUGETLB, errno.ENOMEM),
        "shmget": _refuse_bits(2, _SHM_HUGETLB, errno.ENOMEM),
    }
    return _compile(allow=ALLOWED | ENTRY, special=special, otherwise=_errno(errno.EPERM))


def narrow(*, internet: bool, namespaces: bool = True, apart: bool = False) -> Program:
    """The worker's filter: takes the calls of `ENTRY` away, and internet sockets when there is no network.

    Args:
        internet: Whether sockets of the families INET and INET6 may be made.
        namespaces: False for the landlock backend, which has no network, IPC or mount namespace:
            no named socket may be made or reached at all, and no System V or POSIX queue.
        apart: Whether the worker keeps programs apart (`landlock.apart`), which takes the right to restrict oneself.
            No ruleset can be made with it.
    """
    refused = ENTRY - {"clone3"} - ({"landlock_restrict_self"} if apart else set())
    special = {
        "clone": _refuse_bits(0, _NEW_NAMESPACES | _CLONE_PARENT, errno.EPERM),
        "clone3": [_errno(errno.ENOSYS)],
        "prctl": _refuse_values(0, _PR_SET_SECCOMP),
        **{name: [_errno(errno.EPERM)] for name in refused},
    }
    if not namespaces:
        special |= {name: [_errno(errno.EPERM)] for name in _SHARED.split()}
        special |= {name: [_errno(0)] for name in _MODES.split()}
        special |= {name: _only_values(0, 0) for name in _ON_A_PROCESS.split()}
        special["setpriority"] = [  # of the own process; of its group or user would be of the host's processes too
            *_load_argument(0),
            Instruction(_JUMP_EQUAL, 0, 3, _PRIO_PROCESS),
            *_load_argument(1),
            Instruction(_JUMP_EQUAL, 0, 1, 0),
            _answer(_ALLOW),
            _errno(errno.EPERM),
        ]
        special["socketpair"] = _only_connected_pairs()
    else:
        special["prlimit64"] = _limits_of_others_are_only_read()
        if not internet:
            special["socket"] = _only_families(_UNIX)
    return _compile(allow=frozenset(), special=special, otherwise=_answer(_ALLOW))


class Filter:
    """A program in the form that the kernel takes, made once and installed in many processes."""

    def __init__(self, program: Program) -> None:
        code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
        self._code = ctypes.create_string_buffer(code, len(code))
        self._header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(self._code))

    def install(self) -> None:
        """Put the calling process, and all it will ever start, behind this filter.

        Needs no_new_privs or CAP_SYS_ADMIN in the user namespace.
        """
        kernel.call("seccomp", _SET_MODE_FILTER, 0, self._header)


@functools.cache
def narrow_filter(*, internet: bool, namespaces: bool, apart: bool) -> Filter:
    """`narrow` made ready. Call it in the template, so that workers find it in the cache."""
    return Filter(narrow(internet=internet, namespaces=namespaces, apart=apart))


def _compile(*, allow: frozenset[str], special: dict[str, Program], otherwise: Instruction) -> Program:
    numbers = kernel.numbers()
    leaves: dict[int, Program] = {numbers[n]: [_answer(_ALLOW)] for n in allow if n in numbers}
    leaves |= {numbers[n]: body for n, body in special.items() if n in numbers}
    unknown = _errno(errno.ENOSYS) if allow else otherwise
    ranges = _ranges(leaves, [otherwise], [unknown], max(numbers.values()))
    head = [
        Instruction(_LOAD, 0, 0, _AT_ARCH),
        Instruction(_JUMP_EQUAL, 1, 0, _AUDIT_ARCH[kernel.MACHINE]),
        _answer(_KILL),
        Instruction(_LOAD, 0, 0, _AT_NUMBER),
        Instruction(_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        _errno(errno.ENOSYS),
    ]
    return head + _tree(ranges)


class _Range(NamedTuple):
    first: int
    body: Program


def _ranges(leaves: dict[int, Program], otherwise: Program, beyond: Program, highest: int) -> list[_Range]:
    ranges: list[_Range] = []
    for number in range(highest + 1):
        body = leaves.get(number, otherwise)
        if not ranges or ranges[-1].body != body:
            ranges.append(_Range(number, body))
    if ranges[-1].body != beyond:
        ranges.append(_Range(highest + 1, beyond))
    return ranges


def _tree(ranges: Sequence[_Range]) -> Program:
    """Binary search over the call number: about 8 comparisons instead of 300."""
    if len(ranges) == 1:
        return ranges[0].body
    middle = len(ranges) // 2
    low, high = _tree(ranges[:middle]), _tree(ranges[middle:])
    choose = [
        Instruction(_JUMP_AT_LEAST, 0, 1, ranges[middle].first),
        Instruction(_JUMP, 0, 0, len(low)),
    ]
    return choose + low + high


def _load_argument(index: int) -> Program:
    return [Instruction(_LOAD, 0, 0, _AT_ARGUMENT + 8 * index)]


def _only_families(*families: int) -> Program:
    return _only_values(0, *families, refusal=errno.EPERM)


def _only_values(index: int, *values: int, refusal: int = errno.EPERM) -> Program:
    checks = [Instruction(_JUMP_EQUAL, len(values) - i, 0, v) for i, v in enumerate(values)]
    return [*_load_argument(index), *checks, _errno(refusal), _answer(_ALLOW)]


def _refuse_values(index: int, *values: int) -> Program:
    checks = [Instruction(_JUMP_EQUAL, len(values) - i, 0, v) for i, v in enumerate(values)]
    return [*_load_argument(index), *checks, _answer(_ALLOW), _errno(errno.EPERM)]


def _refuse_bits(index: int, bits: int, refusal: int) -> Program:
    return [*_load_argument(index), Instruction(_JUMP_SET, 0, 1, bits), _errno(refusal), _answer(_ALLOW)]


def _limits_of_others_are_only_read() -> Program:
    """A script could otherwise leave process 1, which reports how it ended, without descriptors to do so."""
    low, high = _load_argument(2), [Instruction(_LOAD, 0, 0, _AT_ARGUMENT + 8 * 2 + 4)]
    return [
        *_load_argument(0),
        Instruction(_JUMP_EQUAL, 5, 0, 0),
        *low,
        Instruction(_JUMP_EQUAL, 0, 2, 0),
        *high,
        Instruction(_JUMP_EQUAL, 1, 0, 0),
        _errno(errno.EPERM),
        _answer(_ALLOW),
    ]


def _only_connected_pairs() -> Program:
    """Stream pairs only: a datagram socket can send to any path, connected or not."""
    return [
        *_load_argument(1),
        Instruction(_AND, 0, 0, _TYPE_MASK),
        Instruction(_JUMP_EQUAL, 2, 0, _STREAM),
        Instruction(_JUMP_EQUAL, 1, 0, _SEQPACKET),
        _errno(errno.EPERM),
        _answer(_ALLOW),
    ]


def _answer(action: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, action)


def _errno(code: int) -> Instruction:
    return _answer(_ERRNO | code)
