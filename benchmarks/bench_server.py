"""What the server adds to the engine: a fresh sandbox for each request, `print(1+1)`, on loopback.

    python benchmarks/bench_server.py [ROUNDS] [--fusion URL] [--gateway URL]

First how long bubblewrap with the same interpreter takes for the program: machines differ by more than servers do. Then
the program as a cell, which runs in the sandbox's own process, and as a script, which takes one more. The engine alone
runs in this process; the server is `groundbox serve` in one of its own, asked over connections that are kept. Both get
turns, a second each, so that the machine's mood is the same. Then events of a stream: how long after a program wrote a
line it is here. With URLs of SandboxFusion (`SANDBOX_CONFIG=ci` has its isolation on) and of jupyter-kernel-gateway,
their rates for the same program: a request, and a kernel made, asked and ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from measure import interleaved, machine, percentile
from peers import peers

import groundbox as gb
from groundbox.remote.transport import Transport, address_of

PROGRAM = "print(1+1)"
AT_ONCE = 16
TURN_S = 1.0
SCRIPT = {"code": PROGRAM, "mode": "script"}
KEY = "a-key-of-the-benchmark"


async def turns(work: Callable[[], Awaitable[None]], at_once: int) -> tuple[list[float], float]:
    """Seconds of each run, and runs a second, of `at_once` tasks that go on for a turn."""
    taken: list[float] = []
    begun = time.perf_counter()

    async def go_on() -> None:
        while time.perf_counter() - begun < TURN_S:
            before = time.perf_counter()
            await work()
            taken.append(time.perf_counter() - before)

    await asyncio.gather(*(go_on() for _ in range(at_once)))
    return taken, len(taken) / (time.perf_counter() - begun)


async def compared(url: str, rounds: int, mode: Literal["cell", "script"]) -> None:
    """Print both at concurrency 1 and 16."""
    body = json.dumps({"code": PROGRAM, "mode": mode}).encode()
    transport = Transport(address_of(url), KEY)

    async def engine() -> None:
        execution = await gb.run_async(PROGRAM, mode=mode)
        assert execution.stdout == "2\n", execution

    async def server() -> None:
        reply = await transport.request("POST", "/v1/run", body=body)
        assert reply.status == 200, reply
        assert reply.json()["stdout"] == "2\n", reply

    ways = {"engine": engine, "server": server}
    for way in ways.values():
        await turns(way, AT_ONCE)  # pools grow to what is asked of them
    for at_once in (1, AT_ONCE):
        taken: dict[str, list[float]] = {name: [] for name in ways}
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                times, rate = await turns(way, at_once)
                taken[name] += times
                rates[name].append(rate)
        print(f"\n{mode}, concurrency {at_once} ({rounds} turns of {TURN_S:g} s each)")
        print(f"{'':12}{'p50 ms':>10}{'p99 ms':>10}{'p99/p50':>10}{'/s':>10}")
        for name, times in taken.items():
            p50, p99 = statistics.median(times), percentile(times, 0.99)
            rate = statistics.median(rates[name])
            print(f"{name:12}{p50 * 1e3:10.2f}{p99 * 1e3:10.2f}{p99 / p50:10.1f}{rate:10.0f}")
        over_ms = (statistics.median(taken["server"]) - statistics.median(taken["engine"])) * 1e3
        share = statistics.median(rates["server"]) / statistics.median(rates["engine"])
        print(f"server over engine: {over_ms:.2f} ms at the medians; {share:.2f} of its rate")
    await transport.close()


def first_bytes(url: str) -> None:
    """Print how late the lines of a stream are here, by one clock for both."""
    program = "import time\nfor _ in range(50):\n    print(time.time(), flush=True)\n    time.sleep(0.02)"
    late = []
    with gb.connect(url, KEY).Sandbox() as box:
        box.run("1")
        for event in box.stream(program):
            now = time.time()
            if event.kind == "stdout":
                late += [now - float(line) for line in event.text.split()]
    print(f"\nlines of a stream after they were written: p50 {statistics.median(late) * 1e3:.2f} ms, ", end="")
    print(f"p95 {percentile(late, 0.95) * 1e3:.2f} ms")


def rate_of(work: Callable[[], object], at_once: int, seconds: float) -> float:
    """Calls a second of a blocking function."""
    stop = time.perf_counter() + seconds

    def go_on(_: int) -> int:
        count = 0
        while time.perf_counter() < stop:
            work()
            count += 1
        return count

    with ThreadPoolExecutor(at_once) as pool:
        begun = time.perf_counter()
        return sum(pool.map(go_on, range(at_once))) / (time.perf_counter() - begun)


def asked(url: str, body: dict[str, Any] | None = None, *, method: str = "POST", key: str = "") -> Any:
    """The JSON of an answer."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def of_fusion(url: str) -> None:
    """One program by SandboxFusion."""
    told = asked(f"{url}/run_code", {"code": PROGRAM, "language": "python"})
    assert told["run_result"]["stdout"] == "2\n", told


def of_gateway(url: str) -> None:
    """One kernel made, asked and ended."""
    from websockets.sync.client import connect

    kernel = asked(f"{url}/api/kernels", {})["id"]
    header = {
        "msg_id": "1",
        "msg_type": "execute_request",
        "username": "",
        "session": "s",
        "date": "",
        "version": "5.3",
    }
    content = {"code": PROGRAM, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    request = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    with connect(f"{url.replace('http', 'ws')}/api/kernels/{kernel}/channels", open_timeout=60) as socket:
        socket.send(json.dumps(request))
        while True:
            message = json.loads(socket.recv(60))
            if message["msg_type"] == "stream":
                assert message["content"]["text"] == "2\n", message
            if message["msg_type"] == "execute_reply":
                break
    asked(f"{url}/api/kernels/{kernel}", method="DELETE")


def yardstick(rounds: int) -> None:
    """Print how long a peer takes that does not change with us."""
    with peers() as found:
        if bubblewrap := found.get("bubblewrap"):
            taken = interleaved({"bubblewrap": lambda: bubblewrap(PROGRAM)}, 4 * rounds)["bubblewrap"]
            print(f"bubblewrap + python: p50 {statistics.median(taken) * 1e3:.1f} ms")


def main() -> None:
    """Start a server, and print all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--fusion", metavar="URL")
    parser.add_argument("--gateway", metavar="URL")
    given = parser.parse_args()
    machine()
    yardstick(given.rounds)
    command = [sys.executable, "-m", "groundbox", "serve", "--port", "0"]
    environ = {**os.environ, "GROUNDBOX_API_KEY": KEY}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip().rstrip("/")
            for mode in ("cell", "script"):
                asyncio.run(compared(url, given.rounds, mode))
            first_bytes(url)
            others = {
                "SandboxFusion": (given.fusion, of_fusion, AT_ONCE),
                "kernel gateway": (given.gateway, of_gateway, 4),  # sixteen at once wait for each other for minutes
            }
            for name, (peer, work, at_once) in others.items():
                if peer is None:
                    continue
                ours, theirs = [], []
                for _ in range(given.rounds):
                    ours.append(rate_of(lambda: asked(f"{url}/v1/run", SCRIPT, key=KEY), AT_ONCE, TURN_S))
                    theirs.append(rate_of(lambda peer=peer, work=work: work(peer), at_once, TURN_S))  # type: ignore[misc]
                ratio = statistics.median(ours) / statistics.median(theirs)
                print(
                    f"{name}: {statistics.median(theirs):.1f} /s, ours {statistics.median(ours):.0f} /s: {ratio:.1f}x"
                )
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
