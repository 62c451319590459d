"""Row 17: files that are not what they look like. The host reads regular files with one link, and nothing else."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import json
import os
from typing import Any

import pytest

from groundbox import Limits, MiB, Outcome
from groundbox.errors import GuestFileError
from groundbox.sandbox.workdir import Workdir


@pytest.fixture
def read_all():
    def read(box, execution):
        found = {path: artifact.read() for path, artifact in execution.artifacts.items()}
        for path in box.files.list():
            try:
                found[path] = box.files.read(path)
            except GuestFileError:
                found[path] = b""
        return b"\n".join(found.values())

    return read


LINKS = {
    "a symlink": "os.symlink(PATH, 'report.txt')",
    "a chain of symlinks": "os.symlink(PATH, 'b'); os.symlink('b', 'a'); os.symlink('a', 'report.txt')",
    "a symlinked folder": "os.symlink(os.path.dirname(PATH), 'out')",
    "a symlink to the root": "os.symlink('/', 'out')",
    "a symlink through proc": "os.symlink('/proc/self/root' + PATH, 'report.txt')",
    "a symlink to the host's descriptors": "os.symlink('/proc/self/fd/3', 'report.txt'); os.symlink('/proc/self/environ', 'env.txt')",
    "a relative symlink": "os.makedirs('a/b'); os.symlink('../../../../..' + PATH, 'a/b/report.txt')",
}


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_is_not_followed(sandbox, prelude, planted, nonce, read_all, kind):
    box = sandbox()

    execution = box.run(prelude + f"PATH = {planted!r}\n{LINKS[kind]}\nopen('real.txt', 'w').write('real')")

    assert execution.error is None
    assert list(execution.artifacts) == ["real.txt"]
    assert nonce.encode() not in read_all(box, execution)
    for path in ("report.txt", "out/secret.txt", "a/b/report.txt", "env.txt"):
        with pytest.raises(GuestFileError):
            box.files.read(path)


SPECIAL = {
    "a pipe": "os.mkfifo('odd')",
    "a socket": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('odd')",
    "a device": "attempt(os.mknod, 'odd', 0o020666, 0) or attempt(os.mknod, 'odd', 0o020666, os.makedev(1, 5))",
    "a hard link": "open('odd', 'w').write('x'); os.link('odd', '/tmp/other')",
    "a hard link to a system file": "attempt(os.link, '/etc/passwd', 'odd')",
    "a closed file": "open('odd', 'w').write('x'); os.chmod('odd', 0)",
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_plain_file_does_not_stop_the_collection(sandbox, prelude, kind):
    box = sandbox()

    execution = box.run(prelude + f"{SPECIAL[kind]}\nopen('real.txt', 'w').write('real')")

    assert execution.error is None
    assert set(execution.artifacts) - {"odd"} == {"real.txt"}
    if kind != "a closed file":
        assert "odd" not in execution.artifacts


MAKE_SPARSE = (
    "f = open('sparse', 'wb')\nprint(attempt(os.ftruncate, f.fileno(), 1 << 50))\nopen('real', 'w').write('x')"
)


def test_a_sparse_file_of_a_pebibyte_cannot_be_made(sandbox, prelude):
    execution = sandbox().run(prelude + MAKE_SPARSE)

    assert execution.stdout == "EFBIG\n"
    assert {path: a.size_bytes for path, a in execution.artifacts.items()} == {"real": 1, "sparse": 0}


def test_a_sparse_file_of_a_pebibyte_is_not_read(sandbox, prelude):
    box = sandbox(limits=Limits(disk_bytes=None))

    execution = box.run(prelude + MAKE_SPARSE)

    assert execution.stdout == "None\n"
    assert list(execution.artifacts) == ["real"]
    assert execution.dropped_bytes["artifacts"] == 1
    with pytest.raises(GuestFileError):
        box.files.read("sparse")


def test_a_sparse_file_within_the_disk_costs_no_memory_of_the_host(sandbox):
    box = sandbox(limits=Limits(disk_bytes=200 * MiB))
    box.run("1")
    before = _resident()

    execution = box.run("import os\nfor i in range(20): open(f's{i}', 'wb').truncate(150 << 20)")

    assert _resident() - before < 64 * MiB
    assert len(execution.artifacts) + execution.dropped_bytes["artifacts"] == 20


def test_sparse_files_are_not_read_beyond_the_disk_when_a_sandbox_restarts(sandbox, monkeypatch):
    """Four thousand of them, each as long as the disk, would be a terabyte of zeros."""
    box = sandbox(limits=Limits(disk_bytes=8 * MiB))
    box.run("for i in range(30): open(f's{i:02}', 'wb').truncate(8 << 20)\nopen('kept', 'w').write('x')")
    read: Any = []
    real = Workdir.read
    monkeypatch.setattr(Workdir, "read", lambda self, path: (read.append(path), real(self, path))[1])

    lost = box.restart()

    assert read == ["kept"]
    assert lost == [f"s{i:02}" for i in range(30)]
    assert box.files.list() == {"kept": 1}


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_twenty_thousand_files_are_counted_and_a_thousand_kept(sandbox):
    box = sandbox(limits=Limits(file_count=30_000))

    execution = box.run("for i in range(20_000): open(f'{i:05}', 'w').close()", wall_s=60)

    assert len(execution.artifacts) == 1000
    assert execution.dropped_bytes["artifacts"] == 19_000


def test_hostile_names_are_names(sandbox):
    box = sandbox()
    names = [
        b"\xff\xfe",
        b"a\nb",
        b"a\x1b[2Jb",
        b"-rf",
        b"a b",
        b"'\"$(x)",
        "é中\U0001f600".encode(),
        b"x" * 255,
        b"...",
    ]

    execution = box.run(f"for name in {names}: open(name, 'w').write('x')")

    expected = sorted(name.decode() for name in names if name != b"\xff\xfe")
    assert list(execution.artifacts) == expected
    assert {artifact.read() for artifact in execution.artifacts.values()} == {b"x"}
    assert execution.dropped_bytes["artifacts"] == 1


def test_a_name_that_is_no_text_is_counted_and_breaks_nothing(sandbox):
    execution = sandbox().run(r"import os; os.mkdir(b'\xff'); open(b'\xff/a', 'w').close(); open('b', 'w').close()")

    assert list(execution.artifacts) == ["b"]
    assert execution.dropped_bytes["artifacts"] == 1
    assert json.dumps(execution.to_dict())


@pytest.mark.parametrize("depth", [31, 32, 33, 1000])
def test_a_deep_tree_is_walked_to_a_depth(sandbox, depth):
    source = f"import os\nfor _ in range({depth}): os.mkdir('d'); os.chdir('d')\nopen('leaf', 'w').write('x'); os.chdir('/box/work')"

    execution = sandbox().run(source)

    assert execution.error is None
    assert len(execution.artifacts) == (1 if depth <= 32 else 0)
    assert execution.dropped_bytes["artifacts"] == (0 if depth <= 32 else 1)


def test_a_closed_folder_is_left_out(sandbox):
    execution = sandbox().run(
        "import os\nos.mkdir('d'); open('d/a', 'w').close(); open('b', 'w').close(); os.chmod('d', 0)"
    )

    assert execution.outcome is Outcome.OK
    assert "b" in execution.artifacts


SWAP = """
os.mkdir('work'); os.mkdir('keep')
open('work/secret.txt', 'w').write('mine')
if os.fork() == 0:
    # Between folder and symlink as fast as it goes, while the host looks.
    while True:
        attempt(os.rename, 'work', 'keep/work'); attempt(os.symlink, FOLDER, 'work')
        attempt(os.unlink, 'work'); attempt(os.rename, 'keep/work', 'work')
