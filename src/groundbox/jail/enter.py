"""The jail as ordered lists of steps: what stands, in which order, and why in that order.

A template goes through template/outer.py once; every worker, a fresh copy of it, goes through `WORKER`.
A step that fails stops everything: nothing runs in an incomplete jail. A step is left out only when its
layer was waived by name, and the result of every run then says so.

The order follows from what each step needs: the keyring while nothing depends on it; the user namespace first
when the caller has no privilege, because it grants the rest, and after the root is built when the caller is
root, because only real root can bind folders below a closed home; ids before capabilities, because
changing ids needs one; Landlock after the mounts that its rules name; descriptors when none is needed any more;
seccomp last, because every step before needs a call that it refuses.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from . import (
    BARE,
    GVISOR,
    LANDLOCK,
    NAMESPACES,
    assembly,
    capabilities,
    credentials,
    descriptors,
    inner,
    kernel,
    keyring,
    landlock,
    launch,
    loopback,
    namespaces,
    rlimits,
    rootfs,
    sealed,
    seccomp,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What a template is told about the jail it will enter.

    Attributes:
        backend: `namespaces`, `landlock`, `gvisor` or `bare`.
        waive: Layers to leave out, by the names of the steps.
        readable: Host folders that the guest sees read-only at the same path.
        mounts: Regular files of the host that the guest sees below /inputs: path, place, device and inode.
        uid_base: First host id of the range lent to this template, None when not root.
        landlock_abi: What the probe found.
        private_folder: Landlock backend only: the folder on disk in which workers get theirs.
    """

    backend: str
    waive: frozenset[str] = frozenset()
    readable: Sequence[str] = ()
    mounts: Sequence[tuple[str, str, int, int]] = ()
    uid_base: int | None = None
    landlock_abi: int = 0
    private_folder: str = ""


@dataclass(kw_only=True)
class Entry:
    """What one worker's entry is told, and what it leaves for the worker to hand to the host.

    Attributes:
        join: Descriptors of cgroup `tasks` files; the worker writes itself into each.
        keep: Descriptors that stay open besides 0, 1 and 2.
        network: `off`, `loopback` or `proxy`.
        process_count: Only where no pids cgroup stands.
        workdir: Where programs run; rewritten by the landlock backend.
        listener: The proxy's socket, when `network` is `proxy`.
        guarded_below: Addresses below this one must stay as they are mapped; 0 for none (sealed.py).
    """

    plan: Plan
    uid: int
    disk_bytes: int | None
    file_count: int | None
    process_count: int | None
    network: str
    join: Sequence[int]
    keep: Sequence[int]
    workdir: str = rootfs.WORKDIR
    folder: str = ""
    listener: object = field(default=None)
    guarded_below: int = 0


@dataclass(frozen=True)
class Step:
    """One step: `layer` names it in `doctor`, in results and in `waive`."""

    layer: str
    run: Callable[[Entry], None]
    backends: frozenset[str] = frozenset({NAMESPACES})


class JailFailed(Exception):
    """A layer could not be set up. `layer` and the kernel's reason are in the message."""

    def __init__(self, layer: str, reason: object) -> None:
        super().__init__(f"{layer}: {reason}")


ALL: Final = frozenset({NAMESPACES, LANDLOCK, GVISOR, BARE})
WALLED: Final = frozenset({NAMESPACES, LANDLOCK, GVISOR})
CONTAINED: Final = frozenset({NAMESPACES, GVISOR})
"""Backends whose workers are in pid and network namespaces of their own."""


def _join_cgroups(entry: Entry) -> None:
    for descriptor in entry.join:
        kernel.write(descriptor, b"0")
    if entry.plan.backend == NAMESPACES and entry.join:
        namespaces.unshare(namespaces.NEWCGROUP)  # its root is the group joined: names of groups tell of the host


def _mount_box(entry: Entry) -> None:
    rootfs.mount_box(disk_bytes=entry.disk_bytes, file_count=entry.file_count, uid=entry.uid)


