"""Tools: functions of the host that code in a sandbox may call."""

import asyncio
import contextlib
import dataclasses
import datetime
import decimal
import functools
import json
import os
import threading
import time
from typing import Any

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.sandbox import orders
from groundbox.sandbox.bridge.bridge import Bridge
from groundbox.sandbox.bridge.values import Unfit
from groundbox.tools import Tool, ToolFailure, ToolQuotas, Tools, tool


@pytest.fixture
def box():
    """Makes a sandbox with these tools, and closes it when the test ends."""
    opened = []

    def make(tools, **options):
        opened.append(gb.Sandbox(**{"profile": "bare", "tools": tools, **options}))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    More is told here.
    """
    return a + b


def echo(value: object = None) -> object:
    """Give back what is given."""
    return value


ANYTHING = {"type": "object", "additionalProperties": True}
ECHO = Tool("echo", lambda value=None: value, parameters=ANYTHING)


def text(box, source, **options):
    execution = box.run(f"import tools\n{source}", **options)
    assert execution.error is None, execution.error
    return execution.text


def test_a_cell_calls_a_function_of_the_host(box):
    execution = box([add]).run("import tools\ntools.add(40)")

    assert (execution.outcome, execution.text) == (gb.Outcome.OK, "42")
    calls = execution.tool_calls
    assert (calls.total, calls.outcomes, calls.dropped) == (1, {"ok": 1}, 0)
    (call,) = calls.calls
    assert (call.tool, call.arguments, call.outcome, call.result) == ("add", '{"a": 40}', "ok", "42")
    assert execution.to_dict()["tool_calls"]["calls"][0]["tool"] == "add"


def test_a_script_and_a_call_call_too(box):
    sandbox = box([add])

    script = sandbox.run("from tools import add\nprint(add(b=1, a=2))", mode="script")
    call = sandbox.run("import tools\ndef f(x): return tools.add(x)", mode="call", call="f", args=[5])

    assert (script.stdout, script.exit_code, call.text) == ("3\n", 0, "7")


def test_without_tools_there_is_no_module_and_nothing_is_told():
    execution = gb.run("import tools")

    assert execution.error.type == "ModuleNotFoundError"
    assert execution.tool_calls is None
    assert execution.to_dict()["tool_calls"] is None


def test_functions_are_called_in_a_thread_and_coroutine_functions_on_the_loop(box):
    async def later(x: int) -> str:
        await asyncio.sleep(0)
        return f"{x} {threading.current_thread().name}"

    def now(x: int) -> str:
        return f"{x} {threading.current_thread().name}"

    assert text(box([later, now]), "tools.later(1), tools.now(2)") == "('1 groundbox', '2 groundbox-tool')"


def test_calls_are_made_at_once_by_gather(box):
    together = asyncio.Barrier(5)

    async def meet(n: int) -> int:
        await together.wait()
        return n

    source = "import asyncio\nawait asyncio.gather(*[tools.aio.meet(n) for n in range(5)])"

    assert text(box([meet]), source) == "[0, 1, 2, 3, 4]"


def test_calls_are_made_at_once_by_threads(box):
    together = threading.Barrier(5)

    def meet(n: int) -> int:
        together.wait(20)
        return n

    source = "from concurrent.futures import ThreadPoolExecutor as P\nlist(P(5).map(tools.meet, range(5)))"

    assert text(box([meet]), source) == "[0, 1, 2, 3, 4]"


def test_threads_and_a_loop_call_beside_each_other(box):
    source = """
