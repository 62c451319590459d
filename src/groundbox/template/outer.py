"""The outer jail: what a template goes through once, so that no worker has to."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groundbox.jail import (
    BARE,
    GVISOR,
    NAMESPACES,
    capabilities,
    credentials,
    descriptors,
    enter,
    inner,
    namespaces,
    rlimits,
    rootfs,
    seccomp,
)

_TEMPLATE_BOX_BYTES = 64 << 20


def plan_from(order: dict[str, Any]) -> enter.Plan:
    """The plan inside the host's first message."""
    plan = order["plan"]
    return enter.Plan(**{**plan, "waive": frozenset(plan["waive"])})


def enter_outer_jail(control: socket.socket, plan: enter.Plan) -> None:
    """Return in the template process, inside the outer jail. Other processes made here never return.

    Raises:
        JailFailed: A layer could not be set up; its name is in the message.
    """
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.umask(0o022)
    descriptors.close_all_but([0, 1, 2, control.fileno()])
    if "rlimits" not in plan.waive:
        rlimits.forbid_cores()
    if plan.backend == GVISOR:
        with _layer("chroot"):
            inner.prepare()
        return
    with _layer("keyring"):
        enter.join_empty_keyring(plan)
    if plan.backend != NAMESPACES:
        credentials.adopt_orphans()
        return
    _enter_namespaces(plan)


def make_ruleset(plan: enter.Plan) -> None:
    """What only a real call can make, for the rehearsals to find it there.

    Raises:
        JailFailed: It cannot be made.
    """
    with _layer("landlock"):
        enter.ruleset_apart(plan)


def seal(plan: enter.Plan) -> int | None:
    """Last part of the outer jail, after the imports: what would have hindered them, or what they might undo.

    Returns:
        The descriptor of the warden of locks (`locks.start`), without whom no byte-range lock can be set from here on.
    """
    if plan.backend == NAMESPACES and "user_ns" not in plan.waive:
        with _layer("user_ns"):  # without one of our own this would be a setting of the host
            namespaces.forbid_user_namespaces()
    if plan.backend in enter.CONTAINED and "capabilities" not in plan.waive:
        with _layer("capabilities"):
            capabilities.empty_bounding_set()
    if "rlimits" not in plan.waive:
        with _layer("rlimits"):
            rlimits.set_common(inner=plan.backend == GVISOR)
    if "landlock" not in plan.waive and plan.backend not in (BARE, GVISOR):
        with _layer("landlock"):
            enter.common_rules(plan)
    if "no_new_privs" not in plan.waive and plan.backend != BARE:
        with _layer("no_new_privs"):
            capabilities.no_new_privileges()
    if "seccomp" not in plan.waive and plan.backend != BARE:
        with _layer("seccomp"):
            apart = enter.ruleset_apart(plan) >= 0
            for internet in (False, True):
                seccomp.narrow_filter(internet=internet, namespaces=plan.backend in enter.CONTAINED, apart=apart)
        if plan.backend == NAMESPACES and "locks" not in plan.waive:
            with _layer("locks"):
                return seccomp.Filter(seccomp.wide(locks_asked=True)).install_asking()
        with _layer("seccomp"):
            seccomp.Filter(seccomp.wide()).install()
    return None


def _enter_namespaces(plan: enter.Plan) -> None:
    root = plan.uid_base is not None
    if not root:
        with _layer("user_ns"):
            uid, gid = os.geteuid(), os.getegid()
            namespaces.unshare(namespaces.NEWUSER)
            namespaces.write_id_maps(
                os.getpid(), inside=credentials.INSIDE_UID, outside_uid=uid, outside_gid=gid, count=1
            )
    with _layer("mount_ns"):
        namespaces.unshare(namespaces.NEWNS)
        rootfs.make_private()
        first = credentials.INSIDE_UID
        uids = range(first, first + credentials.GUESTS if root else first + 1)
        base = rootfs.build(plan.readable, uids=uids, mounts=plan.mounts)
        if "mount_ns" in plan.waive:
            rootfs.show_host(base)
    with _layer("pid_ns"):
        namespaces.unshare(namespaces.NEWPID)
    child = os.fork()
    if child:
        _end_with(child)
    credentials.die_with_parent()
    with _layer("proc"):
        rootfs.mount_proc(f"{base}/proc", only_processes=False)
    with _layer("mount_ns"):
        rootfs.pivot(base)
    _keep(plan) if root and "user_ns" not in plan.waive else _keep_plainly()
    flags = namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWUTS | namespaces.NEWCGROUP
    with _layer("network_ns"):
        namespaces.unshare(flags if "network_ns" in plan.waive else flags | namespaces.NEWNET)
    with _layer("mount_ns"):
        rootfs.mount_box(disk_bytes=_TEMPLATE_BOX_BYTES, file_count=4096, uid=os.geteuid())
        rootfs.fill_box()
    with _layer("uts_ns"):
        if "uts_ns" not in plan.waive:
            socket.sethostname("groundbox")


def _keep(plan: enter.Plan) -> None:
    """Become the template in a user namespace of its own; the calling process stays behind as keeper.

    The keeper still is real root while it writes the template's id maps; then it gives everything up.
    """
    asked_reader, asked_writer = os.pipe()
    done_reader, done_writer = os.pipe()
    child = os.fork()
    if child:
        os.read(asked_reader, 1)
        assert plan.uid_base is not None
        namespaces.write_id_maps(
            child, inside=0, outside_uid=plan.uid_base, outside_gid=plan.uid_base, count=credentials.RANGE
        )
        os.write(done_writer, b".")
        credentials.become(plan.uid_base + credentials.RANGE - 1)
        capabilities.drop_all()
        credentials.die_with_parent()  # the change of ids has cleared it
        _end_with(child)
    with _layer("user_ns"):
        assert plan.uid_base is not None
        credentials.act_as(plan.uid_base)
        namespaces.unshare(namespaces.NEWUSER)
        os.write(asked_writer, b".")
        os.read(done_reader, 1)
        credentials.become(0)
    for descriptor in (asked_reader, asked_writer, done_reader, done_writer):
        os.close(descriptor)
    credentials.die_with_parent()


def _keep_plainly() -> None:
    child = os.fork()
    if child:
        _end_with(child)
    credentials.die_with_parent()


def _end_with(child: int) -> None:
    """Close everything, reap, and end when `child` ends: with it ends its whole pid namespace.

    A guest may have chosen to outlive its parent; it must not be waited for.
    """
    os.closerange(3, 1 << 20)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


@contextmanager
def _layer(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise enter.JailFailed(name, enter.refusal(error)) from error
