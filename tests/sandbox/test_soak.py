"""Many runs, good and bad, at once; afterwards this host is as it was before.

GROUNDBOX_SOAK_RUNS says how many runs the long version makes; the short one makes SHORT.
"""

import asyncio
import gc
import os
import random
import resource

import pytest

from groundbox import AsyncSandbox, GroundboxError, Limits, MiB, Outcome
from groundbox.sandbox import engine as engines

SHORT = 60
LONG = int(os.environ.get("GROUNDBOX_SOAK_RUNS", "300"))
LIMITS = Limits(wall_s=1.0, memory_bytes=96 * MiB, process_count=20, disk_bytes=8 * MiB, output_bytes=65536)

GOOD = [
    "6 * 7",
    "print('x' * 1000)",
    "open('a', 'w').write('x' * 1000)",
    "import subprocess; r = subprocess.run(['echo', 'x'])",
]
BROKEN = ["1 / 0", "def f(:", "import nowhere", "raise SystemExit(3)", "import os; os._exit(5)"]
HOSTILE = [
    "while True: pass",
    "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "held = []\nwhile True: held.append(bytes(1 << 20))",
    "import os\nwhile True: os.write(1, b'x' * 65536)",
    "import ctypes; ctypes.string_at(0)",
    "import os, signal\nos.kill(0, signal.SIGKILL)",
    "open('a', 'wb').write(bytes(64 << 20))",
    "import os\nfor i in range(10**6): os.mkfifo(str(i))",
    "import ctypes; libc = ctypes.CDLL(None); print([libc.shmget(0, 1 << 20, 0o1600) for _ in range(20)])",
    "import os\nos.closerange(0, 100)",
    "import socket, os\nsocket.socket(fileno=os.dup(4)).sendall(b'\\xff' * 100)\nimport time; time.sleep(9)",
    "import subprocess\nfor _ in range(5): subprocess.Popen(['sleep', '600'], start_new_session=True)",
]


class Traces:
    """What a sandbox could leave on the host, as counts that can be compared."""

    def __init__(self):
        gc.collect()
        self.mounts = _lines("/proc/self/mountinfo")
        self.segments = _lines("/proc/sysvipc/shm")
        self.queues = _lines("/proc/sysvipc/msg")
        self.shared = sorted(os.listdir("/dev/shm"))
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.children = _children()

    def more_than(self, before):
        """What there is more of now. Less is no loss: pools of other tests of this process may have shrunk."""
        now, then = vars(self), vars(before)
        return {name: (then[name], now[name]) for name in now if now[name] != then[name] and not now[name] < then[name]}


def _lines(path):
    with open(path) as file:
        return len(file.readlines())


def _children():
    return sum(_words(f"/proc/self/task/{task}/children") for task in os.listdir("/proc/self/task"))


def _words(path):
    with open(path) as file:
        return len(file.read().split())


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _soak(count, at_once, seed):
    choice = random.Random(seed)
    slots = asyncio.Semaphore(at_once)
    outcomes, resident = {}, []

    async def one(number):
        kind = choice.choices([GOOD, BROKEN, HOSTILE], [6, 3, 1])[0]
        async with slots:
            async with AsyncSandbox(profile="bare", limits=LIMITS) as box:
                try:
                    execution = await box.run(choice.choice(kind), mode=choice.choice(["cell", "script"]))
                    said: str = execution.outcome
                    assert kind is not GOOD or said is Outcome.OK, execution
                except GroundboxError as error:
                    if kind is not HOSTILE:
                        raise
                    said = type(error).__name__
            outcomes[said] = outcomes.get(said, 0) + 1
            if number % 10 == 0:
                resident.append(_resident())

    await asyncio.gather(*(one(number) for number in range(count)))
    (await engines.current()).close()
    return outcomes, resident


def _run(count):
    asyncio.run(_soak(8, 4, seed=1))  # what is made once and kept
    before = Traces()

    outcomes, resident = asyncio.run(_soak(count, 8, seed=2))

    assert Traces().more_than(before) == {}
    assert sum(outcomes.values()) == count
    half = len(resident) // 2
    early, late = sum(resident[:half]) / half, sum(resident[half:]) / (len(resident) - half)
    assert late - early < 32 * MiB


def test_a_few_runs_leave_nothing_behind():
    _run(SHORT)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_runs_leave_nothing_behind():
    _run(LONG)


@pytest.fixture
def many_descriptors():
    """A thousand sandboxes take five each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = 8192
    if hard != resource.RLIM_INFINITY and hard < enough:
        pytest.skip(f"this process may have {hard} descriptors, and needs {enough}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_sandboxes_are_alive_at_once(many_descriptors):
    async def scenario():
        boxes = [AsyncSandbox(profile="bare") for _ in range(1000)]
        for start in range(0, 1000, 50):
            await asyncio.gather(
                *(box.run(f"mine = {number}") for number, box in enumerate(boxes[start : start + 50], start))
            )
        said = [(await box.run("mine")).text for box in boxes]
        await asyncio.gather(*(box.close() for box in boxes))
        return said

    before = Traces()
    said = asyncio.run(scenario())

    assert said == [str(number) for number in range(1000)]
    after = Traces()
    assert after.children <= before.children + 3  # the template of this engine's profile and what it waits with
    assert after.mounts == before.mounts