import asyncio, threading
found = []
def work(k): found.extend(tools.add(n, k) for n in range(40))
threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
for each in threads: each.start()
later = await asyncio.gather(*[tools.aio.add(n, 100) for n in range(100)])
for each in threads: each.join()
sum(found) + sum(later)
"""
    expected = sum(n + k for n in range(40) for k in range(3)) + sum(n + 100 for n in range(100))

    assert text(box([add]), source) == str(expected)


def test_more_calls_at_once_than_are_carried_out_wait_for_each_other(box):
    running, most = 0, 0

    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    tools = Tools([count], quotas=ToolQuotas(concurrent=3))

    text(box(tools), "import asyncio\nawait asyncio.gather(*[tools.aio.count() for _ in range(30)])")

    assert most == 3


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_calls_of_a_sequential_tool_do_not_overlap(box, kind):
    running, overlapped = 0, False

    def enter(change):
        nonlocal running, overlapped
        running += change
        overlapped = overlapped or running > 1

    def work() -> None:
        enter(1)
        time.sleep(0.002)
        enter(-1)

    async def work_later() -> None:
        enter(1)
        await asyncio.sleep(0.002)
        enter(-1)

    made = Tool("work", work if kind == "sync" else work_later, sequential=True)

    text(box([made]), "import asyncio\nawait asyncio.gather(*[tools.aio.work() for _ in range(10)])")

    assert not overlapped


def test_what_a_tool_raises_is_told_by_type_and_with_its_message_only_when_it_is_meant(box):
    def fail(how: int) -> None:
        if how:
            raise ToolFailure("the mailbox /inbox/today is full", retryable=True)
        raise OSError("401 for https://db/x?api_key=SECRET of /srv/key.pem")

    source = """
def told(how):
    try: tools.fail(how)
    except tools.ToolError as error: return (error.tool, error.type, error.message, error.retryable)
told(0), told(1)
"""
    told = eval(text(box([fail]), source))

    assert told == (
        ("fail", "OSError", "the tool failed, and its message stays on the host", False),
        ("fail", "ToolFailure", "the mailbox /inbox/today is full", True),
    )


def test_a_failure_that_is_not_caught_is_that_of_the_run(box):
    def fail() -> None:
        raise ToolFailure("no")

    execution = box([fail]).run("import tools\ntools.fail()")

    assert (execution.error.type, execution.error.message) == ("ToolError", "fail: ToolFailure: no")
    assert execution.error.line == 2
    assert "groundbox" not in execution.error.traceback


@pytest.mark.parametrize("how", [SystemExit(3), StopIteration(1), asyncio.CancelledError(), GeneratorExit()])
def test_whatever_a_tool_raises_ends_its_call_only(box, how):
    def fail() -> None:
        raise how

    sandbox = box([fail, add])

    execution = sandbox.run("import tools\ntry: tools.fail()\nexcept tools.ToolError as e: print(e.type)\ntools.add(1)")

    assert (execution.stdout, execution.text) == (f"{type(how).__name__}\n", "3")


VALUES = [
    None,
    True,
    0,
    -1,
    2**63,
    -(10**100),
    0.1,
    1e308,
    "",
    "ünï\0cödé 🎉\u2028",
    "x" * 100_000,
    [],
    {},
    [1, [2, [3]]],
    {"a": {"b": None}},
    {"$bytes": "no tag"},
    {"$object": {"$object": 1}},
    {"__class__": {"__init__": 1}},
    b"\0\xff",
    decimal.Decimal("1.10"),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC),
    datetime.datetime(2026, 1, 2),
    datetime.date(2026, 1, 2),
    datetime.time(3, 4),
    {"inf": float("inf"), "other": [b"1", decimal.Decimal(2)]},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_values_go_there_and_back(box, value):
    seen = []

    def see(value):
        seen.append(value)
        return value

    tools = [Tool("see", see, parameters=ANYTHING)]
    names = "import datetime\nfrom decimal import Decimal\ninf = float('inf')\n"

    assert text(box(tools), f"{names}value = {value!r}\ntools.see(value=value) == value") == "True"
    assert seen == [value]
    assert type(seen[0]) is type(value)


def test_what_is_like_data_goes_as_data(box):
    source = """
import dataclasses, enum, pathlib
class Color(enum.Enum): RED = "red"
@dataclasses.dataclass
class Point: x: int; y: int
tools.echo(value=[(1, 2), {3}, Color.RED, Point(1, 2), pathlib.Path("a/b"), range(0)][:5])
"""
    assert text(box([ECHO]), source) == "[[1, 2], [3], 'red', {'x': 1, 'y': 2}, 'a/b']"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("object()", "a object cannot be given to a tool; give plain data, or tools.File(path)"),
        ("{1: 2}", "a mapping for a tool has the key 1; keys have to be texts"),
        ("'\\udc80'", "a text for a tool holds half of a surrogate pair, which is no text; give bytes instead"),
        ("deep", "a value for a tool can be nested 28 deep"),
        ("loop", "a value for a tool can be nested 28 deep"),
        ("10**10000", "an integer for a tool has too many digits"),
    ],
)
def test_what_cannot_be_given_is_said_inside_and_costs_nothing(box, given, message):
    sandbox = box([ECHO])
    source = f"""
