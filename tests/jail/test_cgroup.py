"""Control groups of version 2 in the places where programs are started: a container, a service, a user's scope."""

import os
import subprocess
import sys

import pytest

from groundbox.jail import cgroup

STARTED = """
import ctypes, os, sys
place, in_namespace, uid = sys.argv[1], sys.argv[2] == "True", int(sys.argv[3])
with open(f"{place}/cgroup.procs", "w") as file:
    file.write("0")
if in_namespace:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x02000000 | 0x00020000) == 0  # cgroup and mount
    assert libc.mount(None, b"/", None, 16384 | 1 << 18, None) == 0
    assert libc.umount2(MOUNT.encode(), 2) == 0
    assert libc.mount(b"cgroup2", MOUNT.encode(), b"cgroup2", 0, None) == 0
from groundbox.jail import cgroup  # by root, whose interpreter may lie where others cannot enter
if uid:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
try:
    own = cgroup.own_hierarchy(cgroup.find())
    group = cgroup.Cgroup(own, "one")
    group.limit(memory_bytes=1 << 26, process_count=7)
    for descriptor in group.join_descriptors():
        os.write(descriptor, b"0")
    folder = group._folders["memory"]
    print(tuple(open(f"{folder}/{name}").read().strip() for name in ("memory.max", "pids.max", "cgroup.procs")) == (
        str(1 << 26), "7", str(os.getpid())))
    print(group.cpu_s() >= 0, group.process_count())
except cgroup.CgroupMissing as missing:
    print(missing)
"""


def _mount():
    try:
        found = cgroup.find()
    except OSError as error:
        pytest.skip(f"no control groups: {error}")
    if found.version != 2:
        pytest.skip("this host has control groups of version 1")
    return cgroup._mounts()[""][0]


@pytest.fixture
def place():
    """A group of its own below the root, with controllers as an init system gives them."""
    mount = _mount()
    folder = f"{mount}/groundbox-test-{os.getpid()}"
    os.makedirs(f"{folder}/inner")
    yield mount, folder
    cgroup._remove_tree(folder)


def _enable(*folders, controllers="+memory +pids"):
    for folder in folders:
        with open(f"{folder}/cgroup.subtree_control", "w") as file:
            file.write(controllers)


