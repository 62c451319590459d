"""Connection to Ray: joins a cluster or starts one, once for all executors of a process.

A process can be in one cluster at a time. Ray is imported here alone, after it was given its settings, which it reads
from the environment when it is imported. A process that Ray itself started, as of a trainer on that cluster, is in one
already: it is used as it is, and not left.
"""

from __future__ import annotations

import functools
import os
import secrets
import socket
import threading
from typing import Any, Final

from groundbox.dataset import optional_imports
from groundbox.errors import InvalidArgument

_CONNECT_S: Final = 10.0
_OBJECT_STORE_BYTES: Final = 200 << 20
_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # What Ray has to say of a machine that died, with its last lines, goes to stdout otherwise, which is ours.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    # Otherwise tasks on a machine that vanished are noticed after minutes.
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    # A process that has not heard from the head for 60 s is ended by Ray, with 1 and a line of Ray's log.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
}
_SETTINGS_OF_OUR_OWN: Final = {
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "3",
}


class _Connection:
    """This process's connection to Ray, of which a process has one: all its executors share it.

    Attributes:
        address: As the first executor named it; of no meaning where there is none.
        count: Executors that use it.
        is_ours: Whether it was made here, and ends with the last of them.
        pid: Of the process that it belongs to.
    """

    def __init__(self) -> None:
        self.address: str | None = None
        self.count, self.is_ours, self.pid = 0, False, 0
        self._lock = threading.Lock()
        self._ray: Any = None

    def joined(self, address: str | None, workers: int) -> Any:
        """Ray, joined or started.

        Args:
            address: `HOST:PORT` of the cluster's head, `auto`, or None for a cluster of this machine's own.
            workers: Processors of the one that is started.

        Raises:
            ExtraMissing: Ray is not installed.
            InvalidArgument: There is no cluster at the address, or this process is in another one.
        """
        with self._lock:
            if self.count and self.pid != os.getpid():
                raise InvalidArgument(
                    "--executor", "this process was forked from one that had joined a Ray cluster; spawn it"
                )
            if not self.count:
                _set_up(own=address is None)
                ray = need("ray")
                self.is_ours = not ray.is_initialized()
                if self.is_ours:
                    _connect(ray, address, workers)
                else:
                    _check_joined(ray, address)
                self._ray, self.address, self.pid = ray, address, os.getpid()
            elif self.address != address:
                raise InvalidArgument(
                    "--executor",
                    f"this process is in the Ray cluster at {self.address or 'this machine'} already, and can be in no "
                    f"other one at {address or 'this machine'}",
                )
            self.count += 1
            return self._ray

    def left(self) -> None:
        """Say that an executor needs it no more."""
        with self._lock:
            self.count -= 1
            if not self.count and self.is_ours:
                self._ray.shutdown()


CONNECTION: Final = _Connection()
need: Final = functools.partial(optional_imports.need, purpose="to spread work over many machines", install="ray")
"""Gives a module of Ray's, untyped, so that checks are the same with and without it."""


def _set_up(*, own: bool) -> None:
    """Give Ray its settings, before it is imported."""
    for name, value in (_SETTINGS | _SETTINGS_OF_OUR_OWN if own else _SETTINGS).items():
        os.environ.setdefault(name, value)
    if own and os.environ["RAY_AUTH_MODE"] == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _connect(ray: Any, address: str | None, workers: int) -> None:
    try:
        if address:
            _join(ray, address)
        else:
            _start(ray, workers)
    except Exception as error:  # of any kind: Ray raises bare ones
        raise InvalidArgument("--executor", f"no Ray cluster at {address or 'this machine'}: {error}") from error


def _check_joined(ray: Any, address: str | None) -> None:
    """See that the cluster which this process is in, as a worker of Ray is, is the one that is asked for."""
    there = str(ray.get_runtime_context().gcs_address)
    if address not in ("auto", there):
        raise InvalidArgument(
            "--executor", f"this process is in the Ray cluster at {there} already; name it, or ray://auto"
        )


def _join(ray: Any, address: str) -> None:
    if address != "auto":  # Ray itself asks for minutes
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    ray.init(address=address, log_to_driver=False, configure_logging=False)


def _start(ray: Any, workers: int) -> None:
    own = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
    for again in (True, True, False):
        try:
            ray.init(address="local", log_to_driver=False, configure_logging=False, **own)
            return
        except Exception:
            # Ray gives one of its processes 15 s to start, whatever else the machine does.
            ray.shutdown()
            if not again:
                raise
