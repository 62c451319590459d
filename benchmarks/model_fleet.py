"""Model of a fleet: stations, their loads and waits, the first that is full, what is needed, failures and costs.

    python benchmarks/model_fleet.py                                    100 nodes, 1,000,000 sandboxes an hour
    python benchmarks/model_fleet.py --nodes 20 --runs-a-sandbox 40     every number is an option
    python benchmarks/model_fleet.py --constants measured.json          the same numbers, by their names, from a file
    python benchmarks/model_fleet.py --simulate                         placement of runs without a sandbox that stays

A model and no measurement: it multiplies what was measured for one run, one request and one transaction. Each number's
origin is said beside it; `assumed` are those that were not measured.

Work comes as sandboxes, each of which is made, runs some programs and is closed, at a rate that is `peak` times the
mean. A station is what is shared: processors of nodes, the event loop of a node's server, which is one thread, room for
live sandboxes, gateways, the catalogue, links. Its load is demand by capacity (the utilisation law), live sandboxes are
rate by life (Little's law), and whoever waits for one of c servers waits as in M/M/c, corrected for programs of unlike
lengths (Allen and Cunneen). A session goes to the node it was made on, so each node is a queue of its own; choosing the
best of some nodes evens out what `--simulate` shows, and the table leaves out. Where a way to place is worse than
chance (loads that were heard of long ago draw everybody to the same nodes), waits are longer than in the table.

Prints a table, and as the last line the same as JSON.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

HOUR_S = 3600.0
PERCENTILE = 0.99
WIDTHS = (15, 15, 6, 8, 9, 9, 19)


class Program(NamedTuple):
    """A kind of program: processor time of a run beside the server's loop, and its share of all runs."""

    name: str
    cpu_ms: float
    share: float


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Numbers that the model is fed with. Rates are means; the peak is `peak` times as much."""

    # What is asked for: assumed.
    sandboxes_an_hour: float = 1_000_000
    runs_a_sandbox: float = 5
    life_s: float = 300  # of a sandbox, until it is closed
    peak: float = 2  # rate of the busiest minutes by the mean
    bytes_a_request: float = 16_384  # both ways together
    programs: tuple[Program, ...] = (  # shares assumed, times by PERFORMANCE.md: a second cell, and `usage.cpu_s`
        Program("print", 0.5, 0.5),
        Program("group-by", 9.3, 0.4),
        Program("scatter", 102, 0.1),
    )

    # A node: size assumed, times by PERFORMANCE.md.
    nodes: int = 100
    node_cores: int = 16
    node_memory_gib: float = 64
    node_servers: int = 1  # processes of `groundbox serve`, each with one loop
    node_sandboxes: int = 1000  # --sandboxes, of each server
    sandbox_cpu_ms: float = 6.8  # made and ended: template, launcher, worker, kernel threads; full profile
    sandbox_memory_mib: float = 32  # assumed; a worker that waits has 0.5 of its own
    loop_request_ms: float = 3.6  # 2.1 of the engine's host process for a run, and 1.5 of HTTP
    node_gbit_a_s: float = 10

    # Gateways, each one process with one loop: number and link assumed.
    gateways: int = 4
    gateway_request_ms: float = 0.7  # measured: bench_fleet.py, processor time of a run in a session
    gateway_gbit_a_s: float = 10

    # The catalogue, in PostgreSQL with a hundred nodes. Ids hold their node's tag: a sandbox writes nothing there.
    catalogue_writes_a_s: float = 700  # measured: bench_fleet.py, renewals of one gateway, one after the other
    catalogue_reads_a_s: float = 200  # measured: bench_fleet.py, readings of all nodes
    writes_a_sandbox: float = 0  # as built
    heartbeat_s: float = 2  # as built
    writes_a_heartbeat: float = 1
    lookup_ttl_s: float = 5  # a gateway remembers for so long where a sandbox is
    hinted: bool = True  # as built: the sandbox's id tells its node, so that nothing is looked up

    # Failures: assumed.
    node_mtbf_h: float = 720
    node_repair_h: float = 0.1
    detection_s: float = 6  # until no more is placed on a node that is gone: the lease
    shortage: float = 0.001  # share of the time in which more nodes may be down than there are spare ones

    # Loads that stations are planned for, and prices.
    target: float = 0.6  # of those before which work waits
    room_target: float = 0.9  # of what is full or not: memory, places for sandboxes
    node_price: float = 0.8  # an hour
    gateway_price: float = 0.1
    catalogue_price: float = 0.5

    @property
    def rate(self) -> float:
        """Sandboxes a second at the peak."""
        return self.sandboxes_an_hour * self.peak / HOUR_S

    @property
    def requests_a_sandbox(self) -> float:
        """One that makes it, its runs, and one that closes it."""
        return self.runs_a_sandbox + 2

    def service(self) -> tuple[float, float]:
        """Mean seconds of a run's program, and the squared coefficient of variation, each kind exponential."""
        shares = sum(each.share for each in self.programs)
        mean = sum(each.share * each.cpu_ms for each in self.programs) / shares / 1e3
        square = sum(each.share * 2 * (each.cpu_ms / 1e3) ** 2 for each in self.programs) / shares
        return mean, square / mean**2 - 1