import tools
deep, loop = [], []
for _ in range(40): deep = [deep]
loop.append(loop)
tools.echo(value={given})
"""
    execution = sandbox.run(source)

    assert (execution.error.type, execution.error.message) == ("ToolError", f"echo: InvalidArguments: {message}")
    assert execution.tool_calls.total == 0
    assert text(sandbox, "tools.echo(value=1)") == "1"


@pytest.mark.parametrize("mib", [0.9, 1.1, 5.9])
def test_large_values_go_there_and_back(box, mib):
    size = int(mib * gb.MiB)
    sandbox = box([ECHO])

    execution = sandbox.run(f"import tools\ndata = bytes(range(256)) * {size // 256}\ntools.echo(value=data) == data")

    assert (execution.error, execution.text) == (None, "True")
    assert list(execution.artifacts) == []
    assert execution.tool_calls.sent_bytes > size


def test_arguments_as_json_have_a_bound_that_files_do_not(box):
    read = Tool("read", lambda file: len(file), parameters={"type": "object", "properties": {"file": {}}})
    sandbox = box([read])

    execution = sandbox.run("import tools\ntools.read(file=bytes(7 << 20))")
    sandbox.run("open('f', 'wb').write(bytes(9 << 20))")

    assert execution.error.message.endswith("bytes of arguments, over 8388608; give tools.File(path)")
    assert sandbox.run("tools.read(file=tools.File('f'))").text == str(9 << 20)


def test_a_file_in_the_workdir_is_given_by_its_bytes(box):
    sizes: Any = []
    tools = [Tool("read", lambda file: sizes.append(len(file)) or file[:2], parameters=ANYTHING)]
    source = """
import os
os.makedirs("a/b"); open("a/b/big.bin", "wb").write(b"xy" * 3_000_000)
os.chdir("a")
tools.read(file=tools.File("b/big.bin"))
"""
    assert text(box(tools), source) == "b'xy'"
    assert sizes == [6_000_000]


def test_a_file_outside_of_the_workdir_is_refused(box):
    execution = box([ECHO]).run("import tools\ntools.echo(value=tools.File('/etc/hostname'))")

    assert (
        "lies outside of the working directory" in execution.error.message
        or execution.error.type == "FileNotFoundError"
    )


@dataclasses.dataclass
class Range:
    begin: datetime.date
    end: datetime.date | None = None


def test_values_arrive_as_the_annotations_say(box):
    seen = []

    def query(period: Range, price: decimal.Decimal, names: list[str] | None = None, blob: bytes = b"") -> Range:
        seen.append((period, price, names, blob))
        return dataclasses.replace(period)

    source = """
