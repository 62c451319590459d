"""Row 13: filling the disk. Bytes, files, depth, and files that nobody sees any more."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import pytest

from groundbox import Limits, MiB, Outcome

DISK = 8 * MiB
FILLING = {
    "one file": "open('a', 'wb').write(bytes(64 << 20))",
    "in pieces": "f = open('a', 'wb', buffering=0)\nwhile True: f.write(bytes(1 << 16))",
    "many files": "for i in range(1000): open(str(i), 'wb').write(bytes(1 << 20))",
    "allocated": "os.posix_fallocate(os.open('a', os.O_RDWR | os.O_CREAT), 0, 64 << 20)",
    "unlinked": "held = []\nfor i in range(64):\n    f = open('a', 'wb', buffering=0); f.write(bytes(1 << 20)); os.unlink('a'); held.append(f)",
    "mapped": "import mmap\nf = open('a', 'w+b'); f.truncate(8 << 20); m = mmap.mmap(f.fileno(), 0)\nopen('b', 'wb').write(bytes(4 << 20))\nfor i in range(0, 8 << 20, 4096): m[i] = 1",
    "attributes": "open('a', 'w').close()\nfor i in range(10**6): os.setxattr('a', f'user.{i}', bytes(60000))",
    "in every folder": "for p in ('/tmp/a', '/dev/shm/a', '/box/a', 'a'): open(p, 'wb').write(bytes(4 << 20))",
    "by copying": "open('a', 'wb').write(bytes(3 << 20)); import shutil\nfor i in range(9): shutil.copyfile('a', f'b{i}')",
    "by appending through many descriptors": "fds = [os.open('a', os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(50)]\nfor fd in fds * 9: os.write(fd, bytes(1 << 20))",
}


@pytest.mark.parametrize("kind", FILLING)
def test_the_disk_has_an_end(sandbox, prelude, kind):
    box = sandbox(limits=Limits(disk_bytes=DISK, memory_bytes=128 * MiB, wall_s=30))

    execution = box.run(prelude + FILLING[kind], mode="script")

    assert execution.outcome is not Outcome.OK
    if kind != "mapped":  # a mapped file is as long as it says, and has as many pages as were written
        assert sum(box.files.list().values()) <= DISK
    assert execution.usage.peak_memory_bytes <= 129 * MiB


@pytest.mark.parametrize(
    ("source", "code", "hint"),
    [
        ("open('a', 'wb').write(bytes(64 << 20))", "ENOSPC", "The working directory is full"),
        ("open('a', 'wb').truncate(64 << 20)", "EFBIG", "No file can be larger than the disk"),
    ],
)
def test_one_file_that_does_not_fit_is_told_in_words_that_help(sandbox, source, code, hint):
    box = sandbox(limits=Limits(disk_bytes=DISK))

    execution = box.run(
        f"import errno\ntry: {source}\nexcept OSError as e:\n    print(errno.errorcode[e.errno])\n    raise"
    )

    assert execution.stdout == f"{code}\n"
    assert execution.error.hints[0].startswith(hint)


@pytest.mark.parametrize(
    "make",
    [
        "open(str(i), 'w').close()",
        "os.mkdir(str(i))",
        "os.symlink('x', str(i))",
        "os.mkfifo(str(i))",
        "os.makedirs('d/' * (i % 200 + 1) + str(i), exist_ok=True)",
    ],
)
def test_the_number_of_files_has_an_end(sandbox, prelude, make):
    box = sandbox(limits=Limits(file_count=200))

    execution = box.run(
        prelude
        + f"made = 0\ntry:\n    for i in range(1000): {make}; made += 1\nexcept OSError as e: print(e.strerror)\nmade"
    )

    assert execution.stdout == "No space left on device\n"
    assert int(execution.text) <= 200


def test_hard_links_to_one_file_are_bounded_as_well(sandbox, prelude):
    """Each name takes memory of the kernel, which the group counts."""
    box = sandbox(limits=Limits(file_count=200, memory_bytes=64 * MiB, wall_s=20))

    execution = box.run(prelude + "open('a', 'w').close()\nfor i in range(10**7): os.link('a', str(i))", mode="script")

    assert execution.outcome is not Outcome.OK
    assert execution.usage.peak_memory_bytes <= 65 * MiB


def test_a_full_disk_leaves_the_sandbox_usable(sandbox):
    box = sandbox(limits=Limits(disk_bytes=MiB))
    box.run("open('a', 'wb').write(bytes(2 << 20))")

    assert box.run("import os; os.remove('a'); open('b', 'w').write('x')").outcome is Outcome.OK


def test_what_cannot_be_deleted_by_the_guest_goes_with_the_sandbox(sandbox):
    """Closed folders, deep trees, odd names: nothing is deleted one by one, the mount goes."""
    box = sandbox()
    execution = box.run(
        "import os\nfor _ in range(500): os.mkdir('d'); os.chdir('d')\nos.chdir('/box/work'); os.mkdir('closed'); os.chmod('closed', 0)"
    )

    assert execution.error is None
    box.close()


@pytest.mark.layers(holds=[""], breaks=["rlimits"])
def test_the_size_of_a_single_file_has_an_end_of_its_own(attack, waive, breached):
    """A sparse file takes no room in the tmpfs, so the file system would let it be of any size."""
    execution = attack(
        "print(attempt(os.truncate, open('a', 'w').name, 1 << 40))", waive=waive, limits=Limits(disk_bytes=DISK)
    )

    assert (execution.stdout == "None\n") is breached