class Wait(NamedTuple):
    """Waiting for a server: how likely, how long in the mean over all, and the 99th percentile; inf where it grows."""

    likely: float
    mean_s: float
    p99_s: float


class Station(NamedTuple):
    """Something shared.

    Attributes:
        demand: At the peak, in `unit`.
        capacity: The same.
        one: Capacity of one of what it is made of more of, named by `kind`; 0 for what there is one of.
        target: The highest load it is planned for.
    """

    name: str
    unit: str
    demand: float
    capacity: float
    kind: str
    one: float
    target: float
    wait: Wait | None = None

    @property
    def load(self) -> float:
        return self.demand / self.capacity


def erlang_c(servers: int, offered: float) -> float:
    """Probability to wait in M/M/c, by the recursion of Erlang's B. 1 where `offered` (load in servers) is too much."""
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def wait(rate: float, service_s: float, servers: int, variation: float = 1.0) -> Wait:
    """Waiting time of M/G/c: exact for c = 1 in the mean, and for exponential service; Allen and Cunneen else.

    Args:
        rate: Arrivals a second.
        service_s: The mean.
        servers: c.
        variation: Squared coefficient of variation of the service: 1 exponential, 0 always the same.
    """
    offered = rate * service_s
    if offered >= servers:
        return Wait(1.0, math.inf, math.inf)
    likely = erlang_c(servers, offered)
    of_those_s = service_s / (servers - offered) * (1 + variation) / 2
    rarely = 1 - PERCENTILE
    return Wait(likely, likely * of_those_s, of_those_s * math.log(likely / rarely) if likely > rarely else 0.0)


def lookups_a_request(gap_s: float, ttl_s: float) -> float:
    """Share of requests that ask the catalogue, of a sandbox asked at random every `gap_s` by way of one gateway.

    A renewal process: one that asks, then those of `ttl_s`, then the next one that asks.
    """
    return gap_s / (ttl_s + gap_s)


def spares(count: int, down: float, shortage: float) -> int:
    """Fewest further nodes, so that more are down for at most a share `shortage` of the time.

    Args:
        count: Nodes that have to be up.
        down: Share of the time that a node is down, independent of others.
    """
    for more in range(10 * count + 10):
        total = count + more
        up = sum(math.comb(total, lost) * down**lost * (1 - down) ** (total - lost) for lost in range(more + 1))
        if 1 - up <= shortage:
            return more
    return 10 * count + 10