def _start(mount, place, *, in_namespace=False, uid=0):
    source = STARTED.replace("MOUNT", repr(mount))
    command = [sys.executable, "-c", source, place, str(in_namespace), str(uid)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stderr == ""
    return ran.stdout


STANDS = "True\nTrue 1\n"


@pytest.mark.needs_root
def test_limits_stand_in_a_service(place):
    mount, folder = place
    _enable(mount)

    assert _start(mount, folder) == STANDS


@pytest.mark.needs_root
def test_limits_stand_in_a_container_whose_root_group_holds_its_processes(place):
    mount, folder = place
    _enable(mount)

    assert _start(mount, folder, in_namespace=True) == STANDS


@pytest.mark.needs_root
def test_limits_stand_in_a_scope_that_was_given_to_a_user(place):
    mount, folder = place
    _enable(mount, folder)
    for path in (f"{folder}/inner", f"{folder}/inner/cgroup.procs", f"{folder}/inner/cgroup.subtree_control"):
        os.chown(path, 65534, 65534)

    assert _start(mount, f"{folder}/inner", uid=65534) == STANDS


@pytest.mark.needs_root
def test_a_place_without_controllers_is_refused_with_the_reason(place):
    mount, folder = place
    for path in (f"{folder}/inner", f"{folder}/inner/cgroup.procs", f"{folder}/inner/cgroup.subtree_control"):
        os.chown(path, 65534, 65534)

    told = _start(mount, f"{folder}/inner", uid=65534)

    assert f"{folder}/inner/groundbox: the controllers memory, pids cannot be switched on" in told


@pytest.mark.needs_root
def test_a_place_to_which_processes_cannot_be_moved_is_refused_with_the_reason(place):
    mount, folder = place
    _enable(mount, folder)
    given = f"{folder}/groundbox-65534"
    os.mkdir(given)
    for path in (given, f"{given}/cgroup.procs", f"{given}/cgroup.subtree_control"):
        os.chown(path, 65534, 65534)

    told = _start(mount, f"{folder}/inner", uid=65534)

    assert f"{given}: processes of {folder}/inner cannot be moved there" in told


@pytest.mark.parametrize(("counted", "told"), [(["memory.memsw.limit_in_bytes"], ""), ([], "0")])
def test_memory_that_is_swapped_out_is_counted_or_there_is_none(tmp_path, counted, told):
    """Version 1 counts swap only where it was told to at boot, so that files stand for the kernel's here."""
    for name in counted:
        (tmp_path / name).touch()
    group = cgroup.Cgroup(cgroup.Hierarchy(1, dict.fromkeys(cgroup.CONTROLLERS, str(tmp_path))), "one")
    for name in ("memory.limit_in_bytes", "memory.swappiness", "pids.max", *counted):
        (tmp_path / "one" / name).touch()

    group.limit(memory_bytes=1 << 26, process_count=7)

    assert (tmp_path / "one" / "memory.swappiness").read_text() == told


FREEZES = """
import os, select, signal, subprocess, sys
from groundbox.jail import cgroup
parent = sys.argv[1]
if subprocess.run(["mount", "-t", "cgroup2", "none", parent], capture_output=True).returncode:
    sys.exit("version 2 cannot be mounted here")
group = cgroup.Cgroup(cgroup.Hierarchy(2, dict.fromkeys(("memory", "pids", "cpu"), parent)), f"freeze-{os.getpid()}")
folder = group._folders["pids"]
(join,) = group.join_descriptors()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(join, b"0")
    while True:
        os.write(writer, b"." * 512)
os.close(writer)
def events():
    return open(f"{folder}/cgroup.events").read()
def goes_on():
    os.set_blocking(reader, True)
    return len(os.read(reader, 1 << 20)) > 0
def settle(frozen):
    group.freeze(frozen)
    poll = select.poll()
    file = open(f"{folder}/cgroup.events")
    poll.register(file, select.POLLPRI)
    while f"frozen {int(frozen)}" not in events():
        poll.poll(1000)
def still():
    os.set_blocking(reader, False)
    try:
        while os.read(reader, 1 << 20): pass
    except BlockingIOError:
        return not select.select([reader], [], [], 0.2)[0]
try:
    print(goes_on())
    settle(True)
    print(still())
    settle(False)
    print(goes_on(), goes_on())
    settle(True)
    os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1])
finally:
    group.kill()
    group.remove()
"""


@pytest.mark.needs_root
def test_a_frozen_group_stands_still_goes_on_and_can_be_ended(tmp_path):
    """Version 2 can be mounted beside version 1, without controllers, which freezing needs none of."""
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", FREEZES, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    if "cannot be mounted" in ran.stderr:
        pytest.skip(ran.stderr)

    assert (ran.stdout, ran.stderr) == ("True\nTrue\nTrue True\n9\n", "")


def test_a_group_that_somebody_has_removed_is_not_there_although_its_files_are_open():
    try:
        own = cgroup.own_hierarchy(cgroup.find())
    except OSError as error:
        pytest.skip(f"no control groups: {error}")
    try:
        group = cgroup.Cgroup(own, "one")
        group.keep_open()
        assert group.process_count() == 0
        for folder in set(group._folders.values()):
            os.rmdir(folder)

        with pytest.raises(FileNotFoundError):
            group.process_count()
    finally:
        cgroup.remove_own(own)


def test_the_kernel_ends_a_whole_group_unless_checkpoints_are_in_it(tmp_path):
    """As files, so that it is told on every host; the limits of a pool come before the first keeper."""
    group = cgroup.Cgroup(cgroup.Hierarchy(2, dict.fromkeys(("memory", "pids", "cpu"), str(tmp_path))), "one")
    for name in ("memory.max", "memory.oom.group", "pids.max"):
        (tmp_path / "one" / name).touch()
    seen = []

    group.limit(memory_bytes=1 << 26, process_count=7)
    for more in (0, 1, 1, -2):
        group.count_keepers(more)
        seen.append([(tmp_path / "one" / name).read_text() for name in ("memory.oom.group", "pids.max")])

    assert seen == [["1", "7"], ["0", "8"], ["0", "9"], ["1", "7"]]


@pytest.mark.parametrize(
    ("version", "release", "options", "told"),
    [
        (2, "6.8.0-31-generic", "rw,nsdelegate", "mount -o remount,rw,nsdelegate,favordynmods /sys/fs/cgroup"),
        (2, "6.18.44", "rw,favordynmods,nsdelegate", ""),
        (2, "5.15.0", "rw,nsdelegate", ""),
        (1, "6.18.44", "rw", ""),
    ],
)
def test_a_host_on_which_joining_a_group_waits_for_all_threads_is_told_what_to_do(version, release, options, told):
    mountinfo = f"25 30 0:23 / /proc rw - proc proc rw\n33 31 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 {options}\n"
    found = cgroup.Hierarchy(version, {})

    assert cgroup.joining_waits(found, release=release, mountinfo=mountinfo) == told


DELEGATED = """
import os, subprocess, sys
place, uid = sys.argv[1], int(sys.argv[2])
from groundbox.jail import cgroup
def become():
    with open(f"{place}/cgroup.procs", "w") as file:
        file.write("0")
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
before, after, told = os.pipe(), os.pipe(), []
child = os.fork()
if child == 0:
    become()
    for wait in (None, after[0]):
        if wait is not None:
            os.read(wait, 1)
        try:
            own = cgroup.own_hierarchy(cgroup.find())
            group = cgroup.Cgroup(own, "one")
            group.limit(memory_bytes=1 << 26, process_count=7)
            for descriptor in group.join_descriptors():
                os.write(descriptor, b"0")
            print(group.process_count(), flush=True)
        except cgroup.CgroupMissing as missing:
            print("refused", flush=True)
        os.write(before[1], b"1")
    os._exit(0)
os.read(before[0], 1)
with open(f"{sys.argv[3]}/cgroup.procs", "w") as file:
    file.write("0")
cgroup.delegate(uid, uid)
cgroup.delegate(uid, uid)
os.write(after[1], b"1")
os.waitpid(child, 0)
"""


def _delegate(login, caller):
    """What a login of an ordinary user prints before and after root, in another group, has delegated."""
    command = [sys.executable, "-c", DELEGATED, login, "65534", caller]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.stderr == ""
    return ran.stdout


@pytest.mark.needs_root
def test_a_delegation_reaches_a_login_of_systemd(place):
    mount, folder = place
    above = f"{mount}/user.slice/user-65534.slice"
    if os.path.exists(above):
        pytest.skip("the user nobody is logged in here")
    os.makedirs(f"{above}/session-1.scope")
    try:
        _enable(mount, f"{mount}/user.slice", above)

        assert _delegate(f"{above}/session-1.scope", f"{folder}/inner") == "refused\n1\n"
        assert os.stat(f"{above}/session-1.scope/cgroup.procs").st_uid == 0
    finally:
        cgroup._remove_tree(above)


@pytest.mark.needs_root
def test_a_delegation_without_systemd_reaches_processes_that_run(place):
    mount, folder = place
    _enable(mount)

    assert _delegate(folder, folder) == "refused\n1\n"
    assert os.stat(f"{folder}/cgroup.procs").st_uid == 0


@pytest.mark.needs_root
def test_a_program_started_within_a_given_group_uses_the_same_place(place):
    """A group `host` is made for processes once, and not another one in it for each process below."""
    mount, folder = place
    _enable(mount)
    os.mkdir(f"{folder}/host")

    assert _start(mount, folder) == STANDS
    assert _start(mount, f"{folder}/host") == STANDS

    assert not os.path.exists(f"{folder}/host/groundbox")
