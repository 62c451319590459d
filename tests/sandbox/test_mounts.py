"""Files of the host that a sandbox sees in place: what is shown, how, and what is never shown."""

import os
import pathlib
import shutil
import socket
import tempfile

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.sandbox.mounts import MOST_FILES, checked_mounts

LARGE = 3 << 30


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.csv").write_text("a\n1\n")
    (folder / "deep" / "b.csv").write_text("b\n2\n")
    return folder


def test_a_file_larger_than_any_copy_is_read_in_place(tmp_path):
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(LARGE)
        file.seek(LARGE - 4)
        file.write(b"tail")
    program = (
        "import os\nfile = open('/inputs/large', 'rb')\nfile.seek(-4, 2)\nos.path.getsize('/inputs/large'), file.read()"
    )

    execution = gb.run(program, mounts={"large": tmp_path / "large.bin"})

    assert execution.text == f"({LARGE}, b'tail')"


def test_a_file_that_is_too_large_to_copy_is_refused_with_the_other_way(monkeypatch):
    monkeypatch.setattr("groundbox.sandbox.files.MOST_BYTES", 10)

    with gb.Sandbox() as box, pytest.raises(gb.GroundboxError) as refused:
        box.files.write("large", b"x" * 11)

    assert str(refused.value) == "large: has 11 bytes, more than the 10 that are copied; show it by Sandbox(mounts=…)"


def test_every_language_reads_a_mounted_folder_and_none_writes_it(data):
    with gb.Sandbox(mounts={"data": data}) as box:
        walked = box.run(
            "import os; sorted(os.path.join(at, name) for at, _, names in os.walk('/inputs') for name in names)"
        )
        asked = box.run("SELECT sum(a) AS total FROM '/inputs/data/a.csv'", language="sql")
        shell = box.run("cat /inputs/data/deep/b.csv", language="shell")
        writing = ("open('/inputs/data/a.csv', 'a')", "os.remove('/inputs/data/a.csv')", "open('/inputs/new', 'w')")
        failed = [box.run(f"import os; {each}").error for each in writing]

    assert walked.text == "['/inputs/data/a.csv', '/inputs/data/deep/b.csv']"
    assert (asked.ok, shell.stdout) == (True, "b\n2\n")
    assert all("Read-only" in error.message or "denied" in error.message for error in failed)
    assert (data / "a.csv").read_text() == "a\n1\n"


def test_two_sandboxes_with_other_files_see_their_own_and_one_without_sees_none(data):
    with gb.Sandbox(mounts={"x": data / "a.csv"}) as one, gb.Sandbox(mounts={"x": data / "deep"}) as other:
        assert one.run("import os; os.listdir('/inputs')").text == "['x']"
        assert other.run("import os; os.listdir('/inputs/x')").text == "['b.csv']"
    assert gb.run("import os; os.path.exists('/inputs')").text == "False"


def test_links_sockets_pipes_and_devices_of_a_folder_are_not_there(data, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (data / "link").symlink_to(secret)
    (data / "up").symlink_to(tmp_path)
    os.mkfifo(data / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(data / "socket"))
        listening.listen()
        names = gb.run("import os; sorted(os.listdir('/inputs/data'))", mounts={"data": data}).text

    assert names == "['a.csv', 'deep']"


def test_what_comes_to_lie_in_a_folder_later_is_not_there(data):
    with gb.Sandbox(mounts={"data": data}) as box:
        box.run("1")
        (data / "later").write_text("later")

        assert box.run("import os; sorted(os.listdir('/inputs/data'))").text == "['a.csv', 'deep']"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"x": "/proc/self/environ"}, "the kernel's own"),
        ({"x": "/proc/1"}, "the kernel's own"),
        ({"x": "/sys/kernel"}, "the kernel's own"),
        ({"x": "/dev/null"}, "neither a regular file nor a folder"),
        ({"x": "/nothing/here"}, "cannot be opened by you: No such file"),
        ({"../x": "/etc/hostname"}, "a name is one part of a path"),
        ({"a/b": "/etc/hostname"}, "a name is one part of a path"),
        ({"..": "/etc/hostname"}, "a name is one part of a path"),
        ({"a\nb": "/etc/hostname"}, "a name is one part of a path"),
        ({"": "/etc/hostname"}, "a name is one part of a path"),
        ({"x": ""}, "'x' has an empty path"),
        ({"x": "/etc/host\0name"}, "holds a NUL byte"),
        ({"\udcff": "/etc/hostname"}, "is not UTF-8; rename it"),
        ({"x": b"/etc/hostname"}, "must be a path, not bytes"),
        ({"x": 3}, "must be a path, not int"),
        (["/etc/hostname"], "must map names to paths"),
        ({"x": "/usr"}, f"more than {MOST_FILES} files"),
    ],
)
def test_what_cannot_be_mounted_is_refused_before_anything_starts(asked, problem):
    with pytest.raises(InvalidArgument, match="^mounts: ") as refused:
        gb.Sandbox(mounts=asked)

    assert problem in str(refused.value)


