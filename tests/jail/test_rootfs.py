"""The new root: what cannot be shown in it is refused by name, before anything is mounted."""

import pytest

from groundbox.jail import kernel, rootfs


@pytest.mark.parametrize("path", ["/tmp", "/tmp/home/venv", "/work/data", "/box/x", "/proc/1"])
def test_a_path_that_the_sandboxs_own_folders_cover_is_refused(path, monkeypatch):
    monkeypatch.setattr(kernel, "mount", lambda *_: pytest.fail("something was mounted"))

    with pytest.raises(OSError, match=f"{path} cannot be shown"):
        rootfs.build(["/usr/lib", path], uids=[1000])


def test_a_path_beside_them_is_not(monkeypatch):
    class Mounted(Exception):
        pass

    def mount(*_):
        raise Mounted

    monkeypatch.setattr(kernel, "mount", mount)

    with pytest.raises(Mounted):
        rootfs.build(["/tmpfs", "/workshop", "/var/lib"], uids=[1000])
