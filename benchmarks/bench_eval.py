"""What `groundbox eval model` costs over the time of the endpoint itself, beside a bare loop of httpx.

    python benchmarks/bench_eval.py [QUESTIONS] [LATENCY_S] [ROUNDS]

A scripted endpoint in a process of its own answers each request after a fixed time, with a reasoning of some twenty
sentences about the program that is asked about. The bare loop posts the same prompts and throws the replies away. Ours
keeps each reply on the disk, records the run of each program in a sandbox, judges the answer, and holds every step
against the record. Both have 16 requests under way; the ideal is QUESTIONS / 16 * LATENCY_S. Ours runs in this process,
so that what a command takes to start is told by itself.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from measure import machine

from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.program_runner import SandboxRunner
from groundbox.dataset.translation.endpoint import Endpoint
from groundbox.learn.evaluation import asking, model, results
from groundbox.learn.evaluation.suites import Means, Suite, Wanted, open_suite
from groundbox.limits import Limits

AT_ONCE = 16
PROGRAM = """\
def f(n):
    total = {0}
    for k in range(n):
        if k % 2 == {1}:
            total += k * {2}
    return total"""
NUMBERS = re.compile(r"total = (\d+).*?== (\d).*?k \* (\d+).*?`f\((\d+)\)`", re.DOTALL)


def reply(prompt: str) -> str:
    """A reasoning as a model writes it, and the answer."""
    found = NUMBERS.search(prompt)
    assert found is not None
    total, odd, factor, n = map(int, found.groups())
    told = [f"`n` is {n} and `total` is {total}."]
    for k in range(n):
        if k % 2 == odd:
            total += k * factor
            told.append(f"In the next round `k` is {k}, so `total` becomes {total}.")
        else:
            told.append(f"When `k` is {k}, `k % 2 == {odd}` is False and nothing is added.")
    return " ".join([*told, f"The function returns {total}."]) + f"\n\nAnswer: {total}"


def serve(latency_s: float, port: Any) -> None:
    """An endpoint that answers every request after the same time."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(re.search(rb"content-length: (\d+)", head.lower())[1])  # type: ignore[index]
                body = json.loads(await reader.readexactly(size))
                await asyncio.sleep(latency_s)
                text = reply(body["messages"][0]["content"])
                choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                told = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 200, "completion_tokens": 300}})
                writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(told)}\r\n\r\n{told}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def bare(url: str, prompts: list[str]) -> float:
    """Seconds of a loop that asks and does nothing else."""
    begun, left = time.perf_counter(), iter(prompts)
    async with httpx.AsyncClient(timeout=60) as client:

        async def worker() -> None:
            for prompt in left:
                body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
                (await client.post(f"{url}/chat/completions", json=body)).json()

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return time.perf_counter() - begun


async def ours(url: str, suite: Suite, out: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of an evaluation, and its report."""
    executor = LocalExecutor()
    runner = SandboxRunner(at_once=executor.workers)
    means = Means(runner=runner, limits=Limits(), sandbox={})
    tools = model.Tools(means=means, executor=executor, at_once=AT_ONCE)
    begun = time.perf_counter()
    endpoint = Endpoint(url, "m", at_once=AT_ONCE, timeout_s=60)
    with results.opened(out, {"suite": suite.name}, {}) as kept:
        async with asking.connected(endpoint, {}, out / asking.ANSWERS) as source:
            report = await model.evaluate(suite, suite.questions, source, kept, {}, tools)
    taken = time.perf_counter() - begun
    await executor.close()
    return taken, report


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 320
    latency_s = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    folder = Path(tempfile.mkdtemp(prefix="groundbox-bench-eval-"))
    ours_end, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(latency_s, theirs), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{ours_end.recv()}/v1"
    try:
        problems = folder / "c.jsonl"
        with problems.open("w") as file:
            for n in range(count):
                row = {"id": str(n), "code": PROGRAM.format(n, n % 2, n % 7 + 1), "input": str(8 + n % 10)}
                space: dict[str, Any] = {}
                exec(row["code"], space)  # noqa: S102
                file.write(json.dumps({**row, "output": str(space["f"](8 + n % 10))}) + "\n")
        suite: Any = open_suite(f"cruxeval-output:{problems}", Wanted())
        prompts = [each.prompt for each in suite.questions]
        bare_s, ours_s = [], []
        for number in range(rounds):
            bare_s.append(asyncio.run(bare(url, prompts)))
            taken, report = asyncio.run(ours(url, suite, folder / f"o{number}"))
            ours_s.append(taken)
            assert report["right"] == count, report["reasons"]
        steps = report["steps"]
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "groundbox", "eval", "model", "--help"], stdout=subprocess.DEVNULL)
        start_s = time.perf_counter() - begun
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    machine()
    ideal = count / AT_ONCE * latency_s
    base, own = statistics.median(bare_s), statistics.median(ours_s)
    print(f"{count} questions, {AT_ONCE} at once, {latency_s:g} s each; medians of {rounds} rounds, interleaved")
    print(f"the endpoint's own time {ideal:8.2f} s")
    print(f"a bare loop of httpx    {base:8.2f} s  {100 * (base / ideal - 1):+6.1f} %")
    print(f"groundbox eval model    {own:8.2f} s  {100 * (own / ideal - 1):+6.1f} %, {own / base:.3f} of the bare loop")
    print(f"with {steps['told']} claims held against {steps['replies']} runs; the command starts in {start_s:.2f} s")


if __name__ == "__main__":
    main()
