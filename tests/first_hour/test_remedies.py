"""Each remedy that doctor prints for a host works when it is followed to the letter."""

import asyncio
import os
import re
import subprocess
import sys

import pytest

import groundbox as gb
from groundbox.errors import SandboxUnavailable
from groundbox.jail import landlock

RUN = f"{sys.executable} -m groundbox run --no-engine -c 'print(6 * 7)'"
DOCTOR = f"{sys.executable} -m groundbox doctor"


def in_a_namespace(script, *, user=False):
    """Run a shell script in namespaces of its own, so that it can take away what it likes."""
    command = ["unshare", "--mount", *(["--user", "--map-root-user"] if user else []), "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def layer(said, name):
    """The line of a layer and the line after it."""
    lines = said.splitlines()
    at = next(number for number, line in enumerate(lines) if re.match(rf"\S+ +{name}: ", line))
    return lines[at], lines[at + 1].strip()


TAKEN = {
    "proc": ("platform", "umount --recursive --lazy /proc", "without /proc"),
    "devices": ("platform", "mount --bind /mnt /dev", "without /dev/null, /dev/zero"),
    "groups covered": ("cgroup", "mount -t tmpfs none /sys/fs/cgroup", "another mount covers the control groups"),
    "groups unmounted": ("cgroup", "umount --recursive --lazy /sys/fs/cgroup", "no cgroup file system"),
    "groups and sysfs": ("cgroup", "umount --recursive --lazy /sys", "no cgroup file system"),
}


@pytest.mark.needs_root
@pytest.mark.parametrize("what", TAKEN)
def test_what_is_not_mounted_is_there_after_the_printed_command(what):
    name, take_away, words = TAKEN[what]

    found, remedy = layer(in_a_namespace(f"{take_away}; {DOCTOR}"), name)
    assert found.startswith("MISSING")
    assert words in found

    command = re.search("`(.*?)`", remedy)[1]
    found, _ = layer(in_a_namespace(f"{take_away}; {command} && {DOCTOR}"), name)
    assert found.startswith("ok"), found


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["user", "mnt", "net", "pid"])
def test_namespaces_that_are_switched_off_are_there_after_the_printed_command(kind):
    take_away = f"echo 0 >/proc/sys/user/max_{kind}_namespaces"

    found, remedy = layer(in_a_namespace(f"{take_away}; {DOCTOR}", user=True), "namespaces")
    assert found.startswith("MISSING")

    command = re.search("`(.*?)`", remedy)[1]
    found, _ = layer(in_a_namespace(f"{take_away}; {command} && {DOCTOR}", user=True), "namespaces")
    assert found.startswith("ok"), found


@pytest.mark.needs_root
def test_a_chroot_is_named_and_entered_by_the_printed_command(tmp_path):
    fill = "".join(
        f"mkdir -p {tmp_path}/{name} && mount --rbind /{name} {tmp_path}/{name}\n"
        for name in sorted(os.listdir("/"))
        if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}") and name not in ("mnt", "tmp")
    )
    fill += "".join(
        f"ln -sfn {os.readlink(f'/{name}')} {tmp_path}/{name}\n"
        for name in os.listdir("/")
        if os.path.islink(f"/{name}")
    )
    fill += f"mkdir -p {tmp_path}/mnt {tmp_path}/tmp && mount --bind /tmp {tmp_path}/tmp\n"  # the checkout may be there

    found, remedy = layer(in_a_namespace(f"{fill}\nchroot {tmp_path} {DOCTOR}"), "namespaces")
    assert found.startswith("MISSING")
    assert remedy.startswith("This is a chroot")

    command = re.search("`(.*?)`", remedy)[1].replace("ROOT", str(tmp_path))
    found, _ = layer(in_a_namespace(f"{fill}\necho '{DOCTOR}' | {command}"), "namespaces")
    assert found.startswith("ok"), found


@pytest.mark.needs_root
def test_root_of_a_user_namespace_is_refused_and_may_waive_its_ids():
    found, remedy = layer(in_a_namespace(DOCTOR, user=True), "uid")
    assert found.startswith("MISSING")
    assert in_a_namespace(f"{RUN} 2>&1", user=True).endswith(f"{remedy}\n")

    option = re.search("`(.*?)`", remedy)[1]
    assert in_a_namespace(f"{RUN} {option}", user=True) == "42\n"
    assert in_a_namespace(f"{DOCTOR} {option}", user=True).splitlines()[-1].startswith("groundbox: ready")


def test_a_kernel_without_landlock_is_refused_with_what_does_without(monkeypatch):
    def run(**given):  # in a loop of its own, because what the kernel has is asked once for each
        return asyncio.run(gb.run_async("print(6 * 7)", profile="bare", engine="own", **given))

    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(SandboxUnavailable) as refused:
        run()

    layers = re.search(r"in Python `waive=\['(\w+)'\]`", str(refused.value))[1]
    ran = run(waive=[layers])
    assert (ran.outcome, ran.stdout) == ("ok", "42\n")
