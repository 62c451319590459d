"""What a host process that was killed leaves of control groups, and who removes it."""

import os
import subprocess
import sys

import pytest

from groundbox.jail import cgroup

KILLED = """
import os, signal
from groundbox.jail import cgroup
own = cgroup.own_hierarchy(cgroup.find())
group = cgroup.Cgroup(own, "one")
if os.fork() == 0:
    for descriptor in group.join_descriptors(): os.write(descriptor, b"0")
    print(*own.folders(), flush=True)
    signal.pause()
signal.pause()
"""


@pytest.mark.needs_root(reason="to make groups beside the own one")
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted: stays"])
def test_groups_under_another_parent_are_removed_by_the_next_host_process(noted, monkeypatch):
    """As after a login whose group is gone with it: the next one looks in another place."""
    elsewhere = f"/groundbox-test-{os.getpid()}"
    environ = {**os.environ, "GROUNDBOX_CGROUP": elsewhere}
    host = subprocess.Popen([sys.executable, "-c", KILLED], env=environ, stdout=subprocess.PIPE, text=True)
    folders = host.stdout.readline().split()
    host.kill()
    host.wait()
    host.stdout.close()

    with monkeypatch.context() as patched:
        if not noted:
            patched.setattr(cgroup, "_listed", dict)
        removed = cgroup.remove_abandoned(cgroup.find())

    try:
        assert [folder for folder in folders if elsewhere in folder] == folders != []
        assert set(folders) <= set(removed) if noted else not set(folders) & set(removed)
        assert [os.path.isdir(folder) for folder in folders] == [not noted] * len(folders)
        assert (os.path.basename(folders[0]) in cgroup._listed()) is not noted
    finally:
        cgroup.remove_abandoned(cgroup.find())
        for folder in folders:
            os.rmdir(os.path.dirname(folder))


def test_groups_of_a_living_host_process_stay():
    try:
        found = cgroup.find()
    except OSError as error:
        pytest.skip(f"no control groups: {error}")
    own = cgroup.own_hierarchy(found)

    removed = cgroup.remove_abandoned(found)

    assert not set(own.folders()) & set(removed)
    assert cgroup._listed()[os.path.basename(own.folders()[0])] == own.folders()
    cgroup.remove_own(own)
    assert os.path.basename(own.folders()[0]) not in cgroup._listed()
