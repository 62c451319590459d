"""The new root: what cannot be shown in it is refused by name, before anything is mounted."""

import os

import pytest

from groundbox import Limits, MiB, Sandbox
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


LARGER = """
import os, sys
def used():
    there = os.statvfs('.')
    return (there.f_blocks - there.f_bfree) * there.f_bsize
before = used()
with open('whole', 'wb') as file: file.write(bytes([1]) * 1_000_000)
with open('bit by bit', 'wb', buffering=0) as file:
    for _ in range(300): file.write(bytes([1]) * 1000)
for number in range(50): open(f'small-{number}', 'w').write('x')
print(used() - before)
full = open('full', 'wb', buffering=0)
try:
    while True: full.write(bytes([1]) * 1_000_000)
except OSError as error: print(error.strerror, used() > 7.9 * 2 ** 20)
"""


def test_larger_pages_take_no_room_of_a_sandbox_that_its_files_have_not_filled():
    """With `huge=always`, which takes no more words, each of these files had two MiB."""
    with Sandbox(profile="bare", limits=Limits(disk_bytes=8 * MiB)) as box:
        used, full = box.run(LARGER).stdout.splitlines()

    whole, bits, small = (-(-size // 4096) * 4096 for size in (1_000_000, 300_000, 1))
    assert int(used) == whole + bits + 50 * small
    assert full == "No space left on device True"


@pytest.mark.parametrize(
    ("release", "has_huge_pages", "option"),
    [
        ("6.18.44-fc-v657", True, ",huge=within_size"),
        ("7.0-rc1", True, ",huge=within_size"),
        ("6.18.44", False, ""),  # a kernel without them refuses the option
        ("6.12.9+deb13-amd64", True, ""),  # pages of one size, which most files do not fill
        ("custom", True, ""),
    ],
)
def test_larger_pages_are_asked_for_where_the_kernel_sizes_them_by_what_is_written(
    release, has_huge_pages, option, monkeypatch
):
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", release, "", "")))
    monkeypatch.setattr(os.path, "isdir", lambda path: has_huge_pages)

    assert rootfs.larger_pages.__wrapped__() == option
