"""The workdir through its descriptor: real folders of all shapes, without a sandbox."""

import fcntl
import os
import socket
import stat
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundbox.errors import GuestFileError, InvalidArgument
from groundbox.sandbox import workdir as workdirs
from groundbox.sandbox.workdir import Workdir, check_path
from groundbox.testing.base import until

NAMES = st.binary(min_size=1, max_size=8).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)
KINDS = st.sampled_from(["file", "folder", "symlink", "fifo", "socket", "hard link"])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "work"
    made.mkdir()
    return made


def _opened(folder):
    return Workdir(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _make(path, kind, outside):
    try:
        if kind == "file":
            with open(path, "xb") as file:  # what lies there already may be a pipe
                file.write(path[-4:])
        elif kind == "folder":
            os.mkdir(path)
        elif kind == "symlink":
            os.symlink(outside, path)
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path)
        else:
            os.link(outside, path)
    except OSError:
        return


@given(st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3), KINDS), max_size=12))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_lies_there_only_plain_files_come_out(tmp_path_factory, entries):
    top = tmp_path_factory.mktemp("t")
    root, outside = os.fsencode(top / "work"), os.fsencode(top / "outside")
    os.mkdir(root)
    with open(outside, "wb") as file:
        file.write(b"SECRET")
    for names, kind in entries:
        parent = root
        for name in names[:-1]:
            parent += b"/" + name
            _make(parent, "folder", outside)
        _make(parent + b"/" + names[-1], kind, outside)

    work = _opened(root)
    collected = work.collect()

    for artifact in collected.artifacts:
        path = os.path.join(root, artifact.path.encode())
        found = os.lstat(path)
        assert stat.S_ISREG(found.st_mode)
        assert found.st_nlink == 1
        assert artifact.read() == open(path, "rb").read() != b"SECRET"  # noqa: SIM115
        assert os.path.realpath(path) == path
    work.close()


def test_only_what_changed_is_collected(folder):
    (folder / "a").write_text("one")
    work = _opened(folder)
    work.note()

    assert work.collect().artifacts == []
    (folder / "a").write_text("two")
    (folder / "b").write_text("new")
    assert [artifact.path for artifact in work.collect().artifacts] == ["a", "b"]
    assert work.collect().artifacts == []


def test_files_with_a_second_name_are_counted_once_for_each_change(folder):
    work = _opened(folder)
    (folder / "a").write_text("one")
    os.link(folder / "a", folder / "b")

    counts = [work.collect().dropped, work.collect().dropped]
    (folder / "b").write_text("two")
    counts.append(work.collect().dropped)
    (folder / "b").unlink()

    assert counts == [2, 0, 2]
    assert [artifact.path for artifact in work.collect().artifacts] == ["a"]


@pytest.mark.parametrize(("path", "link"), [("f", "f"), ("d/a", "d")])
def test_a_link_on_the_way_is_named(folder, path, link):
    os.symlink(folder, folder / "d")
    os.symlink("a", folder / "f")
    (folder / "a").write_text("one")

    with pytest.raises(GuestFileError, match=f"^{path}: '{link}' is a link, which `files` does not follow"):
        _opened(folder).read(path)


