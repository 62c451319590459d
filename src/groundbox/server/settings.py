"""Settings of a server: how much it takes in, keeps and does at once. Each number has its unit in its name."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Final

from groundbox.errors import InvalidArgument
from groundbox.jail import NAMESPACES
from groundbox.limits import GiB, Limits, MiB, usual_memory_bytes
from groundbox.network import Network
from groundbox.sandbox.mounts import checked_mounts
from groundbox.server.protocol import check_names

_CPUS: Final = len(os.sched_getaffinity(0))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Bounds and habits of one server. Reached bounds refuse, with a status and words; none is unlimited.

    Attributes:
        environment: Packages that guests import where a request names no other.
        branching: Whether requests may ask for sandboxes that can be copied while they live (docs/branching.md).
        backend: How walls are built. Requests cannot choose it.
        waive: Layers done without, by `groundbox doctor`'s names. Requests cannot choose them.
        mounts: Names to files and folders of this machine, which requests may name and whose path they never learn.
        protocols: Names of protocols that are off by default (`protocol.py`); each is an installed one.
        hosts: Names besides `localhost` and the address listened on that a `Host` header may have.
        runs_at_once: Runs that go on at the same time; further ones wait in a queue.
        queue_length: Runs that may wait; one more is answered with 429.
        queue_s: Seconds that one may wait before it is answered with 429.
        sandboxes: Live sandboxes of all keys together; one more is answered with 429.
        checkpoints: States of sandboxes that are kept, of all keys together, with those that `undo` may keep; one more
            is answered with 429. Each is a process, and may hold a descriptor of this one, of which an eighth is the
            most in any case.
        creates_a_second: Sandboxes made in a second on average, with bursts of as many as may wait in the queue.
        idle_s: Seconds without a request after which a sandbox is closed, where its maker names no other.
        total_s: Seconds after which it is closed in any case.
        most: Largest limits that a request may ask for.
        body_bytes: Of a request.
        body_s: Seconds in which all of a body has come.
        header_s: Seconds in which a connection without a request is closed; clients of trainers think long.
        kept_executions: Executions whose output and files can be asked for afterwards, of all keys together.
        kept_bytes: Memory that they may take together.
        kept_s: Seconds that they are kept at most.
        replayed_s: Seconds that a reply is kept for a repeated `Idempotency-Key`.
        heartbeat_s: Seconds between blanks on replies that asked for them.
        grace_s: Seconds that runs in progress may still take when the server is told to end.
    """

    environment: str = "default"
    branching: bool = True
    backend: str = NAMESPACES
    waive: Sequence[str] = ()
    mounts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    protocols: Sequence[str] = ()
    hosts: Sequence[str] = ()
    runs_at_once: int = 8 * _CPUS
    queue_length: int = 4096
    queue_s: float = 120.0
    sandboxes: int = 1000
    checkpoints: int = 4096
    creates_a_second: float = 100.0
    idle_s: float = 900.0
    total_s: float = 24 * 3600.0
    most: Limits = dataclasses.field(
        default_factory=lambda: Limits(
            wall_s=3600.0,
            cpu_s=3600.0,
            memory_bytes=max(usual_memory_bytes(), 8 * GiB),
            process_count=1024,
            disk_bytes=max(usual_memory_bytes(), 4 * GiB),
            file_count=100_000,
            output_bytes=64 * MiB,
        )
    )
    body_bytes: int = 256 * MiB
    body_s: float = 60.0
    header_s: float = 120.0
    kept_executions: int = 2000
    kept_bytes: int = 512 * MiB
    kept_s: float = 3600.0
    replayed_s: float = 600.0
    heartbeat_s: float = 15.0
    grace_s: float = 5.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.endswith(("_s", "_second")):
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                    raise InvalidArgument(field.name, f"must be a number above 0, not {value!r}")
            elif field.type == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InvalidArgument(field.name, f"must be a whole number above 0, not {value!r}")
        check_names(self.protocols)
        if self.mounts and (self.backend != NAMESPACES or "mount_ns" in self.waive):
            raise InvalidArgument("mounts", "need the backend namespaces, with its layer mount_ns")
        checked_mounts(self.mounts, is_root=os.geteuid() == 0)

    @property
    def loopback(self) -> Network:
        """A loopback of the sandbox's own, for its programs; no network where the backend cannot give one."""
        return Network(loopback=self.backend == NAMESPACES)

    @property
    def bodies_bytes(self) -> int:
        """Of all requests together that are not answered yet: four bodies, or a quarter of a small machine's memory."""
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return max(self.body_bytes, min(4 * self.body_bytes, memory_bytes // 4))

    def checked(self, limits: Limits) -> Limits:
        """Limits that a request asked for.

        Raises:
            InvalidArgument: One is over what this server gives, or none at all.
        """
        for field in dataclasses.fields(limits):
            asked, most = getattr(limits, field.name), getattr(self.most, field.name)
            if most is not None and (asked is None or asked > most):
                raise InvalidArgument(f"limits.{field.name}", f"may be at most {most:g} on this server, not {asked}")
        return limits