import datetime
from decimal import Decimal
first = tools.query({"begin": datetime.date(2026, 1, 2)}, Decimal("1.5"), blob=b"x")
first, tools.query({"begin": "2026-01-02"}, "1.5", ["a"])
"""
    told = text(box([query]), source)

    begin = Range(datetime.date(2026, 1, 2))
    assert seen == [(begin, decimal.Decimal("1.5"), None, b"x"), (begin, decimal.Decimal("1.5"), ["a"], b"")]
    assert told == str(({"begin": datetime.date(2026, 1, 2), "end": None},) * 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("add('1')", "add: InvalidArguments: add: a: '1' is not of type integer"),
        ("add(True)", "add: InvalidArguments: add: a: True is not of type integer"),
        ("add(1.5)", "add: InvalidArguments: add: a: 1.5 is not of type integer"),
        ("add(None)", "add: InvalidArguments: add: a: None is not of type integer"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_place(box, call, message):
    execution = box([add]).run(f"import tools\ntools.{call}")

    assert (execution.error.type, execution.error.message) == ("ToolError", message)
    assert execution.tool_calls.outcomes == {"invalid": 1}


def test_a_wrong_number_of_arguments_is_a_type_error_as_for_any_function(box):
    execution = box([add]).run("import tools\ntools.add(1, 2, 3)")

    assert (execution.error.type, execution.error.message) == ("TypeError", "too many positional arguments")


def test_a_result_that_does_not_fit_is_not_passed_on(box):
    def count() -> int:
        return "many"  # type: ignore[return-value]  # what the test is about

    def frame() -> object:
        return object()

    def price() -> decimal.Decimal:
        return decimal.Decimal("sNaN123")

    sandbox = box([count, frame, price])

    for name in ("count", "frame", "price"):
        execution = sandbox.run(f"import tools\ntools.{name}()")
        told = f"{name}: InvalidResult: {name} returned what its schema or the bridge does not allow"
        assert execution.error.message == told
        assert execution.tool_calls.outcomes == {"unfit": 1}


def test_stubs_have_signatures_and_docstrings(box):
    @tool(name="db.query", approval=False, read_only=True)
    def query(sql: str, limit: int = 10, names: list[str] | None = None) -> list[dict[str, object]]:
        """Ask the database."""
        return []

    sandbox = box([add, query])

    assert text(sandbox, "import inspect; str(inspect.signature(tools.add))") == "'(a: int, b: int = 2) -> int'"
    assert "Add two numbers." in text(sandbox, "tools.add.__doc__")
    assert text(sandbox, "tools.db.query.__module__, tools.db.query.__name__") == "('tools.db', 'query')"
    signature = "'(sql: str, limit: int = 10, names: list | None = None) -> list'"
    assert text(sandbox, "str(inspect.signature(tools.db.query))") == signature
    assert (
        text(sandbox, "import tools.db\nfrom tools.db import query\nfrom tools.aio.db import query\nawait query('x')")
        == "[]"
    )
    assert text(sandbox, "dir(tools), dir(tools.db)") == "(['add', 'db'], ['query'])"
    assert "db.query: Ask the database." in text(sandbox, "tools.__doc__")
    assert "add(a: int, b: int = 2) -> int" in sandbox.run("import tools\nhelp(tools.add)").stdout


def test_the_catalog_finds_and_describes(box):
    tools = [Tool(f"many.tool_{n}", add, description=f"Number {n}.\n" + "x" * 2000) for n in range(300)]
    sandbox = box([*tools, Tool("mail.send", echo, description="Send a message to a person.")])

    assert text(sandbox, "[t['name'] for t in tools.catalog.search('message someone')]") == "['mail.send']"
    assert text(sandbox, "tools.catalog.describe('many.tool_7')['parameters']['required']") == "['a']"
    assert text(sandbox, "len(tools.catalog.names()), tools.many.tool_299(1)") == "(301, 3)"
    execution = sandbox.run("import tools\ntools.catalog.describe('many.tool_777')")
    assert execution.error.message.startswith(
        "many.tool_777: UnknownTool: no tool 'many.tool_777' was granted to this sandbox; there is many.tool_"
    )


def test_state_is_kept_between_runs_and_each_run_counts_anew(box):
    sandbox = box(Tools([add], quotas=ToolQuotas(calls=2)))

    sandbox.run("import tools\nf = tools.add\nf(1); f(2)")
    second = sandbox.run("f(3)")
    third = sandbox.run("f(1); f(2); f(3)")

    assert (second.text, second.tool_calls.total) == ("5", 1)
    assert third.error.message == "add: QuotaExceeded: the run has made its 2 calls"
    assert third.tool_calls.outcomes == {"ok": 2, "quota": 1}


def test_a_tool_may_be_called_so_often_in_a_sandbox(box):
    sandbox = box([Tool("add", add, max_calls=2)])

    sandbox.run("import tools\ntools.add(1)")
    execution = sandbox.run("tools.add(1)\ntools.add(1)")

    assert execution.error.message.endswith("add was called 2 times, which is all there is for this sandbox")


def test_bytes_in_and_out_are_bounded(box):
    quotas = ToolQuotas(sent_bytes=2000, received_bytes=3000, result_bytes=2500)
    give = Tool("give", lambda n: "x" * n, parameters=ANYTHING)
    sandbox = box(Tools([ECHO, give], quotas=quotas))

    sent = sandbox.run("import tools\nfor _ in range(3): tools.echo(value='x' * 900)")
    large = sandbox.run("tools.give(n=2600)")
    received = sandbox.run("for _ in range(3): tools.give(n=2000)")

    assert sent.error.message.endswith("the arguments of the run's calls are over 2000 bytes together")
    assert "and may have 2500" in large.error.message
    assert received.error.message.endswith("the results of the run's calls are over 3000 bytes together")


def test_a_call_has_a_deadline_of_its_own(box):
    forever = threading.Event()

    async def late() -> None:
        await asyncio.Event().wait()

    def stuck() -> None:
        forever.wait()

    sandbox = box([Tool("late", late, deadline_s=0.05), Tool("stuck", stuck, deadline_s=0.05, idempotent=True)])

    first = sandbox.run("import tools\ntools.late()")
    second = sandbox.run("try: tools.stuck()\nexcept tools.ToolError as e: print(e.retryable)")
    forever.set()

    assert first.error.message == "late: ToolTimeout: late did not answer within 0.05 s"
    assert (first.tool_calls.outcomes, second.stdout) == ({"timeout": 1}, "True\n")


def test_the_wall_clock_stands_still_while_the_host_works(box):
    async def slow() -> None:
        await asyncio.sleep(1.5)

    sandbox = box([slow], limits=gb.Limits(wall_s=1))

    execution = sandbox.run("import tools\ntools.slow()")

    assert execution.outcome is gb.Outcome.OK
    assert execution.tool_calls.waited_s >= 1.5


def test_it_does_not_stand_still_for_ever(box):
    async def slow() -> None:
        await asyncio.Event().wait()

    sandbox = box(Tools([slow], quotas=ToolQuotas(waiting_s=0.2)), limits=gb.Limits(wall_s=0.3))

    execution = sandbox.run("import tools\ntools.slow()")

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.tool_calls.outcomes == {"cancelled": 1}


def test_the_processor_clock_does_not_stand_still(box):
    async def slow() -> None:
        await asyncio.Event().wait()

    sandbox = box([slow], limits=gb.Limits(cpu_s=0.5))

    source = "import tools, threading\nthreading.Thread(target=tools.slow, daemon=True).start()\nwhile True: pass"
    execution = sandbox.run(source)

    assert (execution.outcome, "cpu_s" in execution.error.message) == (gb.Outcome.TIMEOUT, True)


def test_an_interrupt_ends_the_wait_and_takes_the_call_back(box):
    cancelled, started = threading.Event(), threading.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    sandbox = box([slow, add])
    sandbox.run("kept = 1")
    interrupter = threading.Thread(target=lambda: started.wait(20) and sandbox.interrupt())
    interrupter.start()

    execution = sandbox.run("import tools\ntools.slow()")
    interrupter.join()

    assert (execution.outcome, execution.state) == (gb.Outcome.CANCELLED, "kept")
    assert cancelled.wait(20)
    assert text(sandbox, "tools.add(kept)") == "3"


def test_a_task_that_is_cancelled_inside_takes_its_call_back(box):
    cancelled = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    source = """