def stations(given: Constants) -> list[Station]:
    """Return all that is shared, with its load at the peak."""
    rate, nodes = given.rate, given.nodes
    run_s, run_variation = given.service()
    requests = rate * given.requests_a_sandbox
    runs = rate * given.runs_a_sandbox
    cpu = rate * (given.sandbox_cpu_ms / 1e3 + given.runs_a_sandbox * run_s) + requests * given.loop_request_ms / 1e3
    live = rate * given.life_s
    loops = nodes * given.node_servers
    loop_s, gateway_s = given.loop_request_ms / 1e3, given.gateway_request_ms / 1e3
    beats = nodes / given.heartbeat_s
    writes = rate * given.writes_a_sandbox + beats * given.writes_a_heartbeat
    gap_s = given.life_s / given.requests_a_sandbox * given.gateways  # by way of one of them
    asked = 0.0 if given.hinted else (runs + rate) * lookups_a_request(gap_s, given.lookup_ttl_s)
    reads = asked + given.gateways / given.heartbeat_s  # each gateway reads the list of nodes, in one transaction
    bits = requests * given.bytes_a_request * 8 / 1e9
    memory_gib = live * given.sandbox_memory_mib / 1024
    full, room = given.target, given.room_target
    cpu_wait = wait(runs / nodes, cpu / runs, given.node_cores, run_variation)

    def of_nodes(name: str, unit: str, demand: float, one: float, target: float, wait: Wait | None = None) -> Station:
        return Station(name, unit, demand, nodes * one, "nodes", one, target, wait)

    def of_gateways(name: str, unit: str, demand: float, one: float, wait: Wait | None = None) -> Station:
        return Station(name, unit, demand, given.gateways * one, "gateways", one, full, wait)

    return [
        of_nodes("processors of nodes", "cores", cpu, given.node_cores, full, cpu_wait),
        of_nodes(
            "loops of nodes", "s/s", requests * loop_s, given.node_servers, full, wait(requests / loops, loop_s, 1)
        ),
        of_nodes("places for sandboxes", "live", live, given.node_servers * given.node_sandboxes, room),
        of_nodes("memory of nodes", "GiB", memory_gib, given.node_memory_gib, room),
        of_nodes("links of nodes", "Gbit/s", bits, given.node_gbit_a_s, full),
        of_gateways("loops of gateways", "s/s", requests * gateway_s, 1, wait(requests / given.gateways, gateway_s, 1)),
        of_gateways("links of gateways", "Gbit/s", 2 * bits, given.gateway_gbit_a_s),  # in and out
        Station("catalogue, writes", "1/s", writes, given.catalogue_writes_a_s, "catalogues", 0, full),
        Station("catalogue, reads", "1/s", reads, given.catalogue_reads_a_s, "catalogues", 0, full),
    ]


def needed(found: Sequence[Station], kind: str) -> int:
    """Fewest of a kind, so that none of its stations has more load than its target."""
    counts = [each.demand / each.one / each.target for each in found if each.kind == kind and each.one]
    return max(1, math.ceil(max(counts) - 1e-9))


def failures(given: Constants) -> dict[str, float]:
    """Losses by nodes that fail, an hour, at the mean rate.

    Sandboxes that are lost do not depend on the number of nodes: with twice as many, twice as many fail, and each has
    half as many sandboxes.
    """
    mean = given.sandboxes_an_hour / HOUR_S
    fail_an_hour = given.nodes / given.node_mtbf_h
    live = mean * given.life_s
    down = given.node_repair_h / (given.node_mtbf_h + given.node_repair_h)
    return {
        "nodes_failed_an_hour": fail_an_hour,
        "sandboxes_live": live,
        "sandboxes_lost_a_failure": live / given.nodes,
        "sandboxes_lost_an_hour": live / given.node_mtbf_h,
        "sandboxes_lost_share": live / given.node_mtbf_h / given.sandboxes_an_hour,
        "placed_again_an_hour": fail_an_hour * mean / given.nodes * given.detection_s,
        "share_of_nodes_down": down,
    }


def result(given: Constants) -> dict[str, Any]:
    """Return all answers, as JSON has them."""
    found = stations(given)
    most = {each.name: _most(given, each) for each in found}
    first = min(most, key=most.__getitem__)
    nodes, gateways = needed(found, "nodes"), needed(found, "gateways")
    failing = failures(given)
    spare = spares(nodes, failing["share_of_nodes_down"], given.shortage)
    planned = replace(given, nodes=nodes, gateways=gateways)  # which sends other heartbeats and other lookups
    catalogues = max(each.load / each.target for each in stations(planned) if each.kind == "catalogues")
    cost = given.nodes * given.node_price + given.gateways * given.gateway_price + given.catalogue_price
    enough = (nodes + spare) * given.node_price + gateways * given.gateway_price + given.catalogue_price
    return {
        "stations": [
            {
                "name": each.name,
                "unit": each.unit,
                "demand": each.demand,
                "capacity": each.capacity,
                "load": each.load,
                "target": each.target,
                "sandboxes_an_hour_at_target": _finite(most[each.name]),
                **_waits(each.wait),
            }
            for each in found
        ],
        "first": first,
        "sandboxes_an_hour_at_target": most[first],
        "needed": {"nodes": nodes, "spare_nodes": spare, "gateways": gateways, "catalogues": catalogues},
        "cost_an_hour": {"given": cost, "needed": enough},
        "cost_a_million_sandboxes": {
            "given": cost / given.sandboxes_an_hour * 1e6,
            "needed": enough / given.sandboxes_an_hour * 1e6,
        },
        "failures": failing,
    }


def _waits(found: Wait | None) -> dict[str, float | None]:
    return {} if found is None else {"wait_mean_s": _finite(found.mean_s), "wait_p99_s": _finite(found.p99_s)}


