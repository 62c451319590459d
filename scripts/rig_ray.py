"""A Ray cluster on machines made of namespaces, and builds of datasets on it. For tests.

    with Rig(3, keep=[folder]) as rig:
        ray = RigRay(rig, folder)
        ray.start()                                 # the head on the first machine
        built = ray.build(rig.machines[0], problems, folder / "out")
        rig.machines[2].kill()                      # see fleet_rig.py for what machines go through
        assert built.wait(300) == 0

Needs Ray in this interpreter, and the environment `default`, which machines share.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PORT: Final = 6379
_START_S: Final = 120.0
_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
}
"""As docs/fleet.md has them."""


class RigRay:
    """A cluster whose machines have a processor each.

    Attributes:
        address: Of its head, as `--executor ray://…` takes it.
        folder: Where the logs are; kept in the rig.
    """

    def __init__(self, rig: Any, folder: str | os.PathLike[str]) -> None:
        self.rig, self.folder = rig, Path(folder)
        self.head = rig.machines[0]
        self.address = f"{self.head.address}:{PORT}"
        self._environ = {
            **_SETTINGS,
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONUNBUFFERED": "1",
        }
        self._raylets: dict[str, Any] = {}

    def start(self) -> None:
        """Have the head and all other machines, where they are not there, and wait until they are."""
        self._start(self.head, "--head", f"--port={PORT}")
        for machine in self.rig.machines:
            if machine is not self.head:
                self._start(machine, f"--address={self.address}")

    def _start(self, machine: Any, *options: str) -> None:
        """Start Ray on a machine; three times, as Ray gives one of its processes 15 s, whatever the host does."""
        known = self._raylets.get(machine.name)
        if known is not None and known.poll() is None:
            return
        own = [f"--node-ip-address={machine.address}", "--num-cpus=1", f"--object-store-memory={80 << 20}"]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *own, *options]
        log = self.folder / f"ray-{machine.name}.log"
        for _ in range(3):
            begun = log.stat().st_size if log.exists() else 0
            raylet = machine.start(command, env=self._environ, log=log)
            until = time.monotonic() + _START_S
            while raylet.poll() is None and time.monotonic() < until:
                if b"Ray runtime started" in log.read_bytes()[begun:]:
                    self._raylets[machine.name] = raylet
                    return
                time.sleep(0.1)
            raylet.kill()
        raise RuntimeError(f"Ray does not start on {machine.name}: {log.read_text()}")

    def build(self, machine: Any, problems: Path, out: Path, *options: str, log: str = "build.log") -> Any:
        """Start a build on a machine, whose stdout and stderr are appended to a log."""
        command: list[str | Path] = [sys.executable, "-m", "groundbox", "dataset", "build", "--problems", str(problems)]
        where = ["--out", str(out), "--executor", f"ray://{self.address}", "--json"]
        return machine.start([*command, *where, *options], env=self._environ, log=self.folder / log)


def build_here(problems: Path, out: Path, *options: str) -> dict[str, Any]:
    """The report of the same build by this machine alone."""
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "groundbox",
        "dataset",
        "build",
        "--problems",
        problems,
        "--out",
        out,
        "--json",
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([*command, *options], env=environ, stdout=subprocess.PIPE, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report
