"""Three machines, a session on each, a loss of power, and a machine that leaves: what a fleet does, in words.

    python examples/fleet_demo.py         as root, on Linux; about half a minute

The machines are namespaces of this host (scripts/fleet_rig.py), the gateway and the nodes those of docs/fleet.md. It
tells on stderr what happens while it does, and ends with one line of JSON on stdout: seconds since the beginning, and
what was seen. It exits with 1 where that is not what docs/fleet.md says.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import groundbox as gb
from groundbox.errors import SandboxLost

LEASE_S = 6.0


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Story:
    """What happens, as it is told and as it is kept."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.facts: dict[str, Any] = {}

    def tell(self, text: str) -> None:
        """Say it now."""
        print(f"{time.monotonic() - self.begun:6.1f} s  {text}", file=sys.stderr, flush=True)

    def keep(self, name: str, value: Any) -> None:
        """Keep a fact for the last line."""
        self.facts[name] = value


def sessions_on_each(fleet: Any, there: Any) -> dict[str, Any]:
    """A live sandbox on each node, by the node's name, which has counted to 1."""
    names, found, others = fleet.tags(), {}, []
    known: set[str] = set()
    with fleet.client() as client:
        while len(found) < len(names):
            box = there.Sandbox()
            box.run("count = 1")
            now = {each["sandbox_id"] for each in client.get("/v1/sandboxes").json()["sandboxes"]}
            [made] = now - known
            known = now
            if names[made[:12]] in found:
                others.append(box)
            else:
                found[names[made[:12]]] = box
    for box in others:
        box.close()
    return found


def until_lost(story: Story, box: Any) -> str:
    """Use a session until it is said to be lost, and return how that is said."""
    while True:
        try:
            box.run("count")
        except SandboxLost as error:
            return str(error)
        except gb.GroundboxError as error:
            story.tell(f"its session: {error}")
            time.sleep(0.5)


def lose_power(story: Story, fleet: Any, machine: Any, boxes: dict[str, Any]) -> None:
    """Take the power of a machine, and use all sessions until its own says that it is lost."""
    machine.kill()
    killed = time.monotonic()
    story.tell(f"{machine.name} has lost its power; nobody was told")
    calls = failed = 0
    said: list[str] = []
    asking = threading.Thread(target=lambda: said.append(until_lost(story, boxes[machine.name])))
    asking.start()
    while asking.is_alive():
        for name, box in boxes.items():
            if name != machine.name:
                calls += 1
                failed += box.run("count += 1").outcome != "ok"
        time.sleep(0.05)
    story.keep("lost_after_s", round(time.monotonic() - killed, 1))
    story.keep("calls_of_others", calls)
    story.keep("failed_calls_of_others", failed)
    story.tell(f"its session, after {story.facts['lost_after_s']} s: {said[0]}")
    story.tell(f"meanwhile the others were asked {calls} times, of which {failed} failed")


def played(story: Story, fleet: Any, there: Any) -> None:
    """All of it."""
    first, second, third = fleet.rig.machines
    fleet.start_nodes()
    story.keep("joined", sorted(fleet.tags().values()))
    story.tell(f"joined the gateway on the switch: {', '.join(story.facts['joined'])}")
    boxes = sessions_on_each(fleet, there)
    story.tell("a session lives on each of them, and has counted to 1")

    lose_power(story, fleet, second, boxes)
    second.boot()
    fleet.start_node(second)
    fleet.until_ready(second.name)
    story.keep("generation", fleet.node(second.name)["generation"])
    story.tell(f"{second.name} is back, as generation {story.facts['generation']}; what it had stays lost")
    try:
        boxes[second.name].run("count")
        story.keep("stays_lost", False)
    except SandboxLost:
        story.keep("stays_lost", True)

    with fleet.client() as client:
        client.post(f"/v1/fleet/nodes/{third.name}/drain", json={"leave": True}).raise_for_status()
        story.tell(f"{third.name} is drained, and leaves when it has nothing any more")
        fleet.until(lambda: fleet.node(third.name)["state"] == "leaving")
        names = fleet.tags()
        made = [client.post("/v1/sandboxes", json={}).json()["sandbox_id"] for _ in range(6)]
        story.keep("new_go_to", sorted({names[each[:12]] for each in made}))
    story.tell(f"new sandboxes go to {', '.join(story.facts['new_go_to'])}")
    shown = boxes[third.name].run("print(count)").stdout.strip()
    story.tell(f"its session still answers: it has counted to {shown}; now it is closed")
    boxes[third.name].close()
    story.keep("left_with", fleet.nodes[third.name].wait(60))
    story.tell(f"{third.name} has left, with exit status {story.facts['left_with']}")
    story.keep("goes_on", boxes[first.name].run("print(count)").outcome == "ok")


def main() -> int:
    """Tell the story, and its facts as JSON."""
    rigs, fleets, story = _load("fleet_rig"), _load("rig_fleet"), Story()
    if lacking := rigs.missing():
        print(f"fleet_demo: needs {', '.join(lacking)}", file=sys.stderr)
        return 3
    with (
        tempfile.TemporaryDirectory(prefix="groundbox-fleet-") as folder,
        rigs.Rig(3) as rig,
        fleets.RigFleet(rig, folder, lease_s=LEASE_S) as fleet,
        gb.connect(f"unix://{fleet.socket}", api_key=fleets.KEY) as there,
    ):
        story.tell("three machines and a switch have power")
        played(story, fleet, there)
    told = {"seconds": round(time.monotonic() - story.begun, 1), **story.facts}
    print(json.dumps(told))
    is_good = not told["failed_calls_of_others"] and told["stays_lost"] and told["goes_on"] and told["left_with"] == 0
    return 0 if is_good and told["generation"] == 2 else 1


if __name__ == "__main__":
    sys.exit(main())
