"""What a gateway adds to a node: the same request to the node itself, and through a gateway, on loopback.

    python benchmarks/bench_fleet.py [ROUNDS] [--catalogue URL]

One node, one gateway, each in a process of its own, asked over connections that are kept. Both get turns, a second
each, so that the machine's mood is the same. First a run in a live sandbox, which goes where the sandbox lives; then
`/v1/run`, which is placed. Beside the times: processor time of the gateway for a request (utime and stime of
/proc/PID/stat), and requests a second. A run takes a node's processor far longer than a gateway's, so that what one
gateway can do is measured with a request that costs the node little: `GET` of a sandbox.

Then how many renewals a second a catalogue takes, from one gateway, whose calls come one after the other, with a
hundred nodes: in SQLite, and in PostgreSQL (at URL, or a server of this benchmark's own, whose fsync is on).
The last line is JSON: constants of benchmarks/model_fleet.py by their names.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from measure import machine, percentile

from groundbox.fleet.catalogue import Catalogue
from groundbox.remote.transport import Transport, address_of

TURN_S = 1.0
NODES = 100
KEY = "a-key-of-the-benchmark"
CODE = json.dumps({"code": "1"}).encode()
TICKS = os.sysconf("SC_CLK_TCK")
Work = Callable[[Transport], Awaitable[None]]


async def turn(url: str, work: Work, at_once: int) -> tuple[list[float], float]:
    """Seconds of each request, and requests a second, of `at_once` tasks that go on for a turn."""
    transport = Transport(address_of(url), KEY)
    taken: list[float] = []

    async def go_on(until: float) -> None:
        while (before := time.perf_counter()) < until:
            await work(transport)
            taken.append(time.perf_counter() - before)

    await asyncio.gather(*(work(transport) for _ in range(at_once)))  # connections are made
    begun = time.perf_counter()
    await asyncio.gather(*(go_on(begun + TURN_S) for _ in range(at_once)))
    rate = len(taken) / (time.perf_counter() - begun)
    await transport.close()
    return taken, rate


def posting(path: str) -> Work:
    """Run `1` at a path."""

    async def work(transport: Transport) -> None:
        reply = await transport.request("POST", path, body=CODE)
        assert reply.status == 200, reply

    return work


def showing(path: str) -> Work:
    """Ask for what is at a path."""

    async def work(transport: Transport) -> None:
        assert (await transport.request("GET", path)).status == 200

    return work


def cpu_s(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def compared(urls: dict[str, str], gateway_pid: int, works: dict[str, dict[str, Work]], rounds: int) -> list[float]:
    """Print each work at both, at concurrency 1 and 8. Returns milliseconds of a gateway's processor for a request."""
    costs: list[float] = []
    for title, at in works.items():
        for at_once in (1, 8):
            taken: dict[str, list[float]] = {name: [] for name in urls}
            rates: dict[str, list[float]] = {name: [] for name in urls}
            spent_s = 0.0
            for _ in range(rounds):
                for name, url in urls.items():
                    before = cpu_s(gateway_pid)
                    times, rate = asyncio.run(turn(url, at[name], at_once))
                    if name == "gateway":
                        spent_s += cpu_s(gateway_pid) - before
                    taken[name] += times
                    rates[name].append(rate)
            cost_ms = spent_s / len(taken["gateway"]) * 1e3
            costs.append(cost_ms)
            print(f"\n{title}, concurrency {at_once} ({rounds} turns of {TURN_S:g} s each)")
            print(f"{'':12}{'p50 ms':>10}{'p99 ms':>10}{'/s':>10}")
            for name, times in taken.items():
                p50, p99 = statistics.median(times) * 1e3, percentile(times, 0.99) * 1e3
                print(f"{name:12}{p50:10.2f}{p99:10.2f}{statistics.median(rates[name]):10.0f}")
            ours, theirs = taken["gateway"], taken["node"]
            over = [
                (statistics.median(ours) - statistics.median(theirs)) * 1e3,
                (percentile(ours, 0.99) - percentile(theirs, 0.99)) * 1e3,
            ]
            ratio = statistics.median(ours) / statistics.median(theirs)
            print(
                f"gateway over node: {over[0]:.2f} ms at the medians, {over[1]:.2f} ms at p99; {ratio:.2f}x; "
                f"{cost_ms:.2f} ms of the gateway's processor a request"
            )
    return costs