def test_a_change_that_puts_the_times_back_is_seen(folder):
    (folder / "a").write_text("one")
    work = _opened(folder)
    work.note()
    before = os.stat(folder / "a")

    (folder / "a").write_text("two")
    os.utime(folder / "a", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert [artifact.path for artifact in work.collect().artifacts] == ["a"]


@pytest.fixture
def _few_held(monkeypatch):
    monkeypatch.setattr(workdirs, "_HELD_BYTES", 1 << 20)


@pytest.mark.usefixtures("_few_held")
def test_an_artifact_too_large_to_hold_is_read_while_it_is_unchanged(folder):
    (folder / "large").write_bytes(b"x" * (2 << 20))
    work = _opened(folder)
    artifact = work.collect().artifacts[0]

    assert artifact.read() == b"x" * (2 << 20)
    (folder / "large").write_bytes(b"y" * (2 << 20))
    with pytest.raises(GuestFileError) as changed:
        artifact.read()
    assert str(changed.value) == "large: it has changed since the run that made it"


@pytest.mark.usefixtures("_few_held")
def test_an_artifact_too_large_to_hold_is_gone_with_the_workdir(folder):
    (folder / "large").write_bytes(b"x" * (2 << 20))
    (folder / "small").write_bytes(b"x")
    work = _opened(folder)
    large, small = work.collect().artifacts

    work.close()

    assert small.read() == b"x"
    with pytest.raises(GuestFileError) as gone:
        large.read()
    assert str(gone.value) == "large: the workdir is gone"


def test_files_over_the_count_are_counted(folder):
    for number in range(workdirs.MOST_FILES + 5):
        (folder / f"{number:05}").touch()

    collected = _opened(folder).collect()

    assert (len(collected.artifacts), collected.dropped) == (workdirs.MOST_FILES, 5)


def test_files_over_the_sum_are_counted(folder, monkeypatch):
    monkeypatch.setattr(workdirs, "MOST_BYTES", 100)
    for name in "abc":
        (folder / name).write_bytes(b"x" * 40)

    collected = _opened(folder).collect()

    assert ([artifact.path for artifact in collected.artifacts], collected.dropped) == (["a", "b"], 1)


def test_what_tools_leave_behind_is_no_artifact(folder):
    for name in ("__pycache__", ".ipynb_checkpoints"):
        (folder / name).mkdir()
        (folder / name / "x").write_text("x")

    assert _opened(folder).collect() == workdirs.Collected([], 0)


def test_the_descriptor_is_closed_once_and_for_all(folder):
    """Its number is a high one, which the kernel gives to no other thread. One may do the closing."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    number = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 900)
    work = Workdir(number)

    work.close()
    assert until(lambda: not os.path.exists(f"/proc/self/fd/{number}"))
    os.dup2(file, number)
    os.close(file)
    work.close()

    time.sleep(0.1)
    assert os.path.exists(f"/proc/self/fd/{number}")
    os.close(number)


@given(st.text(max_size=30))
def test_a_checked_path_stays_inside(path):
    try:
        plain = check_path("path", path)
    except InvalidArgument:
        return

    assert not plain.startswith("/")
    assert all(part not in ("", ".", "..") for part in plain.split("/"))
    assert "\0" not in plain


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "'' names no file"),
        ("./.", "'./.' names no file"),
        ("/etc/passwd", "'/etc/passwd' must be a path inside the workdir, such as 'data/sales.csv'"),
        ("a/../../b", "'a/../../b' must be a path inside the workdir, such as 'data/sales.csv'"),
        ("a\0b", "'a\\x00b' holds a NUL byte; no file can be named so"),
        ("x" * 256, "a part of the path is longer than 255 bytes"),
        ("a\ud800", "'a\\ud800' holds half of a surrogate pair, which is no text"),
    ],
)
def test_a_path_that_cannot_be_meant_is_told(path, problem):
    with pytest.raises(InvalidArgument) as refused:
        check_path("path", path)

    assert str(refused.value) == f"path: {problem}"


def test_a_path_is_brought_to_its_plain_form():
    assert check_path("path", "./a//b/./c") == "a/b/c"


def test_a_walk_ends_also_where_the_folder_does_not(folder, monkeypatch):
    monkeypatch.setattr(workdirs, "MOST_ENTRIES", 100)
    for number in range(300):
        os.symlink("x", folder / f"{number}")
    (folder / "deeper").mkdir()

    listing = _opened(folder).list()

    assert listing.files == {}
    assert listing.skipped["not a regular file"] <= 100
    assert listing.skipped["count"] >= 1


def test_only_what_is_new_or_changed_has_to_be_read(folder):
    (folder / "large.bin").write_bytes(b"x" * 1000)
    workdir = _opened(folder)

    before = workdir.unread_bytes(workdir.list())
    workdir.note()
    (folder / "small.txt").write_text("new")
    after = workdir.unread_bytes(workdir.list())

    assert (before, after) == (1000, 3)
