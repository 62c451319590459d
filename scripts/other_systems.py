"""Tries groundbox in other systems, as root, each made from Debian's packages and used in all the ways of WAYS.

    python scripts/other_systems.py [--keep FOLDER] [debian-11 debian-12 debian-13]

A system is a folder that mmdebstrap fills from the mirror of this machine's apt: Python, and what the README says.
groundbox is installed there from a wheel of this checkout, its environment is built, and programs start by
pivot_root, as `groundbox doctor` says for a chroot. Debian 11 has Python 3.9 and has to refuse in one line.
debian-12 is also booted with systemd under User-Mode Linux, where a login gets its control groups from systemd.

    apt-get install mmdebstrap user-mode-linux kmod

The exit status is 1 if a way does not do what it has to.
Ubuntu's limit of user namespaces was not tried: no kernel here has it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SYSTEMS = {"debian-11": "bullseye", "debian-12": "bookworm", "debian-13": "trixie"}
PACKAGES = ("python3", "python3-venv", "util-linux", "procps", "ca-certificates")
OF_SYSTEMD = ("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "iproute2")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
MOUNTED = ("/dev", "/sys")
GROUNDBOX = "/opt/groundbox/bin/groundbox"
USER, UID, NOBODY = "ordinary", 1000, 4242


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to use groundbox: a script of sh, as which user, and what its output has to contain."""

    name: str
    script: str
    uid: int = UID
    has_to_print: str = "42"
    home: str = f"/home/{USER}"


RUN = f"{GROUNDBOX} run --no-engine -c 'print(6 * 7)'"
WAYS = (
    Way("root", RUN, uid=0, home="/root"),
    Way("root's doctor", f"{GROUNDBOX} doctor", uid=0, home="/root", has_to_print="groundbox: ready"),
    Way("an ordinary user with a closed home", RUN),
    Way("an ordinary user's doctor", f"{GROUNDBOX} doctor", has_to_print="groundbox: ready"),
    Way("the engine in the background", f"{GROUNDBOX} run -c 'print(6 * 7)' && {GROUNDBOX} engine stop"),
    Way("umask 077", f"umask 077; {RUN}"),
    Way("LANG=C", f"LANG=C {GROUNDBOX} run --no-engine -c 'print(41 + len(\"é\"))'"),
    Way("no /run/user", f"unset XDG_RUNTIME_DIR; {GROUNDBOX} run -c 'print(6 * 7)' && {GROUNDBOX} engine stop"),
    Way("a home that can only be read", RUN, home="/home/read-only"),
    Way("1,024 descriptors", f"ulimit -n 1024; {RUN}"),
    Way("no entry in /etc/passwd", RUN, uid=NOBODY, home="/nonexistent"),
)


def main(arguments: Sequence[str]) -> int:
    """Make and try the systems, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="FOLDER", help="where systems stay, and are found again")
    parser.add_argument("systems", nargs="*", default=[*SYSTEMS])
    chosen = parser.parse_args(arguments)
    if os.geteuid() != 0:
        parser.error("only root can make another system")
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(chosen.keep or scratch)
        wheel = build_wheel(Path(scratch))
        for name in chosen.systems:
            root = folder / name
            make_system(root, SYSTEMS[name])
            for way, problem in try_system(root, wheel, is_too_old=name == "debian-11"):
                print(f"{'FAILED' if problem else 'ok':<8} {name}: {way}", flush=True)
                if problem:
                    failed.append(f"{name}: {way}")
                    print("         " + problem.strip().replace("\n", "\n         "), flush=True)
    print(f"{len(failed)} failed" + "".join(f"\n  {each}" for each in failed))
    return 1 if failed else 0


def build_wheel(folder: Path) -> Path:
    """Return a wheel of this checkout."""
    command = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(HERE)]
    subprocess.run([sys.executable, "-m", "pip", *command], check=True)
    (wheel,) = folder.glob("groundbox-*.whl")
    return wheel


def make_system(root: Path, suite: str) -> None:
    """Fill a folder with Debian, unless it is there."""
    if (root / "usr").is_dir():
        return
    packages = [*PACKAGES, *(OF_SYSTEMD if suite == "bookworm" else ())]
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", suite, str(root)]
    subprocess.run([*command, mirror()], check=True)


def mirror() -> str:
    """Return the first mirror of this machine's apt."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()[0]