import asyncio
try: await asyncio.wait_for(tools.aio.slow(), 0.05)
except TimeoutError: print("in time")
tools.add(1)
"""
    execution = box([slow, add]).run("import tools\n" + source)

    assert (execution.stdout, execution.text) == ("in time\n", "3")
    assert cancelled.wait(20)


def test_closing_the_sandbox_takes_calls_back():
    cancelled = threading.Event()

    async def work():
        started = asyncio.Event()

        async def slow() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async with gb.AsyncSandbox(profile="bare", tools=[slow]) as box:
            running = asyncio.ensure_future(box.run("import tools\ntools.slow()"))
            await started.wait()
            await box.close()
            return await running

    execution = asyncio.run(work())

    assert execution.state == "ended"
    assert cancelled.is_set()
    assert execution.tool_calls.outcomes == {"cancelled": 1}


def test_cancelling_the_callers_task_takes_calls_back():
    cancelled = asyncio.Event()

    async def work():
        started = asyncio.Event()

        async def slow() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async with gb.AsyncSandbox(profile="bare", tools=[slow]) as box:
            running = asyncio.ensure_future(box.run("import tools\ntools.slow()"))
            await started.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await asyncio.wait_for(cancelled.wait(), 20)

    asyncio.run(work())


def test_children_of_the_program_cannot_call(box):
    source = """
