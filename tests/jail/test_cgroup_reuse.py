"""A control group that is used again must know nothing of whoever had it before."""

import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from groundbox.jail import cgroup

MiB = 1 << 20
BUSY = "data = b'x' * (64 << 20)\nfor n in range(3_000_000): pass"


@pytest.fixture
def hierarchy() -> Iterator[cgroup.Hierarchy]:
    try:
        found = cgroup.find()
    except cgroup.CgroupMissing as missing:
        pytest.skip(str(missing))
    if found.version != 1:
        pytest.skip("only groups of version 1 are used again")
    own = cgroup.own_hierarchy(found)
    yield own
    cgroup.remove_own(own)


def _run_in(group: cgroup.Cgroup, program: str, *inherited: int) -> subprocess.Popen[bytes]:
    descriptors = group.join_descriptors()

    def join() -> None:
        for descriptor in descriptors:
            os.write(descriptor, b"0")

    process = subprocess.Popen(
        [sys.executable, "-S", "-c", program], preexec_fn=join, pass_fds=inherited, stdout=subprocess.PIPE
    )
    for descriptor in descriptors:
        os.close(descriptor)
    return process


def test_a_group_used_again_counts_from_zero(hierarchy: cgroup.Hierarchy) -> None:
    group = cgroup.Cgroup(hierarchy, "1")
    assert _run_in(group, BUSY).wait() == 0
    before = group.cpu_s(), group.peak_memory_bytes()

    again = group.renewed()

    assert before[0] > 0.02
    assert before[1] is not None
    assert before[1] > 64 * MiB
    assert again is not None
    peak = again.peak_memory_bytes()
    assert (again.cpu_s(), again.process_count(), again.out_of_memory_kills()) == (0.0, 0, 0)
    assert peak is not None
    assert peak <= MiB


def test_a_kill_at_the_memory_limit_is_not_counted_twice(hierarchy: cgroup.Hierarchy) -> None:
    group = cgroup.Cgroup(hierarchy, "1")
    group.limit(memory_bytes=32 * MiB, process_count=10)
    assert _run_in(group, BUSY).wait() == -signal.SIGKILL
    assert group.out_of_memory_kills() == 1

    again = group.renewed()

    assert again is not None
    assert again.out_of_memory_kills() == 0
    assert _run_in(again, BUSY).wait() == -signal.SIGKILL
    assert again.out_of_memory_kills() == 1


def test_a_group_with_a_member_is_not_used_again(hierarchy: cgroup.Hierarchy) -> None:
    group = cgroup.Cgroup(hierarchy, "1")
    process = _run_in(group, "import time; print(flush=True); time.sleep(60)")
    assert process.stdout is not None
    process.stdout.readline()

    again = group.renewed()

    assert again is None
    group.kill()
    process.wait()
    assert group.renewed() is not None


def test_a_group_that_still_holds_memory_is_not_used_again(hierarchy: cgroup.Hierarchy) -> None:
    file = os.memfd_create("held")
    group = cgroup.Cgroup(hierarchy, "1")
    assert _run_in(group, f"import os; os.write({file}, b'x' * (8 << 20))", file).wait() == 0

    again = group.renewed()

    assert again is None
    os.close(file)


def test_who_had_a_group_before_learns_nothing_of_the_next(hierarchy: cgroup.Hierarchy) -> None:
    group = cgroup.Cgroup(hierarchy, "1")
    again = group.renewed()
    assert again is not None

    assert group.peak_memory_bytes() is None
    with pytest.raises(FileNotFoundError):
        group.cpu_s()
    with pytest.raises(FileNotFoundError):
        group.process_count()
    assert group.remove() is True
    assert again.process_count() == 0


@pytest.mark.alone
@pytest.mark.parametrize("emptied", [True, False], ids=["emptied: gone", "not emptied: stays"])
def test_a_group_is_gone_from_the_kernel_when_its_pages_are(
    hierarchy: cgroup.Hierarchy, tmp_path: pathlib.Path, emptied: bool
) -> None:
    """A removed group lives on, unseen, for as long as a page of a file is charged to it. 30 are many enough to see.

    The count is the machine's: groups of others come and go in between, so three tries have a say.
    """
    gone = []
    for trial in range(3):
        groups = [cgroup.Cgroup(hierarchy, f"{trial}-{number}") for number in range(30)]
        for number, group in enumerate(groups):
            writes = f"open('{tmp_path}/{trial}-{number}', 'wb').write(bytes(1 << 20))"
            assert _run_in(group, writes).wait() == 0
            assert group.holds_pages() is True

        before = _memory_groups()
        for group in groups:
            if emptied:
                group.let_go()
            assert group.remove() is True
        time.sleep(0.5)  # the kernel frees them by and by
        gone.append(before - _memory_groups())

    assert (statistics.median(gone) > 15) is emptied, gone


def test_names_that_a_guest_looked_up_in_vain_are_not_kept(hierarchy: cgroup.Hierarchy, tmp_path: pathlib.Path) -> None:
    """The kernel keeps each until memory is short, also when who looked is gone."""
    group = cgroup.Cgroup(hierarchy, "1")
    before = _names_in_vain()
    looks = f"import os\nfor n in range(40_000): os.path.exists(f'{tmp_path}/{{n}}')"

    assert _run_in(group, looks).wait() == 0
    kept = _names_in_vain() - before
    held = group.holds_pages()
    group.let_go()

    assert (kept > 30_000, held) == (True, True)
    assert _names_in_vain() - before < 10_000


def _names_in_vain() -> int:
    """Of the whole host: proc_sys_fs(5)."""
    return int(pathlib.Path("/proc/sys/fs/dentry-state").read_text().split()[4])


def _memory_groups() -> int:
    """All that the kernel has, removed ones as well."""
    with open("/proc/cgroups") as file:
        return next(int(line.split()[2]) for line in file if line.startswith("memory"))
