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

What the kernel keeps for a guest and counts for no group is refused, too, or asked about. Programs of socket filters
are compiled into memory that the whole host shares; sockets of UDP keep what nobody reads in a supply that the
whole host shares; of all other options of sockets only those are known that keep nothing. Byte-range locks are
needed (by SQLite, above all), so that the *wide* filter asks a warden for each, who bounds them (template/locks.py);
locks of open files, which nobody can count, are answered as by a kernel that has none.

Of a terminal, typing into it (TIOCSTI, TIOCLINUX) is refused, and so is another line discipline (TIOCSETD): asked for
one, the kernel loads its module (n_gsm, n_hdlc), and those are where its holes have been.

Writing back is answered as done: what a guest can write to is in memory, and for a file that it can only read
the kernel would make the host's disk write out what others have written. A core dump cannot be had back once it is
switched off: see `rlimits`.

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
    landlock_restrict_self seccomp sethostname chroot
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
_ALLOW, _ERRNO, _KILL, _ASK = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _JUMP, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06
_AND: Final = 0x54
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENT = 0, 4, 16
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_SETLEASE, _NOTIFY = 1024, 1026
_SETLK, _SETLKW, _OFD_GETLK, _OFD_SETLK, _OFD_SETLKW = 6, 7, 36, 37, 38
_MS_SYNC: Final = 4
_MADV_MERGEABLE: Final = 12
_RLIMIT_CORE: Final = 4
_SOL_IP, _SOL_SOCKET, _SOL_TCP, _SOL_IPV6 = 0, 1, 6, 41
_PROGRAMS_OF_SOCKETS: Final = (26, 27, 44, 50, 51, 52, 68)
"""SO_ATTACH_FILTER, _DETACH_FILTER, _LOCK_FILTER, _ATTACH_BPF, _ATTACH_REUSEPORT_CBPF, _EBPF, _DETACH_REUSEPORT_BPF."""
_KNOWN_OPTIONS: Final = {
    _SOL_IP: (1, 2, 6, 7, 8, 10, 11, 12, 13, 14, 15, 24, 32, 33, 34, 49),
    _SOL_TCP: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 18, 23, 24, 25, 30, 36, 37),
    _SOL_IPV6: (16, 17, 18, 19, 23, 24, 25, 26, 29, 49, 50, 51, 62, 66, 67, 70, 72),
}
"""Options of each protocol that set a number. Memberships, keys, headers and lists keep memory. See ip(7), tcp(7)."""
_MAP_HUGETLB, _MFD_HUGETLB, _SHM_HUGETLB = 0x40000, 4, 0o4000
_MAP_FIXED, _MREMAP_FIXED = 0x10, 2
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
_WITHOUT_EFFECT: Final = ("sync", "syncfs", "fsync", "fdatasync", "sync_file_range")
"""Would write out the host's disks; answered as done."""
_PR_SET_SECCOMP: Final = 22
_PR_SET_MM: Final = 35
_PR_SET_MEMORY_MERGE: Final = 67
"""Merges equal pages of a process with those of others, as MADV_MERGEABLE does for a part; writes then tell by time."""
_ARCH_ENABLE_TAGGED_ADDR: Final = 0x4002
_PRIO_PROCESS: Final = 0


class Instruction(NamedTuple):
    """One `struct sock_filter`."""

    code: int
    if_true: int
    if_false: int
    operand: int


Program = list[Instruction]


def wide(*, locks_asked: bool = False) -> Program:
    """The template's filter: the allow-list, plus what a worker needs to enter its jail.

    Args:
        locks_asked: Whether each request for a byte-range lock waits for whoever listens (`Filter.install_asking`).
    """
    special = {
        "socket": _only_families(_UNIX, *_INTERNET)[:-1] + _only_values(2, *_PROTOCOLS, refusal=errno.EPROTONOSUPPORT),
        "setsockopt": _only_known_options(),
        "msync": _without_effect_where(2, _MS_SYNC),
        "madvise": _refuse_values(2, _MADV_MERGEABLE, refusal=errno.EINVAL),
        "socketpair": _only_families(_UNIX),
        "ioctl": _refuse_values(1, _TIOCSTI, _TIOCLINUX, _TIOCSETD),
        **{name: [_errno(0)] for name in _WITHOUT_EFFECT},
        "fcntl": _locks(asked=locks_asked),
        "personality": _only_values(0, 0, 0xFFFFFFFF),
        "mmap": _refuse_bits(3, _MAP_HUGETLB, errno.ENOMEM),
        "memfd_create": _refuse_bits(1, _MFD_HUGETLB, errno.ENOMEM),
        "shmget": _refuse_bits(2, _SHM_HUGETLB, errno.ENOMEM),
    }
    return _compile(allow=ALLOWED | ENTRY, special=special, otherwise=_errno(errno.EPERM))