def try_system(root: Path, wheel: Path, *, is_too_old: bool) -> Iterator[tuple[str, str]]:
    """Yield each way with what went wrong, or an empty string."""
    shutil.copy(wheel, root / "opt")
    for name in ("/etc/resolv.conf", "/etc/hosts"):
        shutil.copy(name, root / name[1:])
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    shutil.copy(CERTIFICATES, root / CERTIFICATES[1:])
    install = f"/opt/groundbox/bin/pip install --quiet '/opt/{wheel.name}[environments]'"
    said = enter(root, f"python3 -m venv --clear /opt/groundbox && {install}", uid=0)
    if is_too_old:
        named = re.search(r"requires a different Python: 3\.9\.\d+ not in ", said)
        yield "a Python that is too old is refused by name", "" if named else said
        return
    yield "installation", said
    yield "the environment", "" if "ready" in (said := enter(root, f"{GROUNDBOX} environment create", uid=0)) else said
    prepare_users(root)
    for way in WAYS:
        said = enter(root, way.script, uid=way.uid, home=way.home)
        yield way.name, "" if way.has_to_print in said and "Traceback" not in said else said
    noexec = enter(root, RUN, uid=UID, home=f"/home/{USER}", before="mount -t tmpfs -o noexec,mode=1777 none /tmp")
    yield "/tmp in which nothing can be executed", "" if "42" in noexec else noexec
    if (root / "lib/systemd/systemd").exists():
        said = boot(root)
        yield "a login of systemd", "" if "42 at once" in said and "42 delegated" in said else said


def prepare_users(root: Path) -> None:
    """Make an ordinary user and homes, and control groups for everybody."""
    enter(root, f"id {USER} || useradd --uid {UID} --user-group --shell /bin/sh {USER}", uid=0)
    for name, mode in ((USER, 0o700), ("read-only", 0o500)):
        home = root / "home" / name
        home.mkdir(exist_ok=True)
        os.chown(home, UID, UID)
        home.chmod(mode)
    for uid in (UID, NOBODY):
        enter(root, f"{GROUNDBOX} doctor --delegate {uid}", uid=0)


def enter(root: Path, script: str, *, uid: int, home: str = "/root", before: str = ":") -> str:
    """Run a script of sh in a system, as a user, and return what it prints."""
    environ = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": home,
        "GROUNDBOX_HOME": "/opt/environments",
        "SSL_CERT_FILE": CERTIFICATES,
        "PIP_CERT": CERTIFICATES,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    assigned = " ".join(f"{name}={value}" for name, value in environ.items())
    mounts = " && ".join(f"mount --rbind {path} {root}{path}" for path in MOUNTED)
    inside = f"cd / && exec setpriv --reuid {uid} --regid {uid} --clear-groups env -i {assigned} sh -c"
    outside = (
        f"mount --rbind {root} {root} && {mounts} && mount -t proc proc {root}/proc && "
        f"mount -t tmpfs none {root}/run && mount -t tmpfs -o mode=1777 none {root}/tmp && "
        f'cd {root} && pivot_root . mnt && umount --lazy /mnt && {before} && {inside} "$SCRIPT"'
    )
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", outside],
        env={**os.environ, "SCRIPT": script},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.stdout


UNIT = """[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
ExecStart=/bin/sh /root/try.sh
"""
TARGET = """[Unit]
Requires=basic.target dbus.service systemd-logind.service
Wants=try.service
AllowIsolate=yes
"""
BOOT = """
echo $$ >/sys/fs/cgroup/cgroup.procs
rmdir /sys/fs/cgroup/session
umount /sys/fs/cgroup /run /tmp
exec /lib/systemd/systemd --unit=try.target --show-status=false --log-target=null
"""
LOGIN = f"""
export GROUNDBOX_HOME=/opt/environments
{GROUNDBOX} run --no-engine --waive landlock -c 'print(42, "at once")'
unset XDG_RUNTIME_DIR
{GROUNDBOX} run --no-engine --waive landlock -c 'print(42, "refused")'
touch /tmp/refused
while [ ! -e /tmp/delegated ]; do sleep 0.1; done
{GROUNDBOX} run --no-engine --waive landlock -c 'print(42, "delegated")'
"""
TRY = f"""
sleep 1
su -l {USER} -c 'sh /opt/login.sh' &
while [ ! -e /tmp/refused ]; do sleep 0.1; done
{GROUNDBOX} doctor --delegate {USER}
touch /tmp/delegated
wait $!
echo "the command ended with $?"
echo o >/proc/sysrq-trigger
sleep 60
"""


def boot(root: Path) -> str:
    """Boot a system with systemd under User-Mode Linux, log in, and return what its console shows."""
    for path, text in {
        "etc/systemd/system/try.service": UNIT,
        "etc/systemd/system/try.target": TARGET,
        "root/boot.sh": BOOT,
        "root/try.sh": TRY,
        "opt/login.sh": LOGIN,
    }.items():
        (root / path).write_text(text)
    ran = subprocess.run(
        [str(HERE / "scripts/under_another_kernel.sh"), "exec", "sh", "/root/boot.sh"],
        env={**os.environ, "UML": "1", "ROOT": str(root), "MEMORY": "2G", "WITHIN_S": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
