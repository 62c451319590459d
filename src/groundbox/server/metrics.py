"""Metrics for Prometheus, in seconds, without a label by key: their number would grow with the users.

Names are ours, next to those of other sandboxes: docs/deployment.md tells each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

from groundbox.execution import Execution, Outcome
from groundbox.version import own_version

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LAG_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """All counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._runs = Counter(
            "groundbox_runs",
            "Runs that ended, by how they ended.",
            ["language", "outcome", "start"],
            registry=self._registry,
        )
        self._duration = Histogram(
            "groundbox_run_duration_seconds",
            "Time of a run's stages: queue, start (until a worker was ready), run (of the program).",
            ["stage"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._limits = Counter("groundbox_limit_hits", "Runs that a limit ended.", ["limit"], registry=self._registry)
        self._denied = Counter(
            "groundbox_denied", "Acts that a layer of the wall refused.", ["layer"], registry=self._registry
        )
        self._failed = Counter(
            "groundbox_infrastructure_errors",
            "Requests that failed through no fault of a program.",
            ["kind"],
            registry=self._registry,
        )
        self._refused = Counter(
            "groundbox_refused_requests", "Requests refused, by code.", ["code"], registry=self._registry
        )
        self._branched = Counter(
            "groundbox_branches",
            "Checkpoints, restores, undos and forks of sandboxes, by how they ended.",
            ["act", "outcome"],
            registry=self._registry,
        )
        self._lag = Histogram(
            "groundbox_loop_lag_seconds",
            "How late the event loop woke up, measured fifty times a second.",
            buckets=_LAG_BUCKETS,
            registry=self._registry,
        )
        build = Gauge("groundbox_build_info", "Which version serves.", ["version"], registry=self._registry)
        build.labels(own_version()).set(1)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Tell a value of the moment, asked whenever metrics are read."""
        Gauge(name, about, registry=self._registry).set_function(value)

    def collect(self, name: str, about: str, label: str, values: Callable[[], dict[str, float]]) -> None:
        """Tell values of the moment by one label."""
        self._registry.register(_Collected(name, about, label, values))

    def ran(self, execution: Execution, *, waited_s: float) -> None:
        """Count a run that ended."""
        start = "warm" if execution.usage.warm else "cold"
        self._runs.labels(execution.language, execution.outcome.value, start).inc()
        self._duration.labels("queue").observe(waited_s)
        self._duration.labels("start").observe(execution.usage.start_s)
        self._duration.labels("run").observe(execution.usage.wall_s)
        limit = _limit_of(execution)
        if limit:
            self._limits.labels(limit).inc()
        for warning in execution.warnings:
            if warning.code == "run.host_refused":
                self._denied.labels("proxy").inc()

    def lagged(self, lag_s: float) -> None:
        """Count how late the event loop was."""
        self._lag.observe(lag_s)

    def failed(self, kind: str) -> None:
        """Count a failure of the infrastructure, by the code of its refusal."""
        self._failed.labels(kind).inc()

    def refused(self, code: str) -> None:
        """Count a refusal."""
        self._refused.labels(code).inc()

    def branched(self, act: str, outcome: str) -> None:
        """Count a copy of a sandbox, or a return to one: `ok`, or the code of the refusal."""
        self._branched.labels(act, outcome).inc()

    def text(self) -> bytes:
        """All of them in Prometheus' format."""
        return generate_latest(self._registry)


class _Collected:
    def __init__(self, name: str, about: str, label: str, values: Callable[[], dict[str, float]]) -> None:
        self._name, self._about, self._label, self._values = name, about, label, values

    def collect(self) -> list[Metric]:
        metric = Metric(self._name, self._about, "gauge")
        for value, count in self._values().items():
            metric.add_sample(self._name, {self._label: value}, count)
        return [metric]


def _limit_of(execution: Execution) -> str:
    """The limit that ended a run, as far as its outcome says."""
    if execution.outcome is Outcome.MEMORY:
        return "memory_bytes"
    if execution.outcome is Outcome.TIMEOUT:
        return "cpu_s" if execution.error is not None and "cpu_s" in execution.error.message else "wall_s"
    return ""