def narrow(*, internet: bool, namespaces: bool = True, apart: bool = False, guarded_below: int = 0) -> Program:
    """The worker's filter: takes the calls of `ENTRY` away, and internet sockets when there is no network.

    Args:
        guarded_below: Addresses below this one stay mapped as they are (jail/sealed.py).
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
        "prctl": _refuse_values(0, _PR_SET_SECCOMP, _PR_SET_MEMORY_MERGE),
        "setrlimit": [*_load_argument(0), Instruction(_JUMP_EQUAL, 0, 1, _RLIMIT_CORE), _errno(0), _answer(_ALLOW)],
        **{name: [_errno(errno.EPERM)] for name in refused},
    }
    if not namespaces:
        special |= {name: [_errno(errno.EPERM)] for name in _SHARED.split()}
        special |= {name: [_errno(0)] for name in _MODES.split()}
        special |= {name: _only_values(0, 0) for name in _ON_A_PROCESS.split()}
        special["prlimit64"] = _core_stays(_only_values(0, 0))
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
        special["prlimit64"] = _core_stays(_limits_of_others_are_only_read())
        special["socket"] = _only_streams() if internet else _only_families(_UNIX)
    if guarded_below:
        special |= _mappings_guarded(guarded_below)
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

    def install_asking(self) -> int:
        """The same, and a descriptor by which somebody answers for the calls that are to be asked about.

        Raises:
            KernelRefused: Also with EBUSY, where somebody listens to this process already.
        """
        return kernel.call("seccomp", _SET_MODE_FILTER, _NEW_LISTENER, self._header)


@functools.cache
def narrow_filter(*, internet: bool, namespaces: bool, apart: bool, guarded_below: int = 0) -> Filter:
    """`narrow` made ready. Call it in the template, so that workers find it in the cache."""
    return Filter(narrow(internet=internet, namespaces=namespaces, apart=apart, guarded_below=guarded_below))


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


def _refuse_values(index: int, *values: int, refusal: int = errno.EPERM) -> Program:
    checks = [Instruction(_JUMP_EQUAL, len(values) - i, 0, v) for i, v in enumerate(values)]
    return [*_load_argument(index), *checks, _answer(_ALLOW), _errno(refusal)]


def _refuse_bits(index: int, bits: int, refusal: int) -> Program:
    return [*_load_argument(index), Instruction(_JUMP_SET, 0, 1, bits), _errno(refusal), _answer(_ALLOW)]


def _without_effect_where(index: int, bits: int) -> Program:
    return _refuse_bits(index, bits, 0)


def _mappings_guarded(limit: int) -> dict[str, Program]:
    """Every call that changes what is mapped somewhere, refused where that begins below `limit`.

    Ranges only reach upwards, since the kernel takes none that wraps; so where one begins tells enough. Without a
    MAP_FIXED the kernel chooses a place where nothing is.
    Two more are about what other calls would do: the kernel takes its word from anybody where the heap begins
    (PR_SET_MM_MAP), and brk(2) then unmaps what lies there; and of tagged addresses it compares the lower part only.
    """
    refused = [_errno(errno.EPERM)]
    first = _where_below(0, limit, refused)
    fixed = _where_bits(3, _MAP_FIXED, first)
    moved = [*_where_below(0, limit, refused)[:-1], *_where_bits(3, _MREMAP_FIXED, _where_below(4, limit, refused))]
    return {
        **dict.fromkeys(("munmap", "mprotect", "pkey_mprotect", "madvise"), first),
        "mmap": fixed,
        "mremap": moved,
        "shmat": _where_below(1, limit, refused, unless_zero=True),
        "brk": _where_below(0, limit, refused, unless_zero=True),
        "prctl": _refuse_values(0, _PR_SET_SECCOMP, _PR_SET_MEMORY_MERGE, _PR_SET_MM),
        "arch_prctl": _refuse_values(0, _ARCH_ENABLE_TAGGED_ADDR),
    }


def _where_below(index: int, limit: int, then: Program, *, unless_zero: bool = False) -> Program:
    """Go through `then` where an argument of 64 bits is below `limit`; else allow."""
    high = [Instruction(_LOAD, 0, 0, _AT_ARGUMENT + 8 * index + 4)]
    zero = [Instruction(_JUMP_EQUAL, len(then), 0, 0)] if unless_zero else []
    skipped = len(then) + len(zero)
    return [
        *high,
        Instruction(_JUMP_EQUAL, 0, skipped + 2, 0),
        *_load_argument(index),
        Instruction(_JUMP_AT_LEAST, skipped, 0, limit),
        *zero,
        *then,
        _answer(_ALLOW),
    ]


def _where_bits(index: int, bits: int, then: Program) -> Program:
    """Go through `then` where an argument has one of these bits; else allow."""
    return [*_load_argument(index), Instruction(_JUMP_SET, 0, len(then), bits), *then, _answer(_ALLOW)]


def _locks(*, asked: bool) -> Program:
    """Leases and notifications are refused, locks of open files unknown, those of processes asked about."""
    return [
        *_load_argument(1),
        *(Instruction(_JUMP_EQUAL, 7 - i, 0, v) for i, v in enumerate((_SETLEASE, _NOTIFY))),
        *(Instruction(_JUMP_EQUAL, 6 - i, 0, v) for i, v in enumerate((_OFD_GETLK, _OFD_SETLK, _OFD_SETLKW))),
        *(Instruction(_JUMP_EQUAL, 4 - i, 0, v) for i, v in enumerate((_SETLK, _SETLKW))),
        _answer(_ALLOW),
        _errno(errno.EPERM),
        _errno(errno.EINVAL),
        _answer(_ASK if asked else _ALLOW),
    ]


def _only_known_options() -> Program:
    """Of `SOL_SOCKET` all but programs; of protocols those that are listed; others are answered as unknown."""
    unknown = _errno(errno.ENOPROTOOPT)
    program = [
        *_load_argument(1),
        Instruction(_JUMP_EQUAL, 0, len(_PROGRAMS_OF_SOCKETS) + 3, _SOL_SOCKET),
        *_refuse_values(2, *_PROGRAMS_OF_SOCKETS),
    ]
    for level, options in _KNOWN_OPTIONS.items():
        known = _only_values(2, *options, refusal=errno.ENOPROTOOPT)
        program += [Instruction(_JUMP_EQUAL, 0, len(known), level), *known]
    return [*program, unknown]


def _only_streams() -> Program:
    """Of the internet's families connections only: what waits in a socket of UDP is counted for no group (version 1),
    and drawn from a supply of the host's.
    """
    return [
        *_load_argument(0),
        Instruction(_JUMP_EQUAL, 0, 1, _UNIX),
        _answer(_ALLOW),
        *(Instruction(_JUMP_EQUAL, 2 - i, 0, family) for i, family in enumerate(_INTERNET)),
        _errno(errno.EPERM),
        *_load_argument(1),
        Instruction(_AND, 0, 0, _TYPE_MASK),
        Instruction(_JUMP_EQUAL, 1, 0, _STREAM),
        _errno(errno.EPROTONOSUPPORT),
        _answer(_ALLOW),
    ]


def _core_stays(rest: Program) -> Program:
    """A new limit of core dumps is answered as set, or refused where the old one is asked for with it.

    It could only be lowered to 0, which is less than it seems: see `rlimits`.
    """
    new, old = 2, 3
    return [
        *_load_argument(1),
        Instruction(_JUMP_EQUAL, 0, 10, _RLIMIT_CORE),
        *_load_argument(new),
        Instruction(_JUMP_EQUAL, 0, 2, 0),
        Instruction(_LOAD, 0, 0, _AT_ARGUMENT + 8 * new + 4),
        Instruction(_JUMP_EQUAL, 6, 0, 0),  # it is only read
        *_load_argument(old),
        Instruction(_JUMP_EQUAL, 0, 2, 0),
        Instruction(_LOAD, 0, 0, _AT_ARGUMENT + 8 * old + 4),
        Instruction(_JUMP_EQUAL, 1, 0, 0),
        _errno(errno.EPERM),
        _errno(0),
        *rest,
    ]


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
