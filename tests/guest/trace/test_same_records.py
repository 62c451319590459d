"""Both cores on one interpreter write the same bytes."""

import functools
import heapq
import json
import operator
import os
import statistics
from pathlib import Path

import pytest

from groundbox.guest.trace.native.bridge import known_functions

DATA = os.environ.get("GROUNDBOX_DATA", "")

ASYNC = """
import asyncio, contextlib, functools
async def twice(n):
    await asyncio.sleep(0)
    return n * 2
async def count():
    for i in range(2):
        yield i
async def main():
    r = await asyncio.gather(twice(1), twice(2))
    q = [i async for i in count()]
    async with contextlib.AsyncExitStack() as stack:
        z = [await twice(k) for k in q]
    return r, q, z
v = asyncio.run(main())
@contextlib.contextmanager
def managed():
    yield 5
with managed() as k:
    pass
match [1, {"a": k}]:
    case [n, {"a": w}]:
        pass
def loop():
    for i in range(3):
        try:
            continue
        finally:
            k = i
    return k
loop()
words = {w: [c for c in w] for w in ("ab", "c")}
"""


SOFT_EVENTS = 10**6


def test_asynchronous_code_is_told_alike(by_version):
    for tracers in by_version.values():
        written = {tracer(ASYNC, soft_events=SOFT_EVENTS).data for tracer in tracers}

        assert len(written) == 1
        assert written.pop().endswith(b'{"k":"end"}\n')


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="GROUNDBOX_DATA, a folder with pyedu-514.jsonl, is not set")
def test_programs_from_outside_are_told_alike(by_version):
    lines = (Path(DATA) / "pyedu-514.jsonl").read_text().splitlines()[:25]

    different = []
    for number, problem in enumerate(map(json.loads, lines)):
        given = json.dumps(json.dumps(problem["ios"][0]["input"]))
        call = f"\n{problem['funcname']}(**__import__('json').loads({given}))\n"
        for version, tracers in by_version.items():
            runs = [
                tracer(problem["refcode"] + call, bytes=1 << 24, soft_events=SOFT_EVENTS, max_events=3000)
                for tracer in tracers
            ]
            written = {run.data.replace(b" in the core plain, which folds nothing", b"") for run in runs}
            different += [(number, version)] * (len(written) != 1)

    assert different == []


def test_known_functions_are_all_of_the_library():
    known = known_functions()

    assert set(known.values()) == {"none", "first"}
    assert known[id(len)] == "none"
    assert known[id(operator.ipow)] == known[id(heapq.heappop)] == "first"
    assert vars(statistics)["reduce"] is functools.reduce  # a module of functions that change nothing has it, too
    assert not {id(exec), id(functools.reduce), id(operator.call), id(heapq._heapify_max)} & set(known)