def renewals(url: str, seconds: float) -> tuple[float, float]:
    """Renewals a second of a catalogue with many nodes, and readings of all of them a second."""
    catalogue = Catalogue(url, lease_s=600)
    load = {"problem": "", "cpus": 16, "runs": 3, "waiting": 0, "sandboxes": 120, "of_keys": {"owner": 120}}
    boots = [secrets.token_hex(16) for _ in range(NODES)]
    for number, boot in enumerate(boots):
        where = {"name": f"{boot[:8]}-{number}", "url": f"http://{boot[:8]}:8000"}
        catalogue.join(boot_id=boot, **where, version="1", environment="e", load=load)
    counts = []
    for act in (lambda at: catalogue.renew(boots[at % NODES], at // NODES + 1, load), lambda at: catalogue.nodes()):
        begun, done = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            act(done)
            done += 1
        counts.append(done / (time.perf_counter() - begun))
    for boot in boots:
        catalogue.leave(boot)
    catalogue.close()
    return counts[0], counts[1]


@contextlib.contextmanager
def database(given: str | None) -> Iterator[str | None]:
    """URL of a PostgreSQL database; None where there is none."""
    path = Path(__file__).parents[1] / "tests" / "postgres.py"
    if given is not None or not path.exists():
        yield given
        return
    spec = importlib.util.spec_from_file_location("postgres_for_benchmarks", path)
    assert spec is not None
    assert spec.loader is not None
    servers = sys.modules["postgres_for_benchmarks"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(servers)
    programs = servers.programs()
    if programs is None or importlib.util.find_spec("psycopg") is None:
        yield None
        return
    with servers.running(programs, "SELECT 1") as server:
        server.execute("ALTER SYSTEM SET fsync = on")
        server.execute("SELECT pg_reload_conf()")
        yield server.url("admin")


@contextlib.contextmanager
def started(command: list[str], log: Path) -> Iterator[tuple[str, int]]:
    """URL and process id of a command of groundbox that has begun to answer."""
    environ = {**os.environ, "GROUNDBOX_API_KEY": KEY, "GROUNDBOX_JOIN_SECRET": "a-secret-of-the-benchmark"}
    told = [sys.executable, "-m", "groundbox", *command]
    with (
        open(log, "w") as errors,
        subprocess.Popen(told, stdout=subprocess.PIPE, stderr=errors, env=environ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode().strip().rstrip("/"), process.pid
        finally:
            process.terminate()


async def sandbox(url: str, *, joins: bool = False) -> str:
    """Id of a new sandbox; with `joins`, as soon as there is a node for it."""
    transport = Transport(address_of(url), KEY)
    until = time.monotonic() + 120
    while (reply := await transport.request("POST", "/v1/sandboxes", body=b"{}")).status != 201:
        assert joins, reply
        assert time.monotonic() < until, reply
        await asyncio.sleep(0.2)
    await transport.close()
    return str(reply.json()["sandbox_id"])


def requests(rounds: int, folder: Path) -> tuple[float, float]:
    """Print what a gateway adds. Returns milliseconds of its processor for a request, and requests a second."""
    gateway_command = ["gateway", "--catalogue", str(folder / "fleet.db"), "--port", "0"]
    with started(gateway_command, folder / "gateway.log") as (url, pid):
        node_command = ["serve", "--port", "0", "--join", url, "--node-name", "node"]
        with started(node_command, folder / "node.log") as (node_url, _):
            urls = {"node": node_url, "gateway": url}
            boxes = {"gateway": asyncio.run(sandbox(url, joins=True)), "node": asyncio.run(sandbox(node_url))}
            works = {
                "run in a session": {name: posting(f"/v1/sandboxes/{box}/run") for name, box in boxes.items()},
                "/v1/run": dict.fromkeys(urls, posting("/v1/run")),
            }
            for at in works.values():
                for name, work in at.items():
                    asyncio.run(turn(urls[name], work, 8))  # pools grow to what is asked of them
            costs = compared(urls, pid, works, rounds)
            shown = {name: showing(f"/v1/sandboxes/{box}") for name, box in boxes.items()}
            costs += compared(urls, pid, {"GET of a sandbox": shown}, rounds)
            rates = [asyncio.run(turn(url, shown["gateway"], 16)) for _ in range(rounds)]
            most = statistics.median(rate for _, rate in rates)
            print(f"\none gateway, {os.cpu_count()} processors shared with node and client: {most:.0f} GET/s")
            return max(costs[0], costs[1]), most


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--catalogue", metavar="URL", help="postgresql://…")
    given = parser.parse_args()
    machine()
    with tempfile.TemporaryDirectory() as folder:
        cost_ms, _ = requests(given.rounds, Path(folder))
        writes, reads = renewals(f"{folder}/renewals.db", given.rounds)
        print(f"\ncatalogue of {NODES} nodes in SQLite: {writes:.0f} renewals/s, read {reads:.0f} times a second")
    with database(given.catalogue) as url:
        if url is None:
            print("PostgreSQL: left out, for there is none here")
        else:
            writes, reads = renewals(url, given.rounds)
            print(f"catalogue of {NODES} nodes in PostgreSQL: {writes:.0f} renewals/s, read {reads:.0f} times a second")
    constants = {"gateway_request_ms": cost_ms, "catalogue_writes_a_s": writes, "catalogue_reads_a_s": reads}
    print(json.dumps({name: round(value, 3) for name, value in constants.items()}))


if __name__ == "__main__":
    main()