def _finite(value: float) -> float | None:
    """Return None for what grows without end, since JSON has no number for it."""
    return value if value < math.inf else None


def _most(given: Constants, station: Station) -> float:
    """Sandboxes an hour at which a station's load is the target. What does not grow with them (heartbeats) stays."""
    idle = next(each for each in stations(replace(given, sandboxes_an_hour=1e-9)) if each.name == station.name)
    growing = (station.demand - idle.demand) / given.sandboxes_an_hour
    return max(0.0, (station.target * station.capacity - idle.demand) / growing) if growing > 0 else math.inf


class Placed(NamedTuple):
    """Waits of simulated runs, and means by which Little's law can be checked: runs inside, and a run's time inside."""

    mean_s: float
    p99_s: float
    inside: float
    sojourn_s: float


def simulate(
    given: Constants, rate: float, *, choices: int, heartbeat_s: float, runs: int = 50_000, seed: int = 1
) -> Placed:
    """Place runs without a sandbox on nodes: each goes to the least loaded of `choices` nodes drawn by chance.

    A gateway knows the runs that it has itself on a node, and those of others at the last heartbeat, of all nodes at
    once; with `heartbeat_s` 0 it knows all, and with infinity nothing of others. Discrete events: arrivals by Poisson,
    programs drawn from the mix with exponential times. The first tenth of the waits is left out: all is empty then.

    Args:
        rate: Runs a second.
        choices: 1 is by chance.
    """
    draw = random.Random(seed)
    weights = [each.share for each in given.programs]
    means = [each.cpu_ms / 1e3 for each in given.programs]
    inside = [0] * given.nodes
    queues: list[deque[tuple[float, float, int]]] = [deque() for _ in inside]
    own = [[0] * given.nodes for _ in range(given.gateways)]
    others = [[0] * given.nodes for _ in own]
    ends: list[tuple[float, int, int]] = []
    waits: list[float] = []
    arrival = draw.expovariate(rate)
    now = beat = area = sojourns = 0.0
    left, count = runs, 0
    while left or ends:
        arrives = left > 0 and (not ends or arrival <= ends[0][0])
        before, now = now, arrival if arrives else ends[0][0]
        area += count * (now - before)
        if arrives:
            arrival, left = now + draw.expovariate(rate), left - 1
            gateway = draw.randrange(given.gateways)
            if heartbeat_s and now >= beat:
                others = [[all_ - mine for all_, mine in zip(inside, each, strict=True)] for each in own]
                beat = now + heartbeat_s
            seen, mine = others[gateway], own[gateway]
            drawn = draw.sample(range(given.nodes), choices)
            node = min(drawn, key=lambda each: seen[each] + mine[each] if heartbeat_s else inside[each])
            takes = draw.expovariate(1 / draw.choices(means, weights)[0])
            count += 1
            inside[node] += 1
            mine[node] += 1
            if inside[node] > given.node_cores:
                queues[node].append((now, takes, gateway))
                continue
            began, waited = now, 0.0
        else:
            _, node, gateway = heapq.heappop(ends)
            count -= 1
            inside[node] -= 1
            own[gateway][node] -= 1
            if not queues[node]:
                continue
            came, takes, gateway = queues[node].popleft()
            began, waited = now, now - came
        waits.append(waited)
        sojourns += waited + takes
        heapq.heappush(ends, (began + takes, node, gateway))
    ordered = sorted(waits[runs // 10 :])
    mean_s = sum(ordered) / len(ordered)
    return Placed(mean_s, ordered[int(len(ordered) * PERCENTILE)], area / now, sojourns / runs)


def placements(given: Constants) -> list[tuple[str, Placed]]:
    """Ways to place, all at a load of the target, on twenty nodes at most."""
    few = replace(given, nodes=min(given.nodes, 20))
    service_s, _ = few.service()
    rate = few.target * few.nodes * few.node_cores / service_s
    runs = int(max(50_000, 8 * rate * few.heartbeat_s))
    best = min(3, few.nodes)
    ways = (
        ("by chance", 1, 0.0),
        (f"best of {best}, all known", best, 0.0),
        (f"best of {best} by own runs", best, math.inf),
        (f"best of {best} by own runs and heartbeats", best, few.heartbeat_s),
    )
    return [
        (name, simulate(few, rate, choices=choices, heartbeat_s=heartbeat_s, runs=runs))
        for name, choices, heartbeat_s in ways
    ]


def show(given: Constants, found: dict[str, Any]) -> None:
    """Print the table."""
    need, cost, failing = found["needed"], found["cost_an_hour"], found["failures"]
    requests = given.rate * given.requests_a_sandbox
    print(f"{given.sandboxes_an_hour:,.0f} sandboxes an hour of {given.runs_a_sandbox:g} runs and {given.life_s:g} s;")
    print(f"at the peak {given.rate:,.0f} sandboxes and {requests:,.0f} requests a second")
    print(f"{given.nodes} nodes of {given.node_cores} cores, {given.gateways} gateways, one catalogue\n")
    heads = ("demand", "capacity", "load", "planned", "wait ms", "p99 ms", "sandboxes an hour*")
    print(f"{'':21}", *(head.rjust(width) for head, width in zip(heads, WIDTHS, strict=True)))
    for each in found["stations"]:
        cells = (
            *(f"{each[name]:,.1f} {each['unit']}" for name in ("demand", "capacity")),
            *(f"{each[name]:.0%}" for name in ("load", "target")),
            *(_milliseconds(each, name) for name in ("wait_mean_s", "wait_p99_s")),
            "any" if each["sandboxes_an_hour_at_target"] is None else f"{each['sandboxes_an_hour_at_target']:,.0f}",
        )
        print(f"{each['name']:21}", *(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))
    print(f"* at which the load is as planned\n\nfirst to be full: {found['first']}")
    print(
        f"needed: {need['nodes']} nodes and {need['spare_nodes']} spare, {need['gateways']} gateways, "
        f"{need['catalogues']:.2f} of a catalogue"
    )
    print(
        f"cost: {cost['given']:,.2f} an hour as given, {cost['needed']:,.2f} as needed, "
        f"{found['cost_a_million_sandboxes']['needed']:,.2f} a million sandboxes"
    )
    print(
        f"failures: a node every {1 / failing['nodes_failed_an_hour']:,.1f} h, "
        f"{failing['sandboxes_lost_a_failure']:,.0f} sandboxes lost with it; "
        f"{failing['sandboxes_lost_an_hour']:,.1f} lost an hour, one of {1 / failing['sandboxes_lost_share']:,.0f}; "
        f"{failing['placed_again_an_hour']:,.1f} an hour placed again"
    )


def _milliseconds(station: dict[str, Any], name: str) -> str:
    if name not in station:
        return ""
    return "grows" if station[name] is None else f"{station[name] * 1e3:.2f}"


def read(path: str) -> dict[str, Any]:
    """Constants of a file, by their names.

    Raises:
        ValueError: One that the model does not know.
    """
    known = {each.name for each in fields(Constants)}
    given: dict[str, Any] = json.loads(Path(path).read_text())
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"{path}: no such constants: {', '.join(unknown)}")
    return given


def constants(arguments: Sequence[str]) -> tuple[Constants, argparse.Namespace]:
    """Constants by file and options; options come last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--constants", metavar="FILE", help="JSON: an object of the names below, with _")
    parser.add_argument("--simulate", action="store_true", help="simulate placement as well")
    for each in fields(Constants):
        name = f"--{each.name.replace('_', '-')}"
        if isinstance(each.default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction)
        elif each.name == "programs":
            parser.add_argument(name, type=json.loads, metavar='[["NAME", CPU_MS, SHARE], …]')
        else:  # annotations are texts here
            parser.add_argument(
                name, type=int if each.type == "int" else float, metavar=f"N, by default {each.default:g}"
            )
    options = parser.parse_args(arguments)
    try:
        given = read(options.constants) if options.constants else {}
    except (OSError, ValueError) as problem:
        parser.error(str(problem))
    said = {each.name: getattr(options, each.name) for each in fields(Constants)}
    given |= {name: value for name, value in said.items() if value is not None}
    if "programs" in given:
        given["programs"] = tuple(Program(*each) for each in given["programs"])
    return Constants(**given), options


def main(arguments: Sequence[str]) -> None:
    """Print the table, and JSON."""
    given, options = constants(arguments)
    found = result(given)
    show(given, found)
    if options.simulate:
        found["placement"] = {}
        print(f"\nplacement of runs without a sandbox, at {given.target:.0%}: wait ms, p99 ms")
        for name, placed in placements(given):
            found["placement"][name] = {"wait_mean_s": placed.mean_s, "wait_p99_s": placed.p99_s}
            print(f"{name:38}{placed.mean_s * 1e3:10.3f}{placed.p99_s * 1e3:10.2f}")
    print(json.dumps({"constants": asdict(given), **found}, allow_nan=False))


if __name__ == "__main__":
    main(sys.argv[1:])
