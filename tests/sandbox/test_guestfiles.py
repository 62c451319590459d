"""Files as a guest's programs see them: absolute paths, links, the kernel's errors, and looks during a run."""

import asyncio
import errno
import gc
import weakref

import pytest

from groundbox import AsyncSandbox, InvalidArgument, Outcome, Sandbox
from groundbox.errors import GuestFileError, WireError
from groundbox.sandbox.bundles import Bundle
from groundbox.sandbox.guestfiles import _value
from groundbox.sandbox.wire import Done
from groundbox.sandbox.workdir import Workdir


@pytest.fixture
def box():
    with Sandbox(profile="bare") as made:
        yield made


def test_a_file_outside_the_workdir_is_written_and_read(box):
    box.guest_files.write("/tmp/a/b", b"\x00\xff", mode=0o750)

    assert box.guest_files.read("/tmp/a/b") == b"\x00\xff"
    assert box.guest_files.stat("/tmp/a/b")[:4] == ("b", "file", 2, 0o750)
    assert box.files.list() == {}


def test_paths_are_relative_to_the_workdir_wherever_the_program_has_gone(box):
    box.run("import os; os.chdir('/tmp')")

    box.guest_files.write("f", "x")

    assert box.files.list() == {"f": 1}
    assert box.guest_files.workdir() == "/box/work"


def test_a_file_that_is_overwritten_keeps_its_mode_unless_one_is_given(box):
    box.guest_files.write("f", "x", mode=0o700)
    box.guest_files.write("f", "y")

    assert box.guest_files.stat("f").mode == 0o700


def test_a_file_whose_length_the_kernel_does_not_tell_is_read(box):
    assert box.guest_files.read("/proc/self/status").startswith(b"Name:")


def test_links_are_followed(box):
    box.run("import os; os.mkdir('d'); os.symlink('d', 'link'); os.symlink('nowhere', 'broken')")

    box.guest_files.write("link/f", "through")

    assert box.files.read("d/f") == b"through"
    assert box.guest_files.realpath("link/missing") == "/box/work/d/missing"
    listing = box.guest_files.list()
    assert [(entry.name, entry.kind) for entry in listing.entries] == [
        ("broken", "link"),
        ("d", "folder"),
        ("link", "folder"),
    ]
    assert listing.left_out == 0


def test_the_removal_of_a_link_leaves_what_it_leads_to(box):
    box.run("import os; os.mkdir('d'); os.symlink('d', 'link')")

    box.guest_files.remove("link")

    assert [entry.name for entry in box.guest_files.list().entries] == ["d"]


@pytest.mark.parametrize("path", [".", "/box/work", "/box", "/", "d/..", "/proc/self/cwd/../work"])
def test_the_workdir_is_not_removed(box, path):
    box.guest_files.mkdir("d")

    with pytest.raises(InvalidArgument, match="is the workdir or above it"):
        box.guest_files.remove(path)

    assert box.guest_files.exists("d")


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("read", ["missing"], errno.ENOENT),
        ("read", ["d"], errno.EISDIR),
        ("read", ["pipe"], errno.EINVAL),
        ("read", ["secret"], errno.EACCES),
        ("write", ["d", b""], errno.EISDIR),
        ("write", ["f/child", b""], errno.ENOTDIR),
        ("write", ["f/child/deeper", b""], errno.ENOTDIR),
        ("write", ["pipe", b""], errno.ENXIO),
        ("write", ["/usr/x", b""], errno.EROFS),
        ("mkdir", ["f"], errno.EEXIST),
        ("mkdir", ["f/child"], errno.ENOTDIR),
        ("list", ["f"], errno.ENOTDIR),
        ("list", ["missing"], errno.ENOENT),
        ("stat", ["missing"], errno.ENOENT),
        ("stat", ["f/child"], errno.ENOTDIR),
        ("remove", ["missing"], errno.ENOENT),
    ],
)
def test_what_the_kernel_refuses_is_told_by_its_number(box, method, arguments, expected):
    box.run(
        "import os; os.mkdir('d'); open('f', 'w').close(); os.mkfifo('pipe')\n"
        "open('secret', 'w').write('x'); os.chmod('secret', 0)"
    )

    with pytest.raises(GuestFileError) as refused:
        getattr(box.guest_files, method)(*arguments)

    assert refused.value.errno == expected


def test_a_file_larger_than_asked_for_is_not_read(box):
    box.guest_files.write("f", b"12345")

    assert box.guest_files.read("f", most_bytes=5) == b"12345"
    with pytest.raises(GuestFileError, match="f: is larger than 4 bytes"):
        box.guest_files.read("f", most_bytes=4)


def test_a_look_at_the_workdir_does_not_wait_for_a_run():
    async def look():
        async with AsyncSandbox(profile="bare") as box:
            seen: list[str | bool] = [await box.guest_files.workdir()]
            async for event in box.stream("touch made; echo made; sleep 60", language="shell"):
                if event.kind == "stdout":
                    seen += [await box.guest_files.exists("made"), await box.guest_files.exists("missing")]
                    box.interrupt()
            return [*seen, event.execution.outcome]

    assert asyncio.run(look()) == ["/box/work", True, False, Outcome.CANCELLED]


def test_a_closed_sandbox_holds_on_to_no_files():
    async def work():
        box = AsyncSandbox(profile="bare")
        await box.guest_files.write("f", "x")
        await box.guest_files.workdir()
        worker = await box.worker()
        workdir = weakref.ref(worker.workdir)
        await box.close()
        await worker.wait()
        del worker
        return workdir()

    gc.disable()  # which may be long in coming where a process has many objects
    try:
        assert asyncio.run(work()) is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "value",
    [
        {"entries": [{"name": "f", "kind": "file", "size_bytes": -1, "mode": 0, "modified_s": 0}]},
        {"entries": [{"name": "f", "kind": "device", "size_bytes": 1, "mode": 0, "modified_s": 0}]},
        {"entries": {}},
        {"errno": "2"},
    ],
)
def test_an_answer_that_does_not_fit_the_schema_is_refused(value):
    with pytest.raises(WireError, match="does not fit the schema"):
        _value(Done(id=1, ok=True, value=Bundle(value)))


def test_a_path_that_the_guest_makes_up_is_refused(box):
    box.run("import os; os.path.realpath = lambda path: 'relative'")

    with pytest.raises(WireError, match="a path that is none"):
        box.guest_files.realpath("x")


@pytest.mark.parametrize("path", ["", "a\0b", "a\udc80b"])
def test_a_path_that_can_name_no_file_is_refused(path):
    with Sandbox(profile="bare") as box:
        for ask in (box.guest_files.read, box.guest_files.mkdir, box.guest_files.stat, box.guest_files.remove):
            with pytest.raises(InvalidArgument, match="path: "):
                ask(path)


def test_a_restart_looks_once_at_the_files_it_carried_and_tells_what_it_left(monkeypatch):
    looks = []
    note = Workdir.note
    monkeypatch.setattr(Workdir, "note", lambda self: looks.append(note(self)))
    with Sandbox(profile="bare") as box:
        box.run("import os\nfor n in range(40):\n    open(f'f{n}', 'w').write(str(n))\nos.symlink('f0', 'link')")
        looks.clear()

        lost = box.restart()
        execution = box.run("import os\nopen('new', 'w').write('x')\nlen(os.listdir()), open('f39').read()")

    assert (len(looks), lost) == (1, ["(at least 1 more: links and the like)"])
    assert execution.text == "(41, '39')"
    assert list(execution.artifacts) == ["new"]