def _make_folder(entry: Entry) -> None:
    for name in ("work", "tmp"):
        kernel.mkdir(f"{entry.folder}/{name}", 0o700)
        if entry.plan.uid_base is not None:
            kernel.chown(f"{entry.folder}/{name}", entry.uid)
    if entry.plan.uid_base is not None:
        kernel.chown(entry.folder, entry.uid)
    entry.workdir = f"{entry.folder}/work"
    kernel.chdir(entry.workdir)


def _enter_inner_root(entry: Entry) -> None:
    inner.enter(entry.folder)


def _mount_proc(entry: Entry) -> None:
    rootfs.mount_proc("/proc", only_processes=True)


def _network(entry: Entry) -> None:
    if entry.network == "off":
        return
    loopback.bring_up()
    if entry.network == "proxy":
        entry.listener = loopback.listen()


def _limits(entry: Entry) -> None:
    rlimits.set_for_sandbox(
        disk_bytes=entry.disk_bytes,
        process_count=entry.process_count,
        file_system_bound=entry.plan.backend in CONTAINED,
    )


def _descriptors(entry: Entry) -> None:
    kept = [0, 1, 2, *entry.keep]
    if (apart := ruleset_apart(entry.plan)) >= 0:
        kept.append(apart)
    if entry.listener is not None:
        kept.append(entry.listener.fileno())  # type: ignore[attr-defined]
    descriptors.close_all_but(kept)


def _become(entry: Entry) -> None:
    if entry.plan.uid_base is not None:
        credentials.become(entry.uid)


def _make_folders(entry: Entry) -> None:
    if entry.plan.backend == NAMESPACES:
        rootfs.fill_box()


def _own_process(entry: Entry) -> None:
    credentials.allow_own_proc()
    credentials.die_with_parent()
    credentials.lead_own_group()
    if entry.plan.backend not in CONTAINED:
        credentials.adopt_orphans()


def _drop_capabilities(entry: Entry) -> None:
    capabilities.drop_all()


def _landlock(entry: Entry) -> None:
    rules = list(common_rules(entry.plan))
    if entry.plan.backend == NAMESPACES:
        rules += [landlock.Rule(rootfs.BOX, None), landlock.Rule("/proc", landlock.READ)]
    else:
        rules.append(landlock.Rule(entry.folder, None))
    landlock.restrict(rules, version=entry.plan.landlock_abi, tcp=entry.network != "off")


@functools.cache
def common_rules(plan: Plan) -> tuple[landlock.Rule, ...]:
    """The rules that are the same for all workers. Call it in the template, inside the new root:
    it opens what the rules name, and workers find it open.

    They name what the root is made of and not the root itself, so that they hold
    also where something else has come to lie in it.
    """
    if plan.backend == NAMESPACES:
        rules = [landlock.Rule(path, landlock.READ) for path in rootfs.readable_trees(plan.readable)]
        rules.append(landlock.Rule("/", landlock.READ_DIR))
    else:
        trees = rootfs.readable_on_host(plan.readable)
        rules = [landlock.Rule(path, landlock.READ) for path in trees]
    rules += [landlock.Rule(f"/dev/{name}", landlock.WRITE_DEVICE) for name in ("null", "zero", "full")]
    if plan.backend != NAMESPACES:
        rules += [landlock.Rule(f"/dev/{name}", landlock.READ) for name in ("random", "urandom")]
    return tuple(landlock.opened(rule) for rule in rules)


@functools.cache
def ruleset_apart(plan: Plan) -> int:
    """The descriptor with which a worker keeps programs apart, -1 where that cannot be.

    Call it in the template, inside the new root and before anything is rehearsed, so that workers find it open.
    It takes every layer: a process is reached by more ways than Landlock closes.
    """
    stands = plan.backend == NAMESPACES and not plan.waive and plan.landlock_abi >= landlock.APART_ABI
    return landlock.apart() if stands else -1


def _seccomp(entry: Entry) -> None:
    walled, apart = entry.plan.backend in CONTAINED, ruleset_apart(entry.plan) >= 0
    seccomp.narrow_filter(
        internet=entry.network != "off", namespaces=walled, apart=apart, guarded_below=entry.guarded_below
    ).install()


