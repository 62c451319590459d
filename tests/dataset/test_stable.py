"""Programs whose runs may differ, judged in real sandboxes as `--stable-only` judges them."""

import json
import subprocess
import sys

import pytest

from groundbox.dataset.item_runs import RunLimits, run
from groundbox.dataset.problem import Case, Problem, Provenance
from groundbox.dataset.program_runner import FILL, Request, SandboxRunner
from groundbox.sandbox.portal import PORTAL

PLACE = Provenance(file="p.jsonl", line=1, format="plain")
IF_RARE = "    return 'seldom' if {} else x\n"


def verdict(source, *, entry="f", stable_only=True):
    """The reason for which an item is dropped, or None."""
    problem = Problem(id="p", source=source, statement="", entry=entry, cases=(), provenance=PLACE)
    case = Case(number=0, args=(1,)) if entry else Case(number=0, stdin="1\n")

    async def judged():
        runner = SandboxRunner(at_once=1)
        return await run(problem, case, runner, RunLimits(stable_only=stable_only))

    item, _ = PORTAL.call(judged())  # its loop keeps the templates of all tests
    return item.drop and item.drop.reason


def seldom(module, condition):
    """A program that draws each time, and on which that tells once in ages."""
    return f"import {module}\ndef f(x):\n{IF_RARE.format(condition)}"


SELDOM = {
    "random": (seldom("random", "random.random() < 1e-12"), "draws-random-numbers"),
    "random shuffled and sorted": (
        "import random\ndef f(x):\n    y = [1, 2, 3]\n    random.shuffle(y)\n    return sorted(y)\n",
        "draws-random-numbers",
    ),
    "drawn before it is seeded": (
        "import random\ndef f(x):\n    random.random()\n    random.seed(5)\n    return random.random()\n",
        "draws-random-numbers",
    ),
    "seeded from nothing": (seldom("random", "random.seed() or random.random() < 1e-12"), "draws-random-numbers"),
    "its state as it was": (
        "import random\ndef f(x):\n    random.setstate(random.getstate())\n    return random.random() < 2\n",
        "draws-random-numbers",
    ),
    "Random()": (seldom("random", "random.Random().random() < 1e-12"), "draws-random-numbers"),
    "numpy.random": (seldom("numpy", "numpy.random.rand() < 1e-12"), "draws-random-numbers"),
    "default_rng()": (seldom("numpy", "numpy.random.default_rng().random() < 1e-12"), "draws-random-numbers"),
    "RandomState()": (seldom("numpy", "numpy.random.RandomState().rand() < 1e-12"), "draws-random-numbers"),
    "os.urandom": (seldom("os", "os.urandom(9) == bytes(9)"), "draws-random-numbers"),
    "secrets": (seldom("secrets", "secrets.randbelow(10**12) == 0"), "draws-random-numbers"),
    "uuid4": (seldom("uuid", "uuid.uuid4().int < 9"), "draws-random-numbers"),
    "what tells of it broken": (
        "import random, sys\ndef f(x):\n    sys.modules['groundbox.guest.python.chance'] = None\n"
        "    return 'seldom' if random.random() < 1e-12 else x\n",
        "draws-random-numbers",
    ),
    "time": (seldom("time", "time.time() < 9"), "reads-the-clock"),
    "perf_counter": (seldom("time", "time.perf_counter() < 0"), "reads-the-clock"),
    "datetime.now": (seldom("datetime", "datetime.datetime.now().year < 9"), "reads-the-clock"),
    "date.today": (seldom("datetime", "datetime.date.today().year < 9"), "reads-the-clock"),
    "strftime": (seldom("time", "time.strftime('%Y') == '0009'"), "reads-the-clock"),
}
"""Two runs of these are alike, with what is found in them."""


@pytest.mark.parametrize(("source", "reason"), SELDOM.values(), ids=list(SELDOM))
def test_what_draws_on_chance_or_the_clock_is_dropped_however_seldom_that_tells(source, reason):
    assert (verdict(source), verdict(source, stable_only=False)) == (reason, None)


