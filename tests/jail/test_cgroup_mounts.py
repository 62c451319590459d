"""Control groups that are mounted elsewhere, covered, unmounted or delegated while a process runs."""

import asyncio
import subprocess
import sys

import pytest

import groundbox as gb
from groundbox.errors import SandboxUnavailable
from groundbox.jail import cgroup

IN_A_NAMESPACE = """
import asyncio, os, re, subprocess, sys
import groundbox as gb
from groundbox.errors import SandboxUnavailable
from groundbox.jail import cgroup

def shell(command):
    subprocess.run(command, shell=True, check=True)

async def runs():
    ran = await gb.AsyncSandbox(profile="bare", limits=gb.Limits(wall_s=60)).run_last("print(6 * 7)")
    return ran.stdout

async def refusal():
    try:
        await runs()
    except SandboxUnavailable as refused:
        return str(refused)
    return "nothing was refused"
"""


def in_a_namespace(program, *arguments):
    """Run a program as root that mounts what it likes, in a mount namespace of its own."""
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", IN_A_NAMESPACE + program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_an_engine_that_was_refused_groups_asks_again(monkeypatch):
    there = cgroup.find

    def refuse():
        raise cgroup.CgroupMissing("no group can be made")

    async def run_before_and_after_a_delegation():
        box = gb.AsyncSandbox(profile="bare")
        monkeypatch.setattr(cgroup, "find", refuse)
        with pytest.raises(SandboxUnavailable, match="no group can be made"):
            await box.run_last("print(1)")
        monkeypatch.setattr(cgroup, "find", there)
        return await gb.AsyncSandbox(profile="bare").run_last("print(6 * 7)")

    ran = asyncio.run(run_before_and_after_a_delegation())

    assert ran.stdout == "42\n"
    assert "cgroup" in ran.isolation.layers


COVERED = """
async def main():
    print((await runs()).strip())
    shell("mount -t tmpfs none /sys/fs/cgroup")
    said = await refusal()
    print(said)
    shell(re.search(r"`(umount .*?)`", said)[1])
    print((await runs()).strip())
asyncio.run(main())
"""


@pytest.mark.needs_root
def test_groups_covered_by_another_mount_are_found_again_by_the_remedy():
    first, said, last = in_a_namespace(COVERED).splitlines()

    assert (first, last) == ("42", "42")
    assert "another mount covers the control groups at /sys/fs/cgroup. Uncover them: `umount /sys/fs/cgroup`" in said


UNMOUNTED = """
async def main():
    print((await runs()).strip())
    shell("umount --recursive --lazy /sys/fs/cgroup")
    said = await refusal()
    print(said)
    shell(re.search(r"Mount (?:it|them): `(.*?)`", said)[1])
    print((await runs()).strip())
asyncio.run(main())
"""


@pytest.mark.needs_root
def test_groups_that_were_unmounted_are_found_again_by_the_remedy():
    first, said, last = in_a_namespace(UNMOUNTED).splitlines()

    assert (first, last) == ("42", "42")
    assert "no cgroup file system with the memory and pids controllers is mounted" in said


IN_A_CHROOT = """
before = cgroup.find()
for controller, (point, _) in cgroup._mounts().items():
    if "=" not in controller:
        folder = f"{sys.argv[1]}/with blanks/sys/fs/cgroup/{controller or 'unified'}"
        os.makedirs(folder)
        kind = f"cgroup -o {controller}" if controller else "cgroup2"
        shell(f"mount -t {kind} none '{folder}'")
print(cgroup.find() == before)
shell("umount --recursive --lazy /sys/fs/cgroup")
print(all(folder.startswith(sys.argv[1]) for folder in cgroup.find().folders()))
"""


@pytest.mark.needs_root
def test_a_mount_in_a_chroot_is_used_only_if_there_is_no_other(tmp_path):
    assert in_a_namespace(IN_A_CHROOT, tmp_path) == "True\nTrue\n"