WORKER: Final = (
    Step("cgroup", _join_cgroups, ALL),
    Step("workdir", _mount_box),
    Step("workdir", _make_folder, frozenset({LANDLOCK, BARE})),
    Step("chroot", _enter_inner_root, frozenset({GVISOR})),
    Step("proc", _mount_proc),
    Step("network", _network),
    Step("uid", _become, WALLED),
    Step("workdir", _make_folders),
    Step("parent", _own_process, ALL),
    Step("capabilities", _drop_capabilities, WALLED),
    Step("landlock", _landlock, frozenset({NAMESPACES, LANDLOCK})),
    Step("rlimits", _limits, ALL),
    Step("descriptors", _descriptors, ALL),
    Step("seccomp", _seccomp, WALLED),
)

STRUCTURAL: Final = frozenset({"workdir", "parent"})
"""Steps without which nothing works; they are no layer and cannot be waived."""

TEMPLATE_LAYERS: Final = {
    NAMESPACES: (
        "user_ns",
        "mount_ns",
        "pid_ns",
        "network_ns",
        "ipc_ns",
        "uts_ns",
        "keyring",
        "no_new_privs",
        "dumpable",
        "locks",
    ),
    GVISOR: ("gvisor", "pid_ns", "network_ns", "ipc_ns", "uts_ns", "no_new_privs"),
    LANDLOCK: ("keyring", "no_new_privs", "dumpable"),
    BARE: (),
}
"""Layers that a template sets up, beyond those of `WORKER`, in the order in which they are told."""


def enter(entry: Entry) -> None:
    """Put the calling process, a fresh copy of the template, into its jail.

    Raises:
        JailFailed: A step failed. The process must end.
    """
    for step in WORKER:
        if entry.plan.backend not in step.backends:
            continue
        if step.layer in entry.plan.waive and step.layer not in STRUCTURAL:
            continue
        try:
            step.run(entry)
        except (OSError, ValueError) as reason:
            raise JailFailed(step.layer, reason) from reason


def can_branch(plan: Plan) -> bool:
    """Whether live sandboxes can be copied here: where every layer stands, on a machine that sealed.py knows."""
    return plan.backend == NAMESPACES and not plan.waive and kernel.MACHINE == "x86_64"


def sealed_program(plan: Plan, *, disk_bytes: int | None, file_count: int | None) -> sealed.Program:
    """The steps of `WORKER` as a sealed program, by which a copy of a guest enters the jail; see sealed.py.

    They are the same functions, and their calls are written down in place of being made. A copy's files are made,
    or are there already, before it is one, and its control group is joined then.
    """
    entry = _recorded_entry(plan, disk_bytes=disk_bytes, file_count=file_count, guarded_below=sealed.GUARDED_BELOW)
    with kernel.recording(_own_slots()) as room:
        rootfs.make_box(disk_bytes=disk_bytes, file_count=file_count, uid=assembly.USER)
    with kernel.recording(_own_slots()) as calls:
        nothing = (
            kernel.open_nothing()
        )  # a copy may run the guest's code as soon as it goes on: no stream is the template's
        for stream in range(3):
            kernel.duplicate(nothing, stream)
        for step in WORKER:
            if plan.backend in step.backends and step.layer not in ("cgroup", "workdir"):
                step.run(entry)
            if step.layer == "uid":
                kernel.chdir(rootfs.BOX)  # what is in it is the guest's, and may be anything when this is gone through
            if step.layer == "descriptors":  # before, all of the template's are there, and more are opened
                rlimits.set_open_files(own_user=plan.uid_base is not None)
            if step.layer == "parent":
                credentials.be_ended_first()  # and not the checkpoints that it could go on from
    return sealed.Program(flags=clone_flags(plan) & ~namespaces.NEWNET, network=True, room=room, calls=calls)


