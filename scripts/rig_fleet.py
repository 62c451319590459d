"""A fleet on machines made of namespaces: a gateway on the switch, a node on each machine. For tests, and the demo.

    with Rig(3) as rig, RigFleet(rig, folder) as fleet:
        fleet.start_nodes()
        with fleet.client() as client:
            client.post("/v1/run", json={"code": "print(6 * 7)"})
        rig.machines[0].kill()      # see fleet_rig.py for what machines go through

Clients of this process reach the gateway by a unix socket, which a forwarder in the rig passes on. Needs httpx.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import httpx

ROOT: Final = Path(__file__).parents[1]
KEY: Final = "a-key-of-some-length-for-the-rig"
SECRET: Final = "a-join-secret-of-some-length"
PORT: Final = 8000
_GATEWAY_PORT: Final = 8100
T = TypeVar("T")


class RigFleet:
    """A gateway with nodes that are named after their machines.

    Attributes:
        gateway: Its process.
        socket: The host's unix socket by which it is reached.
        nodes: The process of each machine's newest node, by the machine's name.
        lease_s: Of the fleet.
    """

    def __init__(self, rig: Any, folder: str | os.PathLike[str], *, lease_s: float = 6.0) -> None:
        self.rig, self.folder, self.lease_s = rig, Path(folder), lease_s
        self.nodes: dict[str, Any] = {}
        self.gateway = self.start_gateway()
        self.socket = rig.forward(rig.switch.address, _GATEWAY_PORT)

    def __enter__(self) -> RigFleet:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        for each in (*self.nodes.values(), self.gateway):
            each.terminate()
        for each in (*self.nodes.values(), self.gateway):
            each.wait(30)

    def start_gateway(self) -> Any:
        """Start the gateway, at its one address."""
        switch = self.rig.switch
        where = ["--catalogue", self.folder / "fleet.db", "--host", switch.address, "--port", _GATEWAY_PORT]
        self.gateway = self._start(switch, ["gateway", *where, "--lease-s", self.lease_s], "gateway.log")
        return self.gateway

    def start_node(self, machine: Any, *options: str) -> Any:
        """Start a node on a machine."""
        where = ["--host", machine.address, "--port", PORT]
        join = ["--join", f"http://{self.rig.switch.address}:{_GATEWAY_PORT}"]
        self.nodes[machine.name] = self._start(machine, ["serve", *where, *join, *options], f"{machine.name}.log")
        return self.nodes[machine.name]

    def start_nodes(self, *options: str, most_s: float = 120.0) -> None:
        """Start one on each machine, and wait until they take programs."""
        for machine in self.rig.machines:
            self.start_node(machine, *options)
        self.until_ready(*(machine.name for machine in self.rig.machines), most_s=most_s)

    def client(self, **options: Any) -> httpx.Client:
        """A client of the gateway."""
        transport = httpx.HTTPTransport(uds=str(self.socket))
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.Client(
            transport=transport, base_url="http://localhost", headers=headers, **{"timeout": 60, **options}
        )

    def status(self) -> list[dict[str, Any]]:
        """All boots of all nodes, as the gateway sees them."""
        with self.client() as client:
            found: list[dict[str, Any]] = client.get("/v1/fleet").json()["nodes"]
        return found

    def node(self, name: str) -> dict[str, Any]:
        """The newest boot of a node."""
        return [each for each in self.status() if each["name"] == name][-1]

    def tags(self) -> dict[str, str]:
        """Names of nodes by the digits that ids on them begin with."""
        return {each["tag"]: each["name"] for each in self.status() if each["state"] == "ready"}

    def until(self, holds: Callable[[], T], *, most_s: float = 60.0) -> T:
        """Wait until something holds, and return it.

        Raises:
            TimeoutError: It does not; with the logs of all.
        """
        end = time.monotonic() + most_s
        while not (told := holds()):
            if time.monotonic() > end:
                logs = sorted(self.folder.glob("*.log"))
                raise TimeoutError("\n".join(f"{each.name}: {each.read_text()[-3000:]}" for each in logs))
            time.sleep(0.05)
        return told

    def until_ready(self, *names: str, most_s: float = 120.0) -> None:
        """Wait until the newest boots of these nodes take programs."""

        def ready() -> bool:
            try:
                newest = {each["name"]: each for each in self.status()}
            except httpx.HTTPError:
                return False  # the gateway is starting
            found = [newest.get(name) for name in names]
            return all(each and each["state"] == "ready" and not each["load"]["problem"] for each in found)

        self.until(ready, most_s=most_s)

    def sandboxes_on_each(self, client: httpx.Client, count: int, **options: Any) -> dict[str, list[str]]:
        """Make sandboxes until each node has so many, and then close the others; ids by the names of nodes."""
        names = self.tags()
        found: dict[str, list[str]] = {name: [] for name in names.values()}
        while any(len(ids) < count for ids in found.values()):
            answer = client.post("/v1/sandboxes", json=options)
            answer.raise_for_status()
            made = answer.json()["sandbox_id"]
            found[names[made[:12]]].append(made)
        for ids in found.values():
            for extra in ids[count:]:
                client.delete(f"/v1/sandboxes/{extra}")
            del ids[count:]
        return found

    def _start(self, machine: Any, command: list[Any], log: str) -> Any:
        own: Mapping[str, str] = {
            "GROUNDBOX_API_KEY": KEY,
            "GROUNDBOX_JOIN_SECRET": SECRET,
            "GROUNDBOX_ENGINE": "off",
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONSAFEPATH": "1",
        }
        told = [sys.executable, "-m", "groundbox", *map(str, command)]
        return machine.start(told, env=own, log=self.folder / log)