@pytest.mark.parametrize(
    "source",
    [
        "import random\ndef f(x):\n    random.seed(5)\n    return random.random()\n",
        "import random\nrandom.seed('five')\ndef f(x):\n    return random.sample(range(9), 3)\n",
        "import random\ndef f(x):\n    return random.Random(x).random()\n",
        "import numpy as np\ndef f(x):\n    np.random.seed(x)\n    return float(np.random.rand())\n",
        "import numpy as np\ndef f(x):\n    return float(np.random.default_rng(x).random())\n",
        "import numpy as np\ndef f(x):\n    y = np.random.RandomState(x)\n    return [y.get_state()[0], y.rand()]\n",
        "import random, numpy, secrets, uuid, time, datetime, os\ndef f(x):\n    return x\n",
        "import time, datetime\ndef f(x):\n    return [time.ctime(x), str(datetime.date(2020, 1, x))]\n",
        "import logging\ndef f(x):\n    logging.warning('at %s', x)\n    return x\n",
        "import numpy as np\ndef f(x):\n    y = np.array([x, x])\n    y[:] = 3\n    return y.tolist()\n",
        "import numpy as np\ndef f(x):\n    return np.zeros(3).tolist() + [float(np.zeros(300_000).sum())]\n",
    ],
    ids=[
        "seed",
        "seed of a text",
        "Random(x)",
        "numpy seed",
        "default_rng(x)",
        "RandomState(x)",
        "imports",
        "times",
        "log",
        "full",
        "zeros",
    ],
)
def test_what_gives_the_same_each_time_is_kept(source):
    assert verdict(source) is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import numpy as np\ndef f(x):\n    return np.empty(3).tolist()\n", "nondeterministic-output"),
        (
            "import numpy as np\ndef f(x):\n    y = np.ones(3)\n    del y\n    return np.empty(3).tolist()\n",
            "nondeterministic-output",
        ),
        ("import numpy as np\ndef f(x):\n    return float(np.empty(10**5).sum())\n", "nondeterministic-output"),
        ("def f(x):\n    return id(f)\n", "nondeterministic-output"),
        ("def f(x):\n    return list({'a', 'b', 'c', 'd', 'e', 'f'})\n", "nondeterministic-output"),
        (
            "def f(x):\n    n = 0\n    for y in {'a', 'b', 'c', 'd', 'e', 'f'}:\n        n += 1\n    return n\n",
            "nondeterministic-trace",
        ),
    ],
    ids=["empty", "empty after a full one", "large and empty", "id", "set", "loop over a set"],
)
def test_what_differs_is_dropped(source, reason):
    assert verdict(source) == reason


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import random\nprint(random.random() < 2)\n", "draws-random-numbers"),
        ("import random\nrandom.seed(int(input()))\nprint(random.random())\n", None),
        ("import time, os\nprint(time.time() > 9, flush=True)\nos._exit(0)\n", "reads-the-clock"),
        ("import numpy as np\nprint(np.empty(2))\n", "nondeterministic-output"),
        ("import random\nrandom.random()\nraise ValueError('no')\n", "draws-random-numbers"),
    ],
)
def test_scripts_are_judged_by_the_same(source, reason):
    assert verdict(source, entry=None) == reason


def test_memory_that_nobody_has_written_to_holds_one_byte_in_a_probed_run():
    source = (
        "import numpy as np\ndef f(x):\n    return [sorted(set(np.empty(n).tobytes())) for n in (1, 3, 200, 10**5)]\n"
    )
    case = Case(number=0, args=(1,))
    request = Request(source=source, entry="f", case=case, hash_seed=0, traced=False, cpu_s=5.0, probed=True)

    async def ran():
        return await SandboxRunner(at_once=1).run(request)

    answer = PORTAL.call(ran()).answer

    assert answer.value == {"list": [{"list": [FILL]}] * 4}


def test_a_dataset_of_stable_programs_has_the_same_bytes_when_it_is_built_again(tmp_path):
    sources = {
        "seldom": SELDOM["random"][0],
        "empty": "import numpy as np\ndef f(x):\n    y = np.empty(2)\n    return bool(y[0] == 1) or x\n",
        "clock": SELDOM["date.today"][0],
        "seeded": "import random\ndef f(x):\n    random.seed(x)\n    y = random.randint(1, 9)\n    return x * 10 + y\n",
        "plain": "def f(x):\n    y = x * 2\n    if y > 3:\n        y = y - 1\n    return y\n",
    }
    lines = [
        {
            "source": source,
            "entry": "f",
            "statement": name,
            "cases": [{"args": [n]} for n in (1, 2, 3)],
            "licence": "MIT",
        }
        for name, source in sources.items()
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def built(name):
        command = [sys.executable, "-m", "groundbox", "dataset", "build", "--stable-only", "--near-duplicate", "1"]
        places = ["--problems", str(tmp_path / "p.jsonl"), "--out", str(tmp_path / name)]
        subprocess.run([*command, *places], check=True, capture_output=True)
        return [(tmp_path / name / file).read_bytes() for file in ("samples.parquet", "sft.jsonl")]

    first, second = built("one"), built("two")

    drops = [json.loads(line) for line in (tmp_path / "one" / "dropped.jsonl").read_text().splitlines()]
    assert first == second
    assert {(each["problem"], each["reason"]) for each in drops} == {
        ("p.jsonl:1", "draws-random-numbers"),
        ("p.jsonl:2", "nondeterministic-trace"),
        ("p.jsonl:3", "reads-the-clock"),
    }