def launched_entry(
    plan: Plan,
    *,
    disk_bytes: int | None,
    file_count: int | None,
    process_count: int | None,
    cpu_s: float | None,
    memory_bytes: int | None,
    held_bytes: int,
) -> launch.Entry:
    """The steps of `WORKER` as machine code, by which what the launcher has made enters the jail; see launch.py.

    Args:
        cpu_s: Limits of its first run, and `held_bytes`: see `rlimits.set_for_run`.
    """
    entry = _recorded_entry(
        plan, disk_bytes=disk_bytes, file_count=file_count, process_count=process_count, shift=sealed.BIRTHS
    )
    with kernel.recording(_own_slots(sealed.BIRTHS)) as calls:
        kernel.duplicate(kernel.open_nothing(), 0)
        steps, has_box = [*calls], False
        for step in WORKER:
            if plan.backend not in step.backends:
                continue
            if step.layer != "workdir":
                step.run(entry)
            elif not has_box:  # it is made for a user id that is a number here, and gone to as that user
                rootfs.make_box(disk_bytes=disk_bytes, file_count=file_count, uid=entry.uid)
                has_box = True
            else:
                kernel.chdir(rootfs.WORKDIR)
            if step.layer == "rlimits":
                rlimits.set_for_run(cpu_s=cpu_s, memory_bytes=memory_bytes, held_bytes=held_bytes, spent_s=0.0)
            if step.layer == "descriptors" and plan.uid_base is not None:  # else it counts what others have under way
                rlimits.set_open_files(own_user=True)
            steps += [call._replace(step=step.layer) for call in calls[len(steps) :]]
    return launch.Entry(steps, flags=clone_flags(plan) & ~namespaces.NEWNET, shift=sealed.BIRTHS)


def _own_slots(shift: int = 0) -> range:
    return range(sealed.Slot.FIRST_OWN + shift, sealed.Slot.LAST_OWN + shift + 1)


def _recorded_entry(
    plan: Plan,
    *,
    disk_bytes: int | None,
    file_count: int | None,
    process_count: int | None = None,
    guarded_below: int = 0,
    shift: int = 0,
) -> Entry:
    common_rules(plan)  # these are opened for good, and not recorded
    return Entry(
        plan=plan,
        uid=assembly.USER,
        disk_bytes=disk_bytes,
        file_count=file_count,
        process_count=process_count,
        network="off",
        join=range(sealed.Slot.JOIN + shift, sealed.Slot.JOIN_LAST + 1 + shift),
        keep=[slot + shift for slot in (sealed.Slot.SOCKET, sealed.Slot.OUT, sealed.Slot.ERR)],
        guarded_below=guarded_below,
    )


def clone_flags(plan: Plan) -> int:
    """The namespaces that a worker is cloned into.

    The network namespace is its own even when there is no network: in a shared one the names of abstract
    sockets can be read in /proc/self/net and taken from each other. A template may put the worker into one
    that is empty and nobody's in place of a new one (template/networks.py).
    """
    if plan.backend not in CONTAINED:
        return 0
    flags = namespaces.NEWNS if plan.backend == NAMESPACES else 0
    for layer, flag in (
        ("pid_ns", namespaces.NEWPID),
        ("ipc_ns", namespaces.NEWIPC),
        ("uts_ns", namespaces.NEWUTS),
        ("network_ns", namespaces.NEWNET),
    ):
        flags |= 0 if layer in plan.waive else flag
    return flags


@functools.lru_cache(maxsize=64)
def standing_layers(plan: Plan, *, cgroup: bool = True) -> tuple[str, ...]:
    """The layers of this plan, in the order in which they are set up, without what was waived or cannot stand here.

    Args:
        cgroup: Whether the worker has a group; not all backends refuse to run without.
    """
    names = list(TEMPLATE_LAYERS[plan.backend])
    names += [step.layer for step in WORKER if plan.backend in step.backends]
    absent = set(plan.waive) | STRUCTURAL | (set() if cgroup else {"cgroup"})
    if "seccomp" in plan.waive:
        absent.add("locks")  # it is the filter that asks their warden
    if plan.uid_base is None:
        absent.add("uid")  # an ordinary user has no other id to give
    return tuple(name for name in dict.fromkeys(names) if name not in absent)


def refusal(error: OSError) -> str:
    """The kernel's reason in words."""
    return str(error) if isinstance(error, kernel.KernelRefused) else f"{error.strerror or error}"


def join_empty_keyring(plan: Plan) -> None:
    """The keyring step; kept here so that every layer is named in one file."""
    if "keyring" not in plan.waive:
        keyring.join_empty()