def test_a_link_that_is_named_leads_to_a_file_that_is_looked_at(tmp_path):
    (tmp_path / "link").symlink_to("/proc/self/environ")

    with pytest.raises(InvalidArgument, match="the kernel's own"):
        gb.Sandbox(mounts={"x": tmp_path / "link"})


@pytest.mark.needs_root
def test_a_file_that_the_guests_user_cannot_read_is_refused_with_what_to_do(data):
    (data / "a.csv").chmod(0o600)

    with pytest.raises(InvalidArgument, match=r"mode 0600.*chmod o\+r"):
        gb.Sandbox(mounts={"data": data})


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("closed", "mode", "problem"),
    [
        ("a.csv", 0o600, "a.csv' cannot be opened by you: Permission denied"),
        ("deep", 0o600, "deep' cannot be opened by you: Permission denied"),
        ("deep", 0o604, "deep' cannot be searched by you: Permission denied"),
        (".", 0o600, "data' cannot be opened by you: Permission denied"),
    ],
)
def test_what_the_caller_cannot_read_is_refused(closed, mode, problem, request):
    above = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own folders are closed to others
    request.addfinalizer(lambda: shutil.rmtree(above))
    above.chmod(0o755)
    data = above / "data"
    (data / "deep").mkdir(parents=True)
    for each in ("a.csv", "deep/b.csv"):
        (data / each).write_text("x")
    (data / closed).chmod(mode)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setresgid(4321, 4321, 4321)
            os.setresuid(4321, 4321, 4321)
            checked_mounts({"x": data}, is_root=False)
        except InvalidArgument as refused:
            os.write(writer, str(refused).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, encoding="utf-8") as told:
        assert problem in told.read()


def test_a_file_that_is_exchanged_after_it_was_looked_at_is_not_shown(data, tmp_path):
    (tmp_path / "secret").write_text("secret")
    box = gb.Sandbox(mounts={"a": data / "a.csv"})
    (data / "a.csv").unlink()
    (data / "a.csv").hardlink_to(tmp_path / "secret")

    with box, pytest.raises(gb.SandboxUnavailable, match="is another file than it was"):
        box.run("open('/inputs/a').read()")


def test_other_backends_and_servers_refuse_mounts(data):
    with pytest.raises(InvalidArgument, match="need the backend namespaces"):
        gb.Sandbox(mounts={"data": data}, backend="bare")
    with pytest.raises(InvalidArgument, match="files of this machine"):
        gb.connect("http://127.0.0.1:9").Sandbox(mounts={"data": data})


def test_the_most_files_are_shown(tmp_path):
    for number in range(MOST_FILES):
        (tmp_path / f"{number:03}").write_text(str(number))

    assert len(checked_mounts({"x": tmp_path}, is_root=False)) == MOST_FILES
    assert gb.run("import os; len(os.listdir('/inputs/x'))", mounts={"x": tmp_path}).text == str(MOST_FILES)
    (tmp_path / "more").write_text("")
    with pytest.raises(InvalidArgument):
        checked_mounts({"x": tmp_path}, is_root=False)
