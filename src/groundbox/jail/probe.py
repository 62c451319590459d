"""What this host can do for isolation, and when not, why and what to do about it."""

import os
import platform
import pwd
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from . import (
    BARE,
    GVISOR,
    LANDLOCK,
    NAMESPACES,
    cgroup,
    credentials,
    enter,
    kernel,
    landlock,
    namespaces,
    rootfs,
    seccomp,
)

SMALLEST_LANDLOCK: Final = 1
SCOPING_LANDLOCK: Final = 6
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_RUNSC: Final = ("/usr/bin/runsc", "/usr/local/bin/runsc", "/usr/sbin/runsc", "/usr/local/sbin/runsc")


LACKING_LANDLOCK: Final = "the kernel has none, or it is switched off"
MEND_LANDLOCK: Final = (
    "Use Linux 5.13 or newer and put `landlock` into the kernel's lsm= list; "
    "or do without: `--waive landlock`, in Python `waive=['landlock']`."
)
MEND_SCOPES: Final = "Use Linux 6.12 or newer, or run as root."
LACKING_IDS: Final = (
    f"this is root of a user namespace without the ids from {credentials.FIRST_HOST_UID} on, "
    "so that a guest would be root of it"
)
MEND_IDS: Final = "Run as an ordinary user of this container; or do without ids of the guests' own: `--waive uid`."


SMALLEST_FILE_SIZE: Final = 16 << 20
"""Below it the root of a sandbox and the data of libraries cannot be laid out."""
MEND_FILE_SIZE: Final = (
    "Start from a shell or unit without that limit: "
    "it comes from a profile, /etc/security/limits.conf or `LimitFSIZE=`."
)


@dataclass(frozen=True)
class Finding:
    """One mechanism.

    Attributes:
        layer: Its name, as in results and in `waive`.
        works: Whether it can stand here.
        detail: What was found, or the kernel's reason.
        mend: What to do when it does not work; empty when it does.
        optional: Whether only the backend of the same name needs it.
    """

    layer: str
    works: bool
    detail: str
    mend: str = ""
    optional: bool = False


def probe() -> list[Finding]:
    """Try each mechanism, in child processes where a try would change this one. Takes about 50 ms."""
    return [_platform(), _namespaces(), _landlock(), _seccomp(), _cgroups(), _identity(), gvisor(version=True)]


def missing(findings: list[Finding], *, backend: str, waive: frozenset[str]) -> list[Finding]:
    """Those layers that `backend` needs and that cannot stand here."""
    needed = {"platform", "landlock", "seccomp", "uid"}
    if backend == NAMESPACES:
        needed |= {"namespaces", "cgroup"}
    if backend == GVISOR:
        needed = {"platform", "cgroup", "gvisor"}
    if backend == BARE:
        needed = {"platform"}
    lacking = [finding for finding in findings if finding.layer in needed - waive and not finding.works]
    abi = landlock.abi()
    if backend == LANDLOCK and not credentials.has_ranges() and 0 < abi < SCOPING_LANDLOCK:
        reason = f"ABI {abi} does not keep signals inside ({SCOPING_LANDLOCK} is needed without root)"
        lacking.append(Finding("landlock", False, reason, MEND_SCOPES))
    return lacking


def find_runsc() -> str | None:
    """The path of gVisor's runsc, None where it is not installed."""
    return shutil.which("runsc") or next((path for path in _RUNSC if os.access(path, os.X_OK)), None)


def gvisor(*, version: bool = False) -> Finding:
    """Whether the backend gvisor can stand here. Whether the kernel lets it start is found out by starting one.

    Args:
        version: Ask runsc for its version, which starts it.
    """
    runsc = find_runsc()
    if runsc is None:
        mend = "Only for --backend gvisor: install it (Debian: `apt-get install runsc`; elsewhere: gvisor.dev)."
        return Finding("gvisor", False, "runsc is not installed", mend, optional=True)
    if kernel.MACHINE != "x86_64":
        return Finding("gvisor", False, f"not tried on {kernel.MACHINE}", "Use the backend namespaces.", optional=True)
    if os.geteuid() != 0:
        reason = "only root can mount the workdirs that gVisor shares with its host"
        return Finding("gvisor", False, reason, "Run as root, or use the backend namespaces.", optional=True)
    detail = f"{_runsc_version(runsc)}, {runsc}" if version else runsc
    return Finding("gvisor", True, detail, optional=True)