"""
SWAP_FILE = """
open('file', 'w').write('mine')
if os.fork() == 0:
    while True:
        attempt(os.symlink, PATH, 'link'); attempt(os.rename, 'link', 'file')
        attempt(lambda: open('new', 'w').write('mine')); attempt(os.rename, 'new', 'file')
        attempt(os.mkfifo, 'pipe'); attempt(os.rename, 'pipe', 'file')
"""


@pytest.mark.parametrize("swap", [SWAP, SWAP_FILE], ids=["folder", "file"])
def test_swapping_while_the_host_looks_leads_nowhere_else(sandbox, prelude, planted, nonce, swap):
    box = sandbox()
    box.run(prelude + f"PATH = {planted!r}; FOLDER = {os.path.dirname(planted)!r}\n" + swap)

    for _ in range(150):
        for path in ("work/secret.txt", "file"):
            try:
                data = box.files.read(path)
            except GuestFileError:
                continue
            assert data in (b"mine", b"")
        for artifact in box.run("1").artifacts.values():
            try:
                assert nonce.encode() not in artifact.read()
            except GuestFileError:
                continue


def test_a_workdir_that_was_moved_is_still_the_one_that_is_read(sandbox, prelude, planted, nonce):
    source = f"""
os.rename('/box/work', '/box/elsewhere')
os.symlink({os.path.dirname(planted)!r}, '/box/work')
open('/box/elsewhere/mine.txt', 'w').write('mine')
"""
    box = sandbox()

    execution = box.run(prelude + source)

    assert list(execution.artifacts) == ["mine.txt"]
    assert box.files.list() == {"mine.txt": 4}


def test_files_put_in_go_nowhere_else_when_the_guest_made_links(sandbox, prelude, planted, nonce):
    """The guest writes them itself, so a link leads to where the guest could write anyway."""
    box = sandbox()
    box.run(prelude + f"os.symlink({planted!r}, 'in.txt'); os.symlink({os.path.dirname(planted)!r}, 'd')")

    for path in ("in.txt", "d/new.txt"):
        with pytest.raises(GuestFileError):
            box.files.write(path, "overwritten")

    with open(planted) as file:
        assert file.read() == nonce
    assert os.listdir(os.path.dirname(planted)) == ["secret.txt"]


def test_an_archive_is_not_unpacked(sandbox):
    source = "import zipfile\nwith zipfile.ZipFile('a.zip', 'w') as z: z.writestr('../../escaped.txt', 'x')"

    assert list(sandbox().run(source).artifacts) == ["a.zip"]
