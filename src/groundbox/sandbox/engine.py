"""The engine: templates, pools, cgroups and user ids of one event loop, shared by all its sandboxes."""

from __future__ import annotations

import asyncio
import atexit
import collections
import contextlib
import dataclasses
import itertools
import os
import resource
import threading
import weakref
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from groundbox.errors import InvalidArgument, SandboxUnavailable
from groundbox.jail import BARE, GVISOR, LANDLOCK, NAMESPACES, credentials, enter, kernel, landlock, probe
from groundbox.jail import cgroup as cgroups
from groundbox.jail.probe import mend_cgroup
from groundbox.limits import Limits, MiB
from groundbox.sandbox import gvisor, private
from groundbox.sandbox.mounts import Mount
from groundbox.sandbox.pool import LARGEST, Checkout, Pool
from groundbox.sandbox.profiles import PROFILES, RESIDENTS
from groundbox.sandbox.readahead import Mapped, read_ahead
from groundbox.sandbox.template import Recipe, Shape, Template
from groundbox.sandbox.threads import run_for_host
from groundbox.sandbox.uids import UidRange
from groundbox.sandbox.worker import Worker

BACKENDS: Final = (NAMESPACES, LANDLOCK, GVISOR, BARE)
_HEAP_BYTES: Final = {"bare": 9 * MiB, "science": 80 * MiB}
_CLOSING_S: Final = 10.0
_SWEEP_S: Final = 0.25
_MOST_POOLS: Final = 16
"""Kinds of worker that some are kept ready of; beyond, those of the kind that was asked for longest ago are ended."""
_LEAST_PROCESSES: Final = 32
"""As in guest/pristine.py: with fewer there is no copy for scripts."""
_MOST_UNUSED: Final = 8
"""Templates that stay although no sandbox is made of them now."""
_LAYERS: Final = {step.layer for step in enter.WORKER} | set(enter.TEMPLATE_LAYERS[NAMESPACES])
_WAIVABLE: Final = frozenset(_LAYERS - enter.STRUCTURAL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """What a sandbox asks of the engine.

    Attributes:
        profile: `bare` or `science`: which libraries are imported already; or one of `profiles.RESIDENTS`.
        waive: Layers that the caller does without, by name.
        hash_seed: PYTHONHASHSEED of the guest, or None for a random one.
        traced: Whether the tracer is loaded already.
        mounts: Files of the host that guests see (mounts.py). Each set of them is a kind of template.
    """

    environment: str = "default"
    profile: str = "science"
    backend: str = NAMESPACES
    waive: frozenset[str] = frozenset()
    network: str = "off"
    hash_seed: int | None = None
    traced: bool = False
    branching: bool = False
    mounts: tuple[Mount, ...] = ()

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            known = ", ".join(BACKENDS)
            raise InvalidArgument("backend", f"{self.backend!r} is none of {known}")
        if self.profile not in (*PROFILES, *RESIDENTS):
            known = ", ".join((*PROFILES, *RESIDENTS))
            raise InvalidArgument("profile", f"{self.profile!r} is none of {known}")
        check_waivable(self.waive)
        if self.mounts and (self.backend != NAMESPACES or "mount_ns" in self.waive):
            raise InvalidArgument("mounts", "need the backend namespaces, with its layer mount_ns")
        if self.network != "off" and self.backend != NAMESPACES:
            raise InvalidArgument("network", f"the backend {self.backend} cannot give any; use namespaces")
        if self.branching and (self.backend != NAMESPACES or self.waive):
            raise InvalidArgument("branching", "needs the backend namespaces, with every layer")
        if self.backend == GVISOR and self.waive:
            raise InvalidArgument("waive", "no layer of the backend gvisor can be waived")
        if self.backend == GVISOR and self.traced:
            raise InvalidArgument("trace", "the backend gvisor cannot trace so far; use namespaces")
        if self.branching and self.network != "off":
            raise InvalidArgument("branching", "is for sandboxes without a network, so far")
        if self.branching and kernel.MACHINE != "x86_64":
            raise InvalidArgument("branching", f"is for x86_64 so far, and this machine is {kernel.MACHINE}")


def check_waivable(waive: Collection[str]) -> None:
    """Raise InvalidArgument if one of these names is not that of a layer that can be waived."""
    unknown = set(waive) - _WAIVABLE
    if unknown:
        names = ", ".join(sorted(_WAIVABLE))
        words = f"{', '.join(sorted(unknown))} is not a layer that can be waived; choose among {names}"
        raise InvalidArgument("waive", words)


class Environment(Protocol):
    """One version of an environment: an interpreter with its packages, which guests read."""

    @property
    def path(self) -> Path:
        """The folder of this version."""

    @property
    def python(self) -> Path:
        """Its interpreter."""

    @property
    def caches(self) -> Path:
        """The folder of caches that were made once, when it was built."""

    @property
    def import_names(self) -> Collection[str]:
        """The names of the packages that can be imported."""

    def readable_roots(self) -> Sequence[Path]:
        """Return the folders that guests must be able to read."""


E = TypeVar("E", bound=Environment)


class Catalog(Protocol[E]):
    """Looks up what a `Setup` names. The engine trusts its answers: they say what guests read and run.

    `groundbox.sandbox.catalog` is the one that sandboxes use.

    Attributes:
        GUEST: The module of the code that workers run (`template.guest_code.GuestCode`).
        TRACER: The module that a template imports if its guests are traced.
    """

    @property
    def GUEST(self) -> str: ...

    @property
    def TRACER(self) -> str: ...

    def version_link(self, name: str, /) -> str:
        """Return a text that changes when the environment gets another version."""

    def environment(self, name: str, /) -> E:
        """Return the current version of an environment, or raise EnvironmentFailed."""

    def lease(self, found: E, /) -> contextlib.AbstractContextManager[object]:
        """Keep this version on disk until the context is left."""

    def native_folder(self) -> Path:
        """Return the folder of all native tracers, for guests whose template is started without one."""

    def prepare_tracer(self, found: E, /) -> Path | None:
        """Return the file of the native tracer, made ready first if that is possible. Called in a thread."""

    def waiting_language(self, profile: str, /) -> str:
        """Return the language whose process waits in workers of this profile, or ""."""

    def resident(self, language: str, /) -> Mapping[str, Any]:
        """Return the order that starts the waiting process of a language."""


class Loan(NamedTuple):
    """A worker, and the pool that wants to know when its result is out."""

    worker: Worker
    pool: Pool
    template: Template
    warm: bool


class Engine:
    """One per event loop; `current()` finds or makes it. Holds until its loop's process ends or `close()`."""

    lifetime: AsyncGenerator[None, None]

    def __init__(self) -> None:
        self._templates: dict[Recipe, asyncio.Task[Template]] = {}
        self._tracers: dict[Path, asyncio.Future[Path | None]] = {}
        self._recipes: dict[Setup, tuple[str, Recipe]] = {}
        self._pools: dict[tuple[Recipe, Shape, bool], Pool] = {}
        self._pool_of: weakref.WeakKeyDictionary[Worker, Pool] = weakref.WeakKeyDictionary()
        self._cgroups: cgroups.Hierarchy | None = None
        self._cgroups_missing: OSError | None = None
        self._leaving: list[cgroups.Cgroup] = []
        self._spare: list[cgroups.Cgroup] = []
        self._emptied: weakref.WeakSet[cgroups.Cgroup] = weakref.WeakSet()
        self._full: list[cgroups.Cgroup] = []
        self._code: weakref.WeakKeyDictionary[cgroups.Cgroup, frozenset[Mapped]] = weakref.WeakKeyDictionary()
        self._emptying: threading.Thread | None = None
        self._held: collections.Counter[cgroups.Cgroup] = collections.Counter()
        self._left: set[cgroups.Cgroup] = set()
        self._sweeping = False
        self._ranges: dict[Template, UidRange] = {}
        self._asked: collections.Counter[Recipe] = collections.Counter()
        self._starting = asyncio.Semaphore(max(2, len(os.sched_getaffinity(0))))
        self._retiring: dict[Template, asyncio.Task[None]] = {}
        self._leases: dict[Path, contextlib.ExitStack] = {}
        self._folder: str | None = None
        self._abi = landlock.abi()
        self._has_ranges = credentials.has_ranges()  # asking reads a file of the kernel's
        _raise_limits()
        private.remove_abandoned()
        self._find_groups()
        self._loop, self._pid = weakref.ref(asyncio.get_running_loop()), os.getpid()
        atexit.register(self._close_at_exit)

    async def checkout(self, setup: Setup, limits: Limits, catalog: Catalog[E], *, for_cells: bool = False) -> Loan:
        """Lend a worker of this kind, starting what is needed for it.

        Args:
            catalog: Finds what `setup` names. Every caller in a process gives the same one.
            for_cells: Whether cells are likely to run in it, and more after the first.

        Raises:
            SandboxUnavailable: A layer cannot stand and was not waived.
            EnvironmentFailed: The environment is not there.
        """
        recipe = await self._recipe(setup, catalog)
        self._refuse_incomplete(setup, recipe)
        self._asked[recipe] += 1  # until the worker is there, nothing else tells that its template is in use
        try:
            try:
                return await self._lend(setup, limits, recipe, catalog, for_cells=for_cells)
            except FileNotFoundError:
                if not self._groups_are_gone():
                    raise
                self._forget_groups()
            self._refuse_incomplete(setup, recipe)
            return await self._lend(setup, limits, recipe, catalog, for_cells=for_cells)
        finally:
            self._asked[recipe] -= 1
            if not self._asked[recipe]:
                del self._asked[recipe]

    async def _lend(
        self, setup: Setup, limits: Limits, recipe: Recipe, catalog: Catalog[E], *, for_cells: bool
    ) -> Loan:
        template = await self._template(recipe)
        limited = "cgroup" not in setup.waive and setup.backend != GVISOR
        shape = Shape(
            disk_bytes=limits.disk_bytes,
            file_count=limits.file_count,
            network=setup.network,
            # Only a control group bounds the memory of a process that is there before the limits of a run are known.
            resident=catalog.waiting_language(setup.profile) if limited and self._cgroups is not None else "",
            branching=setup.branching,
            copied=for_cells and _can_have_copy(setup, limits),
        )
        key = (recipe, shape, limited)
        pool = self._pools.pop(key, None)
        if pool is None:
            pool = Pool(lambda: self._spawn(template, shape, limited, key, catalog))
            plain = self._pools.get((recipe, dataclasses.replace(shape, copied=False), limited))
            if shape.copied and plain is not None:  # not the other way round: a single run has no copy beside it
                pool.begin_with(plain)
        self._pools[key] = pool  # the last, that is the one that was asked for last
        self._end_unused()
        lent: Checkout = await pool.checkout()
        if lent.worker.cgroup is not None:
            try:
                lent.worker.cgroup.limit(memory_bytes=limits.memory_bytes, process_count=limits.process_count)
            except OSError:
                lent.worker.kill()
                pool.returned()
                raise
        return Loan(lent.worker, pool, template, lent.warm)

    def _find_groups(self) -> None:
        """Look for control groups if there are none yet: root may have delegated some since the last time."""
        if self._cgroups is not None:
            return
        try:
            self._cgroups = cgroups.own_hierarchy(cgroups.find())
        except OSError as error:
            self._cgroups_missing = error

    def _groups_are_gone(self) -> bool:
        """Return True if the file system with our control groups was unmounted, or they were removed."""
        return self._cgroups is not None and not all(map(os.path.isdir, self._cgroups.folders()))

    def _forget_groups(self) -> None:
        """Drop control groups that are gone, with the workers that wait in them, so that others are looked for."""
        self._cgroups = None
        self._spare.clear()
        for key in [key for key in self._pools if key[2]]:
            self._pools.pop(key).close()

    def new_group(self, limits: Limits) -> cgroups.Cgroup | None:
        """A control group for one more sandbox, with its bounds set; None where there is none to be had."""
        group = self._new_cgroup()
        if group is not None:
            group.count_keepers(1 - group.keepers)
            group.limit(memory_bytes=limits.memory_bytes, process_count=limits.process_count)
        return group

    def hold(self, group: cgroups.Cgroup) -> None:
        """Keep a group although its worker may end: something else of its sandbox is in it."""
        self._held[group] += 1

    def revive(self, group: cgroups.Cgroup) -> None:
        """A group whose worker has ended, and that is held, gets another worker."""
        self._left.discard(group)

    def let_go(self, group: cgroups.Cgroup) -> None:
        """Undo one `hold`."""
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]
            if group in self._left:
                self._left.discard(group)
                self._leave(group)

    def _close_at_exit(self) -> None:
        """Close in the loop's own thread where it still runs: half a callback of it may be done. In a fork, nothing."""
        if self._pid != os.getpid():
            return
        loop = self._loop()
        if loop is None or not loop.is_running():
            self.close()
            return
        closed = threading.Event()

        def close() -> None:
            try:
                self.close()
            finally:
                closed.set()

        loop.call_soon_threadsafe(close)
        closed.wait(_CLOSING_S)

    def close(self) -> None:
        """End all templates, and with them all workers, and remove what was made on this host. Idempotent."""
        atexit.unregister(self._close_at_exit)
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        for task in self._templates.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()
            else:
                task.cancel()
        self._templates.clear()
        for template in list(self._retiring):
            template.close()
        # Nothing is taken back first: it takes a thread, and CPython 3.12 starts none while it ends.
        self._leaving.clear()
        self._spare.clear()
        if self._cgroups is not None:
            cgroups.remove_own(self._cgroups)
        for held in self._ranges.values():
            held.release()
        for lease in self._leases.values():
            lease.close()
        if self._folder is not None:
            private.remove(self._folder)

    async def _recipe(self, setup: Setup, catalog: Catalog[E]) -> Recipe:
        """The template for `setup`, with the environment's version that is current at this moment."""
        version = catalog.version_link(setup.environment)
        known = self._recipes.get(setup)
        if known is None or known[0] != version:
            known = self._recipes[setup] = (version, await self._new_recipe(setup, catalog))
        return known[1]

    async def _new_recipe(self, setup: Setup, catalog: Catalog[E]) -> Recipe:
        environment = catalog.environment(setup.environment)
        if environment.path not in self._leases:
            self._leases[environment.path] = contextlib.ExitStack()
            self._leases[environment.path].enter_context(catalog.lease(environment))
        native = await self._tracer(environment, catalog) if setup.traced else None
        shown = native.parent if native else catalog.native_folder()
        has_native = native is not None if setup.traced else shown.is_dir()
        profile = "bare" if setup.profile in RESIDENTS else setup.profile
        science = profile == "science"
        present = environment.import_names
        modules = [catalog.TRACER] if setup.traced else []
        modules += [m for m in PROFILES[profile].split() if m.split(".")[0] in present or _standard(m)]
        return Recipe(
            environment=str(environment.path.parent),
            python=str(environment.python),
            guest=catalog.GUEST,
            readable=(*map(str, environment.readable_roots()), *([str(shown)] if has_native else [])),
            caches=str(environment.caches),
            modules=tuple(modules),
            heap_bytes=_HEAP_BYTES[profile],
            ipython=science and "IPython" in present,
            backend=setup.backend,
            waive=setup.waive,
            landlock_abi=self._abi,
            hash_seed=setup.hash_seed,
            tracer=str(native or ""),
            mounts=setup.mounts,
            private_folder="" if setup.backend == NAMESPACES else self._private_folder(),
        )

    async def _tracer(self, environment: E, catalog: Catalog[E]) -> Path | None:
        """One attempt at a time, which goes on for the others where a caller is cancelled."""
        task = self._tracers.get(environment.path)
        if task is None:
            task = run_for_host(catalog.prepare_tracer, environment)
            self._tracers[environment.path] = task
            task.add_done_callback(lambda _: self._tracers.pop(environment.path, None))
        return await asyncio.shield(task)

    def _private_folder(self) -> str:
        if self._folder is None:
            self._folder = private.make()
        return self._folder

    def _refuse_incomplete(self, setup: Setup, recipe: Recipe) -> None:
        if setup.backend == BARE:
            return
        missing, mends = [], []
        if setup.backend == GVISOR and not (found := probe.gvisor()).works:
            raise SandboxUnavailable([f"gvisor: {found.detail}"], [found.mend])
        if "cgroup" not in setup.waive and setup.backend in enter.CONTAINED:
            self._find_groups()
            if self._cgroups is None:
                missing.append(f"cgroup: {self._cgroups_missing}")
                mends.append(mend_cgroup(self._cgroups_missing))
        if os.geteuid() == 0 and not self._has_ranges and "uid" not in setup.waive:
            missing.append(f"uid: {probe.LACKING_IDS}")
            mends.append(probe.MEND_IDS)
        largest = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        if 0 <= largest < probe.SMALLEST_FILE_SIZE:
            missing.append(f"rlimits: {probe.too_small_files(largest)}")
            mends.append(probe.MEND_FILE_SIZE)
        abi = self._abi
        if "landlock" not in setup.waive and abi == 0 and setup.backend != GVISOR:
            missing.append(f"landlock: {probe.LACKING_LANDLOCK}")
            mends.append(probe.MEND_LANDLOCK)
        if setup.backend == LANDLOCK and not self._has_ranges and abi < 6:
            missing.append(f"landlock: ABI {abi} does not keep signals inside (6 is needed without root)")
            mends.append(probe.MEND_SCOPES)
        if setup.backend == LANDLOCK and self._has_ranges and "uid" not in setup.waive:
            closed = _closed_folders(recipe.readable)
            missing += [
                f"environment: {each} is closed to others, so that a guest's user id cannot enter" for each in closed
            ]
            if closed:
                mends.append(
                    "Build it with an interpreter that lies elsewhere, such as "
                    f"`groundbox environment update {setup.environment} --python /usr/bin/python3`."
                )
        if missing:
            raise SandboxUnavailable(missing, mends)

    async def _template(self, recipe: Recipe) -> Template:
        task = self._templates.pop(recipe, None)
        if task is not None and task.done() and (task.cancelled() or task.exception() or not task.result().alive):
            self._close_pools(recipe)
            if not task.cancelled() and not task.exception():
                self._let_template_go(task.result())
            task = None
        if task is None:
            task = asyncio.create_task(self._start(recipe))
            task.add_done_callback(lambda started: self._has_started(recipe, started))
        self._templates[recipe] = task  # the last, as in `_pools`
        return task.result() if task.done() else await asyncio.shield(task)

    def _has_started(self, recipe: Recipe, task: asyncio.Task[Template]) -> None:
        """Forget what did not come up, and end what somebody asked for who has gone away since."""
        if (task.cancelled() or task.exception()) and self._templates.get(recipe) is task:
            del self._templates[recipe]
            self._forget_setups(recipe)
        self._end_unused()

    def _end_unused(self) -> None:
        """Keep no more ready than a host has use for, however many kinds of sandboxes are asked for.

        Without it, whoever chooses limits or hash seeds fills the host with workers and templates that nobody asks for
        again.
        """
        while len(self._pools) > _MOST_POOLS:
            self._pools.pop(next(iter(self._pools))).close()
        if len(self._templates) <= _MOST_UNUSED:
            return
        unused = [recipe for recipe in self._templates if self._is_unused(recipe)]
        for recipe in unused[: max(0, len(unused) - _MOST_UNUSED)]:
            template = self._templates.pop(recipe).result()
            self._close_pools(recipe)
            self._forget_setups(recipe)
            self._retiring[template] = asyncio.create_task(self._retire(template))

    def _forget_setups(self, recipe: Recipe) -> None:
        self._recipes = {setup: known for setup, known in self._recipes.items() if known[1] != recipe}

    def _is_unused(self, recipe: Recipe) -> bool:
        task = self._templates[recipe]
        if recipe in self._asked or not task.done() or task.cancelled() or task.exception():
            return False
        waiting = sum(pool.waiting for key, pool in self._pools.items() if key[0] == recipe)
        return task.result().holds <= waiting

    async def _retire(self, template: Template) -> None:
        try:
            await template.retire()
            self._let_template_go(template)
        finally:
            del self._retiring[template]

    def _let_template_go(self, template: Template) -> None:
        """Give back what an ended template held of the host."""
        if template.group is not None:
            self._leave(template.group)
        if template.left_no_process and (held := self._ranges.pop(template, None)) is not None:
            held.release()
        if template.folder:
            private.remove_soon(template.folder)

    def _close_pools(self, recipe: Recipe) -> None:
        for key in [key for key in self._pools if key[0] == recipe]:
            self._pools.pop(key).close()

    async def _start(self, recipe: Recipe) -> Template:
        async with self._starting:  # each takes a processor for a second or two
            if recipe not in self._asked:
                raise asyncio.CancelledError  # nobody waits for it any more, and whoever comes now asks anew
            return await self._started(recipe)

    async def _started(self, recipe: Recipe) -> Template:
        held = UidRange.lend(credentials.FIRST_HOST_UID) if self._has_ranges else None
        group = self._new_cgroup() if recipe.backend == GVISOR else None
        template = Template(recipe, uid_base=None if held is None else held.first, group=group)
        if held is not None:
            self._ranges[template] = held
        try:
            await template.start()
        except BaseException:
            self._let_template_go(template)
            raise
        return template

    def _spawn(
        self,
        template: Template,
        shape: Shape,
        limited: bool,
        key: tuple[Recipe, Shape, bool],
        catalog: Catalog[E],
    ) -> Worker:
        self._sweep()
        group = self._new_cgroup() if limited else None
        if group is not None and shape.branching:
            group.count_keepers(1)
        pool = self._pools.get(key)
        try:
            worker = template.spawn(
                shape,
                cgroup=group,
                process_count=None if group else _USUAL.process_count,
                environ=_network_environ(shape.network),
                on_end=self.ended,
                hurried=pool is not None and pool.hurried,
                resident=catalog.resident(shape.resident) if shape.resident else None,
            )
        except OSError:
            if group is not None:
                self._leave(group)
            raise
        if pool is not None:
            self._pool_of[worker] = pool
        return worker

    def _new_cgroup(self) -> cgroups.Cgroup | None:
        if self._cgroups is None:
            return None
        group = self._spare.pop() if self._spare else cgroups.Cgroup(self._cgroups, str(next(_CGROUP_NUMBERS)))
        group.limit(memory_bytes=_USUAL.memory_bytes, process_count=_USUAL.process_count)
        return group

    def _leave(self, group: cgroups.Cgroup) -> None:
        group.keepers = group.expected = 0
        self._leaving.append(group)
        self._sweep_soon()

    def ended(self, worker: Worker) -> None:
        """A worker has ended; what was its own is given back."""
        if worker.code and isinstance(worker.cgroup, cgroups.Cgroup):
            self._code[worker.cgroup] = self._code.get(worker.cgroup, frozenset()) | worker.code
        if isinstance(worker.cgroup, gvisor.InnerGroup):
            pass  # it went with the worker
        elif worker.cgroup is not None and worker.cgroup in self._held:
            worker.cgroup.count_keepers(-1)
            self._left.add(worker.cgroup)
        elif worker.cgroup is not None:
            self._leave(worker.cgroup)
        if worker.folder and isinstance(worker.cgroup, cgroups.Cgroup):
            with contextlib.suppress(OSError):
                worker.cgroup.kill()
        if worker.folder and worker.workdir is None:
            private.remove_soon(worker.folder)
        pool = self._pool_of.get(worker)
        if pool is not None:
            pool.worker_ended(worker)

    def _sweep_soon(self) -> None:
        """Sweep also where nobody asks for another worker."""
        loop = self._loop()
        if loop is not None and not self._sweeping and not loop.is_closed():
            self._sweeping = True
            loop.call_later(_SWEEP_S, self._sweep_later)

    def _sweep_later(self) -> None:
        self._sweeping = False
        self._sweep()
        if self._leaving or self._full:
            self._sweep_soon()

    def _sweep(self) -> None:
        """Keep the groups of ended workers for the next ones, or remove them.

        One whose last member is still ending waits for the next time, and so does one that holds pages: having them
        taken back may take a second, which is a thread's.
        """
        leaving, self._leaving = self._leaving, []
        for group in leaving:
            try:
                renewed = group.renewed() if len(self._spare) < LARGEST else None
                if renewed is not None:
                    self._spare.append(renewed)
                elif group.process_count():
                    self._leaving.append(group)
                elif group not in self._emptied and group.holds_pages():
                    self._empty(group)
                elif not group.remove():
                    self._leaving.append(group)
            except OSError:
                continue  # somebody has removed it; one that is there still goes with the engine

    def _empty(self, group: cgroups.Cgroup) -> None:
        """Have a group's pages taken back, by a thread that takes one after the other, and look at it again then."""
        self._full.append(group)
        if self._emptying is None or not self._emptying.is_alive():
            self._emptying = threading.Thread(target=self._empty_all, name="groundbox-groups", daemon=True)
            self._emptying.start()

    def _empty_all(self) -> None:
        while self._full:
            group = self._full[0]
            with contextlib.suppress(OSError):
                group.let_go()
            read_ahead(self._code.pop(group, ()))
            self._emptied.add(group)
            self._leaving.append(group)
            self._full.pop(0)