import os, subprocess, sys
tools.add(1)
reader, writer = os.pipe()
if os.fork() == 0:
    try: tools.add(1)
    except tools.ToolError as error: os.write(writer, str(error).encode())
    os._exit(0)
os.wait()
print(os.read(reader, 1000).decode())
print(subprocess.run([sys.executable, "-c", "import tools"], capture_output=True, text=True).stderr.splitlines()[-1])
"""
    execution = box([add]).run("import tools\n" + source)

    assert execution.stdout.splitlines() == [
        "add: Unavailable: tools can be called from the process that runs the program only, not from its children",
        "ModuleNotFoundError: No module named 'tools'",
    ]


def test_a_thread_that_is_left_behind_cannot_call_between_two_runs(box):
    source = """
import threading
go, done = threading.Event(), threading.Event()
def late():
    global told
    go.wait()
    while True:
        try: tools.add(1)
        except tools.ToolError as error: told = str(error); break
    done.set()
threading.Thread(target=late, daemon=True).start()
go.set()
"""
    sandbox = box([add])
    sandbox.run("import tools\n" + source)

    execution = sandbox.run("done.wait()", language="python")

    assert execution.error is None


def test_a_thread_that_is_left_behind_calls_in_the_name_of_the_next_run(box):
    """As docs/tools.md says: they are one process."""
    source = """
import threading
go, done = threading.Event(), threading.Event()
def late():
    go.wait()
    tools.add(1)
    done.set()
