"""Row 14: floods of output and displays, bytes that are no text, and values that are large to show."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import asyncio
import contextlib
import os
import time
import tracemalloc

import pytest

from groundbox import AsyncSandbox, Limits, MiB, Outcome
from groundbox.errors import WireError
from groundbox.limits import KiB
from groundbox.sandbox import wire


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("stream", [1, 2])
def test_a_flood_is_cut_and_counted_and_costs_the_host_no_memory(sandbox, stream):
    box = sandbox(limits=Limits(output_bytes=64 * KiB, wall_s=60))
    box.run("1")
    before = _resident()

    execution = box.run(f"import os\nblock = b'x' * 65536\nfor _ in range(2000): os.write({stream}, block)")

    name = {1: "stdout", 2: "stderr"}[stream]
    assert execution.outcome is Outcome.OK
    assert execution.dropped_bytes[name] == 2000 * 65536 - 64 * KiB
    assert _resident() - before < 32 * MiB


def test_a_listener_that_is_slow_costs_the_host_no_memory(sandbox):
    """The program waits for its reader, as it would before a terminal."""
    box = sandbox(limits=Limits(wall_s=60))
    box.run("1")
    before = _resident()
    events = box.stream("import os\nblock = b'x' * 65536\nwhile True: os.write(1, block)")
    next(events)

    time.sleep(1.5)

    assert _resident() - before < 64 * MiB
    events.close()


def test_a_flood_does_not_hold_up_others(sandbox):
    flooding = sandbox(limits=Limits(wall_s=5))
    events = flooding.stream("import os\nblock = b'x' * 65536\nwhile True: os.write(1, block)")
    next(events)

    assert sandbox().run("6 * 7").text == "42"
    events.close()


def test_output_at_the_deadline_is_read_to_an_end(sandbox):
    """Whoever writes without end is cut off; what stands in the pipe at that moment is all that is read."""
    box = sandbox(limits=Limits(wall_s=0.5))

    execution = box.run("import os\nfor _ in range(3): os.fork()\nwhile True: os.write(1, b'x' * 65536)", mode="script")

    assert execution.outcome is Outcome.TIMEOUT


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\xfd",
        b"\xf0\x9f\x98",
        b"\x1b]0;title\x07\x1b[2J",
        b"\x00\x01\x02",
        "\u202eevil".encode(),
        b"\xed\xa0\x80",
    ],
)
def test_bytes_of_any_kind_are_a_result(sandbox, data):
    execution = sandbox().run(f"import os; _ = os.write(1, {data!r})")

    assert execution.outcome is Outcome.OK
    assert execution.stdout == data.decode("utf-8", "replace")
    assert execution.outputs["stdout"].read() == data
    execution.stdout.encode()


LARGE = {
    "an exception's text": "raise ValueError('x' * 10**7)",
    "an exception's name": "raise type('X' * 10**6, (Exception,), {})('x')",
    "a deep chain": "def f(n):\n    try: 1 / 0\n    except Exception as e:\n        if n: raise ValueError(n) from e\n        raise\ndef g(n):\n    try: g(n - 1) if n else 1 / 0\n    except Exception as e: raise ValueError(n) from e\ng(100)",
    "deep recursion": "def f(n): return f(n + 1)\nf(0)",
    "a large local": "def f():\n    block = 'x' * 10**7\n    return 1 / 0\nf()",
    "a local that is slow to show": "class S:\n    def __repr__(self): return 'x' * 10**7\ndef f(s=S()):\n    return 1 / 0\nf()",
    "a local that fails to show": "class S:\n    def __repr__(self): raise RuntimeError('no')\ndef f(s=S()):\n    return 1 / 0\nf()",
    "a local that leaves": "class S:\n    def __repr__(self): raise SystemExit(0)\ndef f(s=S()):\n    return 1 / 0\nf()",
    "an exception that fails to show": "class E(Exception):\n    def __str__(self): raise RuntimeError('no')\nraise E",
    "lone surrogates": "raise ValueError('\\ud800')",
    "a group": "raise ExceptionGroup('many', [ValueError(i) for i in range(10**4)])",
}


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("mode", ["cell", "script"])
def test_a_large_failure_is_told_in_few_words(sandbox, kind, mode):
    execution = sandbox(limits=Limits(wall_s=30)).run(LARGE[kind], mode=mode)

    assert execution.outcome is Outcome.ERROR
    assert execution.error is not None
    assert len(str(execution.to_dict()["error"])) < 100_000


VALUES = {
    "a long text": "'x' * 10**8",
    "a long list": "list(range(10**6))",
    "a large html": "class H:\n    def _repr_html_(self): return 'x' * 10**8\nH()",
    "one that recurses": "a = []\na.append(a)\na",
    "a deep one": "a = []\nfor _ in range(10**5): a = [a]\na",
    "one that lies about its type": "class L:\n    def _repr_html_(self): return 5\n    def _repr_png_(self): return 'no bytes'\nL()",
    "one that fails": "class F:\n    def __repr__(self): raise RuntimeError('no')\nF()",
    "one with lone surrogates": "'\\ud800'",
    "one that kills": "class K:\n    def __repr__(self):\n        import os; os._exit(3)\nK()",
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_large_value_does_not_hurt_the_host(sandbox, kind):
    before = _resident()

    execution = sandbox(limits=Limits(wall_s=30)).run(VALUES[kind])

    assert execution.outcome in (Outcome.OK, Outcome.ERROR, Outcome.MEMORY)
    assert _resident() - before < 300 * MiB


def test_displays_are_counted_beyond_their_number(sandbox):
    box = sandbox(profile="science", limits=Limits(wall_s=60))

    execution = box.run("for i in range(1500): display(i)")

    assert len(execution.displays) == 1000
    assert execution.dropped_bytes["displays"] == 500


def test_large_displays_are_counted_beyond_their_size(sandbox):
    box = sandbox(profile="science", limits=Limits(wall_s=60))

    execution = box.run("from IPython.display import HTML\nfor i in range(12): display(HTML('x' * (8 << 20)))")

    kept = sum(len(display.html or "") for display in execution.displays)
    assert kept <= 64 * MiB
    assert len(execution.displays) + execution.dropped_bytes["displays"] == 12


SHOW = """
import os, socket, stat, struct
for fd in range(3, 96):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            host = socket.socket(fileno=os.dup(fd))
            break
    except OSError: continue
