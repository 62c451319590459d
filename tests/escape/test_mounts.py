"""Files of the host that are mounted: nothing is written, and nothing beside them is reached."""

import os
import socket

import pytest

import groundbox as gb

PRIVILEGED = {
    "remount": "call('mount', 0, b'/inputs/x', 0, 32 | 0x1000, 0)",
    "unmount": "call('umount2', b'/inputs/x', 2)",
    "move": "call('mount', b'/inputs/x', b'/tmp', 0, 0x2000, 0)",
    "a bind that is writable": "call('mount', b'/inputs/x', b'/box/work/y', 0, 0x1000, 0)",
}


@pytest.fixture
def mounted(tmp_path):
    folder = tmp_path / "shown"
    folder.mkdir()
    (folder / "x").write_text("as it was")
    (folder / "x").chmod(0o666)  # writable by everybody, were it not for the mount
    (tmp_path / "secret").write_text("secret")
    with gb.Sandbox(mounts={"x": folder / "x", "folder": folder}) as box:
        yield box, folder, tmp_path


@pytest.mark.escape
@pytest.mark.parametrize("way", PRIVILEGED)
def test_a_mount_stays_read_only(mounted, prelude, way):
    box, folder, _ = mounted

    box.run(prelude)
    box.run(PRIVILEGED[way])
    for source in (
        "open('/inputs/x', 'w').write('changed')",
        "os.truncate('/inputs/x', 0)",
        "os.chmod('/inputs/x', 0o777)",
        "os.utime('/inputs/x', (0, 0))",
        "os.setxattr('/inputs/x', 'user.a', b'a')",
        "os.link('/inputs/x', '/inputs/y')",
        "open(f\"/proc/self/fd/{os.open('/inputs/x', os.O_RDONLY)}\", 'w').write('changed')",
    ):
        assert not box.run(f"import os; {source}").ok

    found = (folder / "x").stat()
    assert (folder / "x").read_text() == "as it was"
    assert (found.st_mode & 0o777, found.st_mtime > 0, os.listxattr(folder / "x")) == (0o666, True, [])


@pytest.mark.escape
def test_nothing_beside_a_mounted_file_is_reached(mounted):
    box, _, above = mounted
    ways = ("/inputs/../secret", "/inputs/folder/../../secret", "/inputs/x/../secret", str(above / "secret"))

    told = box.run(
        f"import os\nfound = []\nfor path in {ways!r}:\n    try: found.append(open(path).read())\n"
        "    except OSError: pass\n"
        "fd = os.open('/inputs/folder', os.O_RDONLY)\n"
        "for path in ('..', '../..', '../../secret'):\n"
        "    try: found += os.listdir(os.open(path, os.O_RDONLY, dir_fd=fd))\n    except OSError: pass\n"
        "'secret' in found"
    )

    assert told.text == "False"


@pytest.mark.escape
def test_a_socket_that_comes_to_lie_in_a_mounted_folder_is_not_reached(mounted):
    box, folder, _ = mounted
    box.run("1")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))
        os.chmod(folder / "s", 0o777)
        listening.listen()
        listening.settimeout(0.5)
        ran = box.run("import socket; socket.socket(socket.AF_UNIX).connect('/inputs/folder/s')")

        assert not ran.ok
        with pytest.raises(TimeoutError):
            listening.accept()
