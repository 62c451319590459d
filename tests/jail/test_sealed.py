"""Sealed programs and keepers, without the rest of a sandbox: what a guest that shares all memory with one can do.

Each scene runs in a process of its own (sealed_scenes.py), because keepers take up fixed descriptors and addresses.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groundbox.jail import kernel, sealed, seccomp

pytestmark = [
    pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="sealed programs are for x86_64"),
    pytest.mark.needs_root(reason="a keeper needs a privilege that its guest has not"),
]
SCENES = Path(__file__).with_name("sealed_scenes.py")
NUMBERS = kernel.numbers()


def _scene(name, *arguments):
    command = [sys.executable, str(SCENES), name, *arguments]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_a_copy_has_the_memory_of_its_moment_and_is_process_1_of_its_own():
    told = _scene("copies")

    assert told == {"live": [3, 1], "copy": [2, 1], "copy of the copy": [2, 1]}


@pytest.mark.parametrize("way", ["munmap", "mprotect", "mmap", "mremap away", "mremap over", "shmat", "madvise", "brk"])
def test_a_guest_cannot_change_what_its_keeper_runs(way):
    """The guest puts code of its own where the keeper's lies, which would end the keeper with a number of its own."""
    assert _scene("replace", way, "guarded") == {"refused": True, "keeper": "copies"}


@pytest.mark.parametrize("way", ["munmap", "mmap", "mremap over", "shmat", "brk"])
def test_without_the_guard_a_guest_has_its_keeper_run_what_it_likes(way):
    assert _scene("replace", way, "open") == {"refused": False, "keeper": "ran the guest's code"}


def test_not_even_the_kernels_own_way_writes_into_sealed_code():
    """/proc/PID/mem writes into private pages that are only readable; control: a private copy of the same code."""
    assert _scene("proc_mem") == {"sealed": "refused", "private": "written"}


def test_nothing_of_the_kernel_acts_on_a_keepers_memory():
    """A registered restartable sequence would let the guest choose where its keeper goes on; control: before."""
    told = _scene("surroundings")

    has_none = told["rseq before"] == "no such call"  # a kernel without CONFIG_RSEQ
    assert told == {
        "rseq before": "no such call" if has_none else "registered",
        "rseq after": "no such call" if has_none else "none",
        "blocked": "fffffffffffbfeff",  # but those that nobody can block
    }


def test_the_answer_of_a_keeper_that_has_died_since_is_its_own_and_of_no_later_order():
    """Taken for the answer to the next order, it would give one sandbox the memory of another."""
    assert _scene("dies", "after it answered") == {"adopted": True, "refused": False, "children": 1}


def test_a_copy_of_which_its_keeper_could_not_tell_is_ended():
    """It would wait at a number that is another's soon, and carry out what that one is told."""
    assert _scene("dies", "before it answers") == {"adopted": False, "refused": True, "children": 0}


def test_without_a_look_at_its_mappings_a_copy_would_share_memory():
    """Why the template looks (Branches.refuse_shared_memory): what one writes, the other reads."""
    assert _scene("shared") == {"live reads": "written by the copy"}


def test_the_guard_refuses_low_addresses_in_whatever_call_and_no_others():
    from groundbox.jail.sealed import CODE_AT, GUARDED_BELOW

    program = seccomp.narrow(internet=False, guarded_below=GUARDED_BELOW)
    open_ = seccomp.narrow(internet=False)
    calls = {
        "munmap": lambda at: (at, 4096),
        "mprotect": lambda at: (at, 4096, 7),
        "pkey_mprotect": lambda at: (at, 4096, 7, 0),
        "madvise": lambda at: (at, 4096, 4),
        "mmap": lambda at: (at, 4096, 7, 0x32),
        "mremap": lambda at: (at, 4096, 4096, 1),
        "shmat": lambda at: (0, at, 0),
        "brk": lambda at: (at,),
    }

    refused = {(name, at) for name, made in calls.items() for at in ADDRESSES if _errno_of(program, name, made(at))}
    target = {at for at in ADDRESSES if _errno_of(program, "mremap", (1 << 40, 4096, 4096, 3, at))}
    hints = {at for at in ADDRESSES if _errno_of(program, "mmap", (at, 4096, 7, 0x22))}

    low = {at for at in ADDRESSES if at < GUARDED_BELOW}
    assert CODE_AT in low
    assert refused == {(name, at) for name in calls for at in low if (name, at) not in {("shmat", 0), ("brk", 0)}}
    assert (target, hints) == (low, set())
    assert not any(_errno_of(open_, name, made(at)) for name, made in calls.items() for at in ADDRESSES)


@pytest.mark.parametrize(("name", "option"), [("prctl", 35), ("arch_prctl", 0x4002)], ids=["heap", "tags"])
def test_the_guard_refuses_what_would_let_other_calls_reach_low_addresses(name, option):
    """PR_SET_MM and ARCH_ENABLE_TAGGED_ADDR, also with something in the upper half, which the kernel does not read."""
    guarded, open_ = (seccomp.narrow(internet=False, guarded_below=at) for at in (sealed.GUARDED_BELOW, 0))
    asked = [(option, 0), (option | 1 << 32, 0)]

    assert [_errno_of(guarded, name, each) for each in asked] == [True, True]
    assert [_errno_of(open_, name, each) for each in asked] == [False, False]
    assert _errno_of(guarded, "prctl", (22, 0))
    assert not _errno_of(guarded, name, (15, 0))


ADDRESSES = (
    0,
    4096,
    sealed.CODE_AT,
    sealed.GUARDED_BELOW - 1,
    sealed.GUARDED_BELOW,
    1 << 32,
    (1 << 32) + 4096,
    1 << 46,
)


def _errno_of(program, name, arguments):
    """Whether the program refuses; see tests/jail/test_seccomp.py for the machine."""
    data = {0: NUMBERS[name], 4: 0xC000003E}
    for index, argument in enumerate((*arguments, 0, 0, 0, 0, 0, 0)[:6]):
        data[16 + 8 * index], data[20 + 8 * index] = argument & 0xFFFFFFFF, argument >> 32
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
            return operand != 0x7FFF0000
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}
            position += if_true if holds[code] else if_false