_USUAL: Final = Limits()
_CGROUP_NUMBERS: Final = itertools.count(1)
"""Over all engines of this process."""

_ENGINES: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Engine] = weakref.WeakKeyDictionary()


async def current() -> Engine:
    """The running loop's engine; it is closed together with the loop."""
    loop = asyncio.get_running_loop()
    engine = _ENGINES.get(loop)
    if engine is None:
        engine = _ENGINES[loop] = Engine()
        engine.lifetime = _until_loop_ends(engine)
        await anext(engine.lifetime)
    return engine


async def end_current() -> None:
    """End the running loop's engine now, if there is one, because nothing more is going to be run."""
    engine = _ENGINES.get(asyncio.get_running_loop())
    if engine is not None:
        await engine.lifetime.aclose()


async def _until_loop_ends(engine: Engine) -> AsyncGenerator[None, None]:
    """`asyncio.run` closes the generators of its loop before the loop: that is when the engine ends."""
    try:
        yield
    finally:
        engine.close()
        _ENGINES.pop(asyncio.get_running_loop(), None)


def _can_have_copy(setup: Setup, limits: Limits) -> bool:
    """Whether a worker may have the copy that scripts are forked from ahead of its first cell (guest/pristine.py)."""
    has_room = limits.process_count is None or limits.process_count >= _LEAST_PROCESSES
    return has_room and setup.backend != GVISOR and setup.profile in PROFILES and not setup.branching


def _network_environ(network: str) -> dict[str, str]:
    if network != "proxy":
        return {}
    from groundbox.jail.loopback import PROXY_PORT

    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {**dict.fromkeys(names, proxy), "no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1"}


def _closed_folders(paths: Sequence[str]) -> list[str]:
    """Folders on the way to `paths` that only their owner may pass through."""
    on_the_way = {str(parent) for path in paths for parent in (Path(path), *Path(path).parents)}
    return sorted(folder for folder in on_the_way if os.path.isdir(folder) and not os.stat(folder).st_mode & 0o001)


def _standard(module: str) -> bool:
    import sys

    return module.split(".")[0] in sys.stdlib_module_names


def _raise_limits() -> None:
    """Raise what a shell may have lowered: the limits of open files, of which a sandbox takes five, and of their size.

    The usual soft limit of 1024 descriptors would end at 200 sandboxes.
    """
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
        soft, hard = resource.getrlimit(limit)
        if soft != hard:
            resource.setrlimit(limit, (hard, hard))
