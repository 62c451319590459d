"""The filter programs, run by a small machine made here, against what they are meant to say."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.jail import kernel, seccomp

NUMBERS = kernel.numbers()
NAMES = {number: name for name, number in NUMBERS.items()}
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[kernel.MACHINE]
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
NO_HUGE_PAGES = 0x50000 | errno.ENOMEM
NO_PROTOCOL = 0x50000 | errno.EPROTONOSUPPORT
NOTHING = 0x50000
"""Success, without anything having been done."""


def _verdict(program, number, arguments=(), architecture=ARCHITECTURE):
    """What the kernel would answer. Arguments are 64 bits wide; a filter sees the lower half at offset 16 + 8 n."""
    data = {0: number, 4: architecture}
    for index, argument in enumerate((*arguments, 0, 0, 0, 0, 0, 0)[:6]):
        data[16 + 8 * index], data[20 + 8 * index] = argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF
    accumulator = position = 0
    while True:
        code, if_true, if_false, operand = program[position]
        position += 1
        if code == 0x20:
            accumulator = data[operand]
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x05:
            position += operand
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}[
                code
            ]
            position += if_true if holds else if_false


ASK = 0x7FC00000
NO_OPTION, INVALID = 0x50000 | errno.ENOPROTOOPT, 0x50000 | errno.EINVAL
WIDE = seccomp.wide()
ASKING = seccomp.wide(locks_asked=True)
NARROW = {(i, n): seccomp.narrow(internet=i, namespaces=n) for i in (False, True) for n in (False, True)}
ALL = [WIDE, ASKING, *NARROW.values()]
ANSWERS = {ALLOW, EPERM, ENOSYS, NOTHING, NO_HUGE_PAGES, NO_PROTOCOL, NO_OPTION, INVALID, ASK}


def _both(number, arguments=(), *, internet=False, namespaces=True):
    """The stricter of the two answers: of errno and allow, errno."""
    answers = {_verdict(program, number, arguments) for program in (WIDE, NARROW[internet, namespaces])}
    return min(answers) if answers != {ALLOW} else ALLOW


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_every_program_ends_with_an_answer(number, arguments):
    for program in ALL:
        assert _verdict(program, number, arguments) in ANSWERS


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1).filter(lambda a: a != ARCHITECTURE))
def test_another_architecture_is_killed_whatever_it_calls(number, architecture):
    for program in ALL:
        assert _verdict(program, number, architecture=architecture) == KILL


@pytest.mark.parametrize("name", sorted(seccomp.ENTRY & NUMBERS.keys()))
def test_what_a_worker_needs_to_enter_is_taken_away_from_its_guest(name):
    assert _verdict(WIDE, NUMBERS[name]) == ALLOW
    assert _both(NUMBERS[name]) in (EPERM, ENOSYS)


def test_where_programs_are_kept_apart_the_worker_may_restrict_itself_and_make_no_ruleset():
    program = seccomp.narrow(internet=False, apart=True)
    answers = {name: _verdict(program, NUMBERS[name]) for name in NUMBERS if name.startswith("landlock_")}

    assert {name for name, answer in answers.items() if answer == ALLOW} == {"landlock_restrict_self"}
    assert set(answers.values()) == {ALLOW, EPERM}


def test_what_is_not_named_is_refused_and_what_is_unknown_does_not_exist():
    special = {"socket", "socketpair", "ioctl", "personality", "fcntl"}
    for number in range(max(NUMBERS.values()) + 1):
        name = NAMES.get(number)
        if name not in special and name not in seccomp.ALLOWED | seccomp.ENTRY:
            assert _verdict(WIDE, number) == EPERM, name
    for number in (max(NUMBERS.values()) + 1, 1000, 2**30 - 1, 2**31, 2**32 - 1):
        assert _verdict(WIDE, number) == ENOSYS


@given(st.integers(0, 2**30 - 1))
def test_the_bit_of_x32_makes_a_call_unknown(number):
    for program in ALL:
        assert _verdict(program, number | 0x40000000) == ENOSYS


@pytest.mark.parametrize("internet", [False, True])
@given(family=st.integers(0, 60))
def test_sockets_are_made_of_the_allowed_families_alone(internet, family):
    allowed = {1, 2, 10} if internet else {1}

    assert (_both(NUMBERS["socket"], [family, 1, 0], internet=internet) == ALLOW) is (family in allowed)


@given(protocol=st.integers(0, 300), family=st.sampled_from([2, 10]))
def test_sockets_are_made_of_the_usual_protocols_alone(protocol, family):
    allowed = protocol in (0, 1, 6, 17, 58)

    assert (_both(NUMBERS["socket"], [family, 1, protocol], internet=True) == ALLOW) is allowed


@pytest.mark.parametrize("type_", range(1, 11))
@pytest.mark.parametrize("family", [2, 10])
def test_sockets_of_the_internet_are_streams_alone(family, type_):
    """What waits in a socket of UDP is counted for no group."""
    assert (_both(NUMBERS["socket"], [family, type_ | 0o2000000, 0], internet=True) == ALLOW) is (type_ == 1)
    assert _both(NUMBERS["socket"], [1, type_, 0], internet=True) == ALLOW


@given(level=st.integers(0, 300), option=st.integers(0, 100))
def test_programs_of_sockets_and_options_that_keep_memory_are_unknown(level, option):
    answer = _both(NUMBERS["setsockopt"], [3, level, option], internet=True)

    if level == 1:
        assert (answer == EPERM) is (option in (26, 27, 44, 50, 51, 52, 68))
    else:
        assert (answer == ALLOW) is (option in seccomp._KNOWN_OPTIONS.get(level, ()))
        assert answer in (ALLOW, NO_OPTION)


@pytest.mark.parametrize(
    ("command", "answer"), [(5, ALLOW), (6, ASK), (7, ASK), (36, INVALID), (37, INVALID), (38, INVALID)]
)
def test_byte_range_locks_of_processes_are_asked_about_and_those_of_files_unknown(command, answer):
    assert _verdict(ASKING, NUMBERS["fcntl"], [3, command]) == answer
    assert _verdict(WIDE, NUMBERS["fcntl"], [3, command]) == (ALLOW if answer == ASK else answer)


@pytest.mark.parametrize("namespaces", [True, False])
@given(new=st.sampled_from([0, 1 << 32, 0x7FFF00001000]), old=st.sampled_from([0, 1 << 32, 0x7FFF00001000]))
def test_the_limit_of_cores_is_read_and_never_changed(namespaces, new, old):
    answer = _both(NUMBERS["prlimit64"], [0, 4, new, old], namespaces=namespaces)

    assert answer == (ALLOW if new == 0 else EPERM if old else NOTHING)


def test_writing_back_reaches_no_disk():
    names = [name for name in ("sync", "syncfs", "fsync", "fdatasync", "sync_file_range") if name in NUMBERS]

    assert {_both(NUMBERS[name], [3]) for name in names} == {NOTHING}
    assert _both(NUMBERS["msync"], [0, 4096, 4]) == NOTHING
    assert _both(NUMBERS["msync"], [0, 4096, 1]) == ALLOW


@given(st.integers(0, 2**32 - 1))
def test_no_new_namespace_comes_of_a_clone(flags):
    new = flags & (0x7E020080 | 0x8000)  # CLONE_PARENT: a sibling, which nobody would look for

    assert (_both(NUMBERS["clone"], [flags]) == ALLOW) is (new == 0)


@given(st.integers(0, 2**64 - 1))
def test_what_stands_in_the_upper_half_of_an_argument_changes_nothing(argument):
    """The kernel takes these arguments as 32 bits wide; a filter that compared 64 could be passed by."""
    for name in ("socket", "clone", "ioctl", "fcntl", "prctl"):
        arguments = [argument, argument]
        assert _both(NUMBERS[name], arguments) == _both(NUMBERS[name], [a & 0xFFFFFFFF for a in arguments])


@pytest.mark.parametrize("name", ["socket", "connect", "bind", "shmget", "semget", "msgget", "mq_open"])
def test_without_namespaces_nothing_with_a_name_is_shared(name):
    if name in NUMBERS:
        assert _both(NUMBERS[name], [1], namespaces=False) == EPERM


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("who", [0, 1, 1000])
def test_without_namespaces_only_the_own_priority_can_be_set(which, who):
    """That of a user, who may be the host's, would be that of every process the host has."""
    allowed = (which, who) == (0, 0)

    assert (_both(NUMBERS["setpriority"], [which, who, 19], namespaces=False) == ALLOW) is allowed


@pytest.mark.parametrize(
    ("name", "position", "bit"), [("mmap", 3, 0x40000), ("memfd_create", 1, 4), ("shmget", 2, 0o4000)]
)
@given(flags=st.integers(0, 2**32 - 1))
def test_huge_pages_are_as_if_there_were_none(name, position, bit, flags):
    arguments = [0] * 6
    arguments[position] = flags

    assert (_both(NUMBERS[name], arguments) == NO_HUGE_PAGES) is bool(flags & bit)


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [
        ("ioctl", 1, 0x5412),
        ("ioctl", 1, 0x541C),
        ("prctl", 0, 22),
        ("prctl", 0, 67),
        ("fcntl", 1, 1024),
        ("fcntl", 1, 1026),
        ("personality", 0, 8),
    ],
)
def test_single_values_are_refused(name, position, value):
    arguments = [0, 0]
    arguments[position] = value

    assert _both(NUMBERS[name], arguments) == EPERM


def test_no_program_is_longer_than_the_kernel_takes():
    assert all(len(program) <= 4096 for program in ALL)
    assert all(0 <= i.if_true < 256 and 0 <= i.if_false < 256 for program in ALL for i in program)
