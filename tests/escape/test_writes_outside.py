"""Row 4: writing where it is not the guest's to write: system, interpreter, sysctls, control groups."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import pytest

from groundbox import Limits, MiB, Outcome

WRITE_EVERYWHERE = """
import stat
def writable(path):
    file = attempt(os.open, path, os.O_WRONLY | os.O_NONBLOCK)
    if isinstance(file, int):
        os.close(file)
        return True
    return False

found = []
for top in TREES:
    for folder, folders, files in os.walk(top):
        if folder.startswith(('/proc', '/box')): folders.clear(); continue
        made = attempt(os.mkdir, folder + '/made')
        if made is None: found.append(folder); os.rmdir(folder + '/made')
        for name in files[:50]:
            path = folder + '/' + name
            if not os.path.islink(path) and not stat.S_ISCHR(os.lstat(path).st_mode) and writable(path): found.append(path)
found[:20]
"""


def test_nothing_but_the_box_is_writable(attack):
    trees = ["/etc", "/dev", "/usr/bin", "/usr/lib/python3", "/usr/share/doc"]

    execution = attack(f"TREES = {trees}\n" + WRITE_EVERYWHERE, wall_s=60)

    assert execution.error is None
    assert execution.text == "[]"


def test_the_interpreter_and_its_packages_cannot_be_changed(attack):
    source = "import sys, sysconfig, site\nTREES = [sysconfig.get_paths()['purelib'], os.path.dirname(os.__file__), os.path.dirname(os.path.realpath(sys.executable))]\n"

    execution = attack(source + WRITE_EVERYWHERE, wall_s=120)

    assert execution.error is None
    assert execution.text == "[]"


ROOT_WRITES = """
import errno
results = []
for path in ('/', '/usr', '/etc', '/dev', '/proc', '/proc/1'):
    for action in (
        lambda: os.mkdir(path + '/evil'), lambda: os.chmod(path, 0o777), lambda: os.chown(path, 1, 1),
        lambda: os.rename(path, '/box/moved'), lambda: os.setxattr(path, 'user.x', b'x'),
        lambda: os.symlink('/x', path + '/evil'), lambda: os.mkfifo(path + '/evil'),
        lambda: os.truncate(path, 0), lambda: os.rmdir(path),
    ):
        results.append(attempt(action))
sorted({str(r) for r in results})
"""


def test_every_way_of_changing_the_root_is_refused(attack):
    assert "None" not in (attack(ROOT_WRITES).text or "None")


WRITE_SYSCTL = """
value = slurp(PATH)
file = attempt(os.open, PATH, os.O_WRONLY)
# The same value again: the answer is the same as for a harmful one.
print('BREACH' if isinstance(file, int) and isinstance(attempt(os.write, file, value), int) else file)
"""


@pytest.mark.needs_root(reason="an ordinary user's guest has no way to be the host's root")
@pytest.mark.layers(
    holds=[
        "",
        "proc",
        "proc landlock",
        "proc uid user_ns",
        "landlock uid user_ns",
        "proc landlock uid",
        "proc landlock user_ns",
    ],
    breaks=["proc landlock uid user_ns"],
)
def test_the_hosts_core_pattern_cannot_be_written(attack, waive, breached):
    """A guest that is the host's root writes there without any capability: the kernel looks at the id alone."""
    execution = attack("PATH = '/proc/sys/kernel/core_pattern'\n" + WRITE_SYSCTL, waive=waive)

    assert ("BREACH" in execution.stdout) is breached


def test_no_sysctl_and_no_kernel_table_is_there(attack):
    source = (
        "sorted(set(os.listdir('/proc')) - {'self', 'thread-self'} - {p for p in os.listdir('/proc') if p.isdigit()})"
    )

    assert attack(source).text == "[]"


@pytest.mark.parametrize(
    "path", ["/sys", "/sys/fs/cgroup", "/sys/kernel", "/proc/sys", "/proc/sysrq-trigger", "/run", "/boot", "/srv"]
)
def test_a_folder_of_the_system_is_not_there(attack, path):
    assert attack(f"os.path.exists('{path}')").text == "False"


def test_on_the_way_to_the_environment_nothing_else_is_shown(attack):
    source = """
shown = {}
folder = os.path.dirname(sys.prefix)
while folder != '/':
    shown[folder] = os.listdir(folder)
    folder = os.path.dirname(folder)
[f for f, names in shown.items() if len(names) > 2 and not f.startswith('/usr')]
"""
    assert attack("import os, sys\n" + source).text == "[]"


def test_a_memory_limit_holds_after_trying_to_lift_it(attack):
    source = """
import resource
for which in (resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
    hard = resource.getrlimit(which)[1]
    attempt(resource.setrlimit, which, (hard, hard))
    attempt(resource.setrlimit, which, (-1, -1))
block = bytearray(b'x') * (400 << 20)
"""
    execution = attack(source, limits=Limits(memory_bytes=128 * MiB))

    assert execution.outcome is Outcome.MEMORY
    assert execution.usage.peak_memory_bytes <= 129 * MiB