def frame(text): return struct.pack('<I', len(text)) + text
"""
SMALL_VALUES = 'b\'{"ev":"display","data":{"a":[\' + b\',\'.join([b\'{"a":{}}\'] * 60_000) + b\']}}\''


def test_displays_of_many_small_values_are_weighed_by_what_they_take(sandbox):
    """Each of these has a megabyte of text and takes 25 of memory."""
    box = sandbox(limits=Limits(wall_s=60))
    box.run("1")
    before = _resident()

    execution = box.run(SHOW + f"for _ in range(12): host.sendall(frame({SMALL_VALUES}))")

    assert len(execution.displays) + execution.dropped_bytes["displays"] == 12
    assert _resident() - before < 200 * MiB


def test_a_flood_of_displays_leaves_most_of_the_loop_to_others():
    """Judged by the time that the loop spends, of all that goes by, and not by how fast anything is."""

    async def scenario():
        async with AsyncSandbox(profile="bare", limits=Limits(wall_s=60)) as box:
            await box.run("1")
            flooding = asyncio.ensure_future(
                box.run(SHOW + f"import time\nend = time.monotonic() + 5\ndata = frame({SMALL_VALUES})\n"
                        "while time.monotonic() < end: host.sendall(data)")
            )  # fmt: skip
            await asyncio.sleep(1.5)
            begun, spent = time.monotonic(), time.thread_time()
            await asyncio.sleep(3)
            share = (time.thread_time() - spent) / (time.monotonic() - begun)
            return share, (await flooding).outcome

    share, outcome = asyncio.run(scenario())
    assert share < 0.4
    assert outcome is Outcome.OK


def test_displays_that_are_cleared_at_once_do_not_heap_up_before_a_slow_listener(sandbox):
    box = sandbox(limits=Limits(wall_s=60))
    box.run("1")
    before = _resident()
    show = 'frame(b\'{"ev":"display","data":{}}\') + frame(b\'{"ev":"clear"}\')'
    events = box.stream(SHOW + f"print(1, flush=True)\nfor _ in range(36): host.sendall(({show}) * 2000)\nprint(2)")
    next(events)

    shown = [event for event in events if event.kind in ("display", "end")]

    assert shown[-1].execution.dropped_bytes["displays"] > 4000
    assert len(shown) < 70_000
    assert _resident() - before < 150 * MiB


def test_reading_a_frame_costs_the_same_whatever_is_in_it():
    """A ratio of two times of the same kind of work: many brackets against few."""
    few = b'{"ev":"display","data":{"a":"' + b"x" * 4_000_000 + b'"}}'
    many = b'{"ev":"display","data":{"a":"' + b"x" * 4_000_000 + b'","b":[' + b",".join([b"[]"] * 100) + b"]}}"

    def cost(body):
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            wire.decode(body)
            times.append(time.perf_counter() - begun)
        return min(times)

    assert cost(many) < 20 * cost(few)


def test_a_frame_of_many_small_values_costs_memory_in_proportion(heartbeat):
    """Ten million empty lists are thirty megabytes of text, and would be a gigabyte of objects."""
    body = b'{"ev":"display","data":{"a":[' + b",".join([b"[]"] * 3_000_000) + b"]}}"
    tracemalloc.start()

    with contextlib.suppress(WireError):
        wire.decode(body)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    heartbeat.reset()  # the test's own thread decoded, under tracemalloc; no guest did anything
    assert peak < 8 * len(body)
