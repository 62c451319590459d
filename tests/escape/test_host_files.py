"""Row 1: reading the host's files.

Held by the root that is an allow-list (mount_ns), by Landlock, and for what is not public by the host uid.
"""

import os

import pytest

READERS = {
    "by its path": "print(slurp(PATH))",
    "by dots": "print(slurp('../' * 40 + PATH[1:]))",
    "through a symlink": "os.symlink(PATH, 'link'); print(slurp('link'))",
    "through a symlinked folder": "os.symlink(os.path.dirname(PATH), 'd'); print(slurp('d/secret.txt'))",
    "through a hard link": "attempt(os.link, PATH, 'hard'); print(slurp('hard'))",
    "through the root of a process": """
for pid in os.listdir('/proc'):
    for way in ('root', 'cwd', 'fd/0', 'fd/1', 'fd/2', 'fd/3', 'fd/4', 'fd/5'):
        print(slurp(f'/proc/{pid}/{way}{PATH}'), slurp(f'/proc/{pid}/{way}/../../../..{PATH}'))
""",
    "through every open descriptor": """
for fd in range(1024):
    for up in ('', '../' * 20):
        name = attempt(os.open, up + PATH[1:], os.O_RDONLY, 0o777)
        got = attempt(lambda: os.open(up + PATH[1:], os.O_RDONLY, dir_fd=fd))
        if isinstance(got, int): print(os.read(got, 100))
""",
    "through a bind mount": """
os.mkdir('m')
print(call('mount', b'/', b'm', None, 0x1000 | 0x4000, None), slurp('m' + PATH))
""",
    "through a cloned mount": """
tree = call('open_tree', -100, b'/', 1 | 0x8000)
if tree >= 0: print(slurp(f'/proc/self/fd/{tree}{PATH}'))
""",
    "behind the root": """
print(call('umount2', b'/', 2), call('pivot_root', b'.', b'.'), call('chroot', b'.'))
for _ in range(50): os.chdir('..')
print(slurp('.' + PATH), slurp(PATH))
""",
    "by a file handle": """
handle = ctypes.create_string_buffer(bytes([128, 0, 0, 0]) + bytes(132))
mount_id = ctypes.c_int()
print(call('name_to_handle_at', -100, b'/usr', handle, ctypes.byref(mount_id), 0))
# The root folder of ext4 and xfs, by a handle made up: inode 2 or 128.
for inode in (2, 128):
    made = (8).to_bytes(4, 'little') + (1).to_bytes(4, 'little') + inode.to_bytes(4, 'little') + bytes(120)
    usr = os.open('/usr', os.O_RDONLY)
    found = call('open_by_handle_at', usr, made, os.O_RDONLY)
    if found >= 0:
        again = attempt(lambda: os.open(PATH[1:], os.O_RDONLY, dir_fd=found))
        if isinstance(again, int): print(os.read(again, 100))
""",
    "with a new user namespace": """
if call('unshare', 0x10000000 | 0x20000) == 0:
    os.mkdir('m'); call('mount', b'/', b'm', None, 0x1000 | 0x4000, None)
print(slurp('m' + PATH))
""",
    "by the namespaces of another process": """
for pid in os.listdir('/proc'):
    for kind in ('mnt', 'user', 'pid'):
        ns = attempt(lambda: os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY))
        if isinstance(ns, int): call('setns', ns, 0)
print(slurp(PATH))
""",
}


@pytest.mark.parametrize("way", READERS)
def test_a_host_file_cannot_be_read(attack, everything, planted, nonce, way):
    execution = attack(f"PATH = {planted!r}\n" + READERS[way])

    assert execution.error is None
    assert nonce.encode() not in everything(execution)


@pytest.mark.layers(holds=["", "mount_ns", "landlock"], breaks=["mount_ns landlock"])
def test_a_public_host_file_is_held_off_twice(attack, everything, planted, nonce, waive, breached):
    """Without mount_ns the host's root lies in the guest's, at /host."""
    execution = attack(f"print(slurp('/host{planted}'))", waive=waive)

    assert (nonce.encode() in everything(execution)) is breached


@pytest.mark.needs_root(reason="an ordinary user's sandboxes run under the user's own id")
@pytest.mark.layers(
    holds=["", "mount_ns", "mount_ns landlock", "uid user_ns"], breaks=["mount_ns landlock uid user_ns"]
)
def test_a_closed_host_file_is_held_off_by_the_host_uid_too(attack, everything, planted, nonce, waive, breached):
    os.chmod(planted, 0o600)

    execution = attack(f"print(slurp('/host{planted}'))", waive=waive)

    assert (nonce.encode() in everything(execution)) is breached


def test_no_block_device_and_no_memory_device_can_be_opened(attack):
    numbers = {os.stat(path).st_dev for path in ("/", "/usr", "/var/tmp")}
    source = f"""
opened = []
for number in {sorted(numbers)} + [os.makedev(1, 1), os.makedev(1, 2), os.makedev(1, 4), os.makedev(10, 229)]:
    for kind in (0o060000, 0o020000):
        name = f'/box/work/{{kind}}-{{number}}'
        if attempt(os.mknod, name, kind | 0o600, number) is None and slurp(name, 512): opened.append(name)
for name in ('mem', 'kmem', 'port', 'kmsg', 'sda', 'vda', 'nvme0n1', 'fuse', 'kvm', 'loop-control', 'tty', 'ptmx'):
    if isinstance(attempt(os.open, '/dev/' + name, os.O_RDONLY), int): opened.append(name)
opened
"""
    assert attack(source).text == "[]"


def test_the_device_folder_holds_only_harmless_ones(attack):
    expected = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]

    assert attack("sorted(os.listdir('/dev'))").text == repr(expected)


def test_the_root_holds_only_what_is_named(attack):
    """The first parts of the environment's own folders come on top."""
    source = "sorted(set(os.listdir('/')) - set(ALLOWED)), sorted(os.listdir('/etc'))"
    allowed = [
        "app",
        "bin",
        "box",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "mnt",
        "proc",
        "sbin",
        "tmp",
        "usr",
        "var",
        "work",
        "workspace",
    ]
    from groundbox.sandbox import environments

    roots = {str(path).split("/")[1] for path in environments.get("default").readable_roots()}
    etc = [
        "alternatives",
        "ca-certificates",
        "fonts",
        "group",
        "hostname",
        "hosts",
        "ld.so.cache",
        "localtime",
        "mime.types",
        "nsswitch.conf",
        "passwd",
        "resolv.conf",
        "ssl",
        "timezone",
    ]

    execution = attack(f"ALLOWED = {sorted({*allowed, *roots})}\n{source}")

    assert execution.text is not None
    others, public = eval(execution.text)
    assert others == []
    assert set(public) <= set(etc)


def test_what_is_called_mnt_holds_the_workdir_alone(attack):
    execution = attack("os.listdir('/mnt'), os.readlink('/mnt/data'), attempt(os.mkdir, '/mnt/other')")

    assert execution.text in (f"(['data'], '../box/work', '{refusal}')" for refusal in ("EROFS", "EACCES"))