def _runsc_version(runsc: str) -> str:
    try:
        said = subprocess.run([runsc, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not tell its version: {error}"
    return " ".join(said.partition("\n")[0].split()[:3]) or "it does not tell its version"


def mend_cgroup(missing: Exception | None = None) -> str:
    """Return what to do where no control group can be made, in one sentence.

    Args:
        missing: Why none can be made, as `cgroup.find` raised it.
    """
    cure = str(getattr(missing, "mend", ""))
    if cure and os.geteuid() != 0:
        cure = f"As root: {cure[0].lower()}{cure[1:]}"
    elif not cure and os.geteuid() == 0:
        cure = "Run the container with its own cgroup writable"
    elif not cure:
        cure = f"As root, {cgroup.delegated_until()}: `groundbox doctor --delegate {_user()}`"
    return f"{cure}; or do without its bounds: `--waive cgroup`, in Python `waive=['cgroup']`."


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _platform() -> Finding:
    release = f"{platform.system()} {platform.release()} {kernel.MACHINE}"
    if sys.platform != "linux" or kernel.MACHINE not in ("x86_64", "aarch64"):
        return Finding("platform", False, release, "groundbox runs on Linux on x86_64 and aarch64 only.")
    if not os.path.exists("/proc/self/status"):
        return Finding("platform", False, f"{release}, without /proc", "As root: `mount -t proc proc /proc`.")
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if 0 <= largest < SMALLEST_FILE_SIZE:
        return Finding("platform", False, f"{release}; {too_small_files(largest)}", MEND_FILE_SIZE)
    absent = [f"/dev/{name}" for name in _DEVICES if not os.path.exists(f"/dev/{name}")]
    if absent:
        mend = "As root: `mount -t devtmpfs none /dev`."
        return Finding("platform", False, f"{release}, without {', '.join(absent)}", mend)
    return Finding("platform", True, release)


def too_small_files(largest: int) -> str:
    """Return why the limit of the size of files (`ulimit -f`) leaves no room for a sandbox."""
    return f"a file may have {largest} bytes (`ulimit -f`), and {SMALLEST_FILE_SIZE} are needed"


def _namespaces() -> Finding:
    failure = _try(_make_namespaces)
    if not failure:
        return Finding("namespaces", True, "user, mount, pid, network, ipc, uts")
    return Finding("namespaces", False, failure, _mend_namespaces())


def _make_namespaces() -> None:
    """Make the namespaces and a root of their own, as a template does."""
    uid, gid = os.geteuid(), os.getegid()
    if not credentials.has_ranges():
        namespaces.unshare(namespaces.NEWUSER)
        namespaces.write_id_maps(os.getpid(), inside=credentials.INSIDE_UID, outside_uid=uid, outside_gid=gid, count=1)
    namespaces.unshare(namespaces.NEWNS | namespaces.NEWPID | namespaces.NEWNET | namespaces.NEWIPC | namespaces.NEWUTS)
    rootfs.make_private()
    kernel.mount("tmpfs", "/proc", "tmpfs", 0, "size=4k")
    os.chdir("/proc")
    kernel.call("pivot_root", b".", b".")


def _is_chroot() -> bool:
    """Return True if the root of this process is a folder in which nothing is mounted, as chroot(2) leaves it."""
    points = [line.split()[4] for line in _read("/proc/self/mountinfo").splitlines()]
    return bool(points) and "/" not in points


def _mend_namespaces() -> str:
    if _is_chroot():
        return (
            "This is a chroot, in which the kernel allows no root of a sandbox's own. Start programs in that folder, "
            "here called ROOT, by pivot_root, as root: `unshare --mount sh -c 'mount --rbind ROOT ROOT && cd ROOT && "
            "pivot_root . mnt && umount --lazy /mnt && exec sh'`; or ask for the weaker wall by name: "
            "--backend landlock."
        )
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "Ubuntu's AppArmor refuses user namespaces to ordinary programs. Allow them for all, as root: "
            "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`; or give the interpreter a profile with "
            "`userns,`."
        )
    if _read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "Allow them, as root: `sysctl -w kernel.unprivileged_userns_clone=1`."
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts"):
        if _read(f"/proc/sys/user/max_{kind}_namespaces") == "0":
            return f"Allow them, as root: `sysctl -w user.max_{kind}_namespaces=10000`."
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return (
            "This is a container whose seccomp profile refuses namespaces. Start it with a profile that allows "
            "unshare, clone3, mount and pivot_root, or ask for the weaker wall by name: --backend landlock."
        )
    if os.geteuid() == 0:
        return "Ask for the weaker wall by name: --backend landlock."
    return "Run as root, or ask for the weaker wall by name: --backend landlock."


def _landlock() -> Finding:
    version = landlock.abi()
    if version < SMALLEST_LANDLOCK:
        return Finding(
            "landlock",
            False,
            LACKING_LANDLOCK,
            MEND_LANDLOCK,
        )
    return Finding("landlock", True, f"ABI {version}")


def _seccomp() -> Finding:
    def install() -> None:
        kernel.prctl("PR_SET_NO_NEW_PRIVS", 38, 1)
        seccomp.Filter(seccomp.wide()).install()

    failure = _try(install)
    mend = "The kernel needs CONFIG_SECCOMP_FILTER." if failure else ""
    return Finding("seccomp", not failure, failure or "filters work", mend)


def _cgroups() -> Finding:
    try:
        found = cgroup.find()
    except OSError as error:
        return Finding("cgroup", False, str(error), mend_cgroup(error))
    shares = "" if found.weighs() else "; no cpu controller: sandboxes have no fixed share of the processors"
    remount = cgroup.joining_waits(found, release=platform.release(), mountinfo=_read("/proc/self/mountinfo"))
    waits = f"; the slowest of many sandboxes that start at once wait for a lock: `{remount}`" if remount else ""
    return Finding("cgroup", True, f"version {found.version}: {', '.join(found.folders())}{shares}{waits}")


def _identity() -> Finding:
    if credentials.has_ranges():
        return Finding("uid", True, "root: every sandbox gets a host id of its own")
    if os.geteuid() == 0:
        return Finding("uid", False, LACKING_IDS, MEND_IDS)
    detail = f"ordinary user {os.geteuid()}: sandboxes share this user's host id; namespaces keep them apart"
    return Finding("uid", True, detail)


def _try(attempt: Callable[[], None]) -> str:
    """The reason why `attempt` fails in a child process, or an empty string."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempt()
            os._exit(0)
        except OSError as error:
            os.write(writer, enter.refusal(error).encode())
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        reason = file.read().decode()
    _, status = os.waitpid(child, 0)
    return reason or ("" if status == 0 else f"a try ended with status {status}")


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