threading.Thread(target=late, daemon=True).start()
"""
    sandbox = box([add])
    first = sandbox.run("import tools\n" + source)

    second = sandbox.run("go.set()\ndone.wait(20)")

    assert (first.tool_calls.total, second.tool_calls.total) == (0, 1)


def test_other_languages_have_no_tools(box):
    execution = box([add]).run("ls -l /proc/self/fd | grep -c socket; python3 -c 'import tools'", language="shell")

    assert execution.stdout.splitlines()[:1] == ["0"]
    assert execution.tool_calls is None


def test_two_sandboxes_with_the_same_tools_count_apart(box):
    tools = Tools([Tool("add", add, max_calls=1)])
    one, other = box(tools), box(tools)

    assert text(one, "tools.add(1)") == text(other, "tools.add(1)") == "3"


def test_the_backend_landlock_has_tools_too(box):
    sandbox = box([add], backend="landlock", waive=["uid"])

    assert text(sandbox, "tools.add(1)") == "3"


def test_a_restarted_sandbox_has_its_tools_and_its_counts(box):
    sandbox = box([Tool("add", add, max_calls=2)])
    sandbox.run("import tools\ntools.add(1)")

    sandbox.restart()

    assert text(sandbox, "tools.add(1)") == "3"
    assert sandbox.run("tools.add(1)").error.type == "ToolError"


def test_a_traced_run_calls_too(box):
    execution = box([add]).run("import tools\nx = tools.add(1)\nx", trace=True)

    assert (execution.text, execution.trace.complete) == ("3", True)


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([lambda x: x], "has no name that a guest could call; use Tool(name, function)"),
        ([Tool("a", add), Tool("a", add)], "'a' is there twice"),
        ([Tool("a", add), Tool("a.b", add)], "'a' cannot be a tool and hold 'a.b'"),
    ],
)
def test_tools_that_cannot_be_granted_are_refused(tools, problem):
    with pytest.raises(InvalidArgument, match=problem.replace("(", r"\(").replace(")", r"\)")):
        gb.Sandbox(tools=tools)


def open_sockets_and_traces():
    targets = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            targets.append(os.readlink(f"/proc/self/fd/{each}"))
    return sum(target.startswith(("socket:", "/memfd:groundbox-trace")) for target in targets)


@pytest.mark.parametrize("what", ["the input", "the socket"])
def test_a_run_that_cannot_begin_leaves_nothing_open(box, monkeypatch, what):
    def fail(*args):
        raise OSError("too many open files")

    sandbox = box([add])
    sandbox.run("1")
    before = open_sockets_and_traces()
    if what == "the input":
        monkeypatch.setattr(orders, "sealed", fail)
    else:
        monkeypatch.setattr(Bridge, "session", fail)

    with pytest.raises(OSError, match="too many open files"):
        sandbox.run("1", mode="script", stdin=b"x", trace=True)

    assert open_sockets_and_traces() == before


class Scale:
    """A class, not a tool."""

    async def __call__(self, x: int) -> int:
        """Scale it."""
        return x * 10

    def shift(self, x: int) -> int:
        """Shift it."""
        return x + 10


def test_methods_partial_functions_and_objects_are_tools(box):
    scale = Scale()
    part = Tool("part", functools.partial(add, b=5))
    tools: list[Any] = [scale.shift, Tool("scale", scale), part]

    assert text(box(tools), "tools.shift(1), tools.scale(2), tools.part(3)") == "(11, 20, 8)"
    assert [each.summary for each in Tools(tools)] == ["Shift it.", "Scale it.", "Add two numbers."]


def send(to: str, *, account: str = "x", api_key: str = "") -> str:
    return f"{to} by {account}"


@pytest.mark.parametrize("parameters", [None, ANYTHING])
def test_what_a_partial_has_bound_is_not_told_and_cannot_be_given(box, parameters):
    mail = functools.partial(send, account="alice", api_key="sk-secret")
    made = Tool("mail", mail, parameters=parameters)

    assert "account" not in json.dumps(made.row())
    assert "sk-secret" not in json.dumps(made.row())
    assert text(box([made]), "tools.mail(to='bob')") == "'bob by alice'"
    with pytest.raises(Unfit, match="'account' is not known"):
        made.arguments({"to": "bob", "account": "bob"})


def test_what_a_wrapped_partial_has_bound_cannot_be_given():
    mail = functools.partial(send, account="alice")
    made = Tool("mail", functools.wraps(mail)(lambda **given: mail(**given)), parameters=ANYTHING, returns={})

    with pytest.raises(Unfit, match="'account' is not known"):
        made.arguments({"to": "bob", "account": "bob"})


def test_a_schema_by_hand_lets_only_its_own_names_through():
    def ask(question, as_admin=False): ...

    schema = {"type": "object", "properties": {"question": {"type": "string"}}}
    made = Tool("ask", ask, parameters=schema)

    with pytest.raises(Unfit, match="'as_admin' is not known; there is question"):
        made.arguments({"question": "?", "as_admin": True})
    assert made.row()["parameters"]["additionalProperties"] is False
    open_made = Tool("ask", ask, parameters={**schema, "additionalProperties": True})
    assert open_made.arguments({"question": "?", "as_admin": True}) == {"question": "?", "as_admin": True}


@pytest.mark.parametrize(
    "name", ["", "a b", "1a", "a..b", ".a", "class", "__class__", "_a", "aio", "catalog.x", "ToolError", "a" * 300, "é"]
)
def test_names_that_cannot_be_called_are_refused(name):
    with pytest.raises(InvalidArgument, match="tools: "):
        Tool(name, add)


def test_functions_whose_schema_cannot_be_derived_are_refused():
    def loose(*args): ...

    class Own: ...

    def strange(x: Own): ...

    for function in (loose, strange):
        with pytest.raises(InvalidArgument, match="give parameters=, a JSON Schema"):
            Tool("x", function)


def test_results_are_json(box):
    execution = box([add]).run("import tools\n[tools.add(n) for n in range(80)][-1]")

    calls = json.loads(json.dumps(execution.to_dict()))["tool_calls"]
    assert (calls["total"], len(calls["calls"]), calls["dropped"]) == (80, 50, 30)
