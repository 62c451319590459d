"""Made inputs: they fit, they show different things, and they are the same every time."""

import asyncio
import dataclasses
import random

import pytest
from dataset_fakes import FakeRunner

from groundbox.dataset import input_generation
from groundbox.dataset.item_runs import RunLimits
from groundbox.dataset.problem import Case, Problem, Provenance
from groundbox.dataset.program_runner import SandboxRunner
from groundbox.values import literals

PLACE = Provenance(file="p.jsonl", line=1, format="plain")
LIMITS = RunLimits(cpu_s=1.0, traced_cpu_s=1.0)
BRANCHES = """def f(n: int, word: str = "ab"):
    if n < 0:
        return "less"
    if n % 2:
        return "odd"
    if word == word[::-1]:
        return "same"
    return "other"
"""


def made(source, most=6, seed=0):
    problem = Problem(id="p", source=source, statement="", entry="f", cases=(), provenance=PLACE)
    return cases_of(problem, FakeRunner(), most, seed)


def cases_of(problem, runner, most, seed=0, most_steps=1000, longer=True):
    kept, drops = asyncio.run(
        input_generation.make(
            problem, runner, most=most, seed=seed, limits=LIMITS, most_steps=most_steps, longer=longer
        )
    )
    return [each.case for each in kept], drops


class ChanceRunner(FakeRunner):
    """Runs of even numbers draw, and then show whatever comes next."""

    def __init__(self, luck):
        super().__init__()
        self.luck = luck

    async def run(self, request):
        ran = await super().run(request)
        drawn = request.case.kwargs.get("n", 1) % 2 == 0
        if drawn and request.traced:
            answer = dataclasses.replace(ran.answer, value=self.luck)
            ran = dataclasses.replace(ran, answer=answer)
        return dataclasses.replace(ran, drawn=("random",) if drawn and request.probed else ())


def with_luck(source, luck, stable):
    problem = Problem(id="p", source=source, statement="", entry="f", cases=(), provenance=PLACE)
    wanted = input_generation.make(
        problem,
        ChanceRunner(luck),
        most=6,
        seed=0,
        limits=dataclasses.replace(LIMITS, stable_only=stable),
        most_steps=1000,
    )
    kept, drops = asyncio.run(wanted)
    return [each.case.kwargs["n"] for each in kept], [(each.reason, each.detail) for each in drops]


def test_inputs_whose_runs_draw_do_not_decide_which_others_are_made_for_a_stable_dataset():
    source = "def f(n: int):\n    return n * 3 % 11\n"

    one, other = (with_luck(source, luck, stable=True) for luck in (1, 3))

    assert one == other
    assert [n % 2 for n in one[0]] == [1] * len(one[0]) != []
    assert with_luck(source, 1, stable=False) != with_luck(source, 3, stable=False)


def test_a_problem_whose_every_run_draws_is_dropped_for_that():
    problem = Problem(
        id="p", source="def f(n: int):\n    return n\n", statement="", entry="f", cases=(), provenance=PLACE
    )
    runner = FakeRunner(lambda request, ran: dataclasses.replace(ran, drawn=("clock",) if request.probed else ()))

    found = asyncio.run(
        input_generation.make(
            problem, runner, most=6, seed=0, limits=dataclasses.replace(LIMITS, stable_only=True), most_steps=1000
        )
    )

    assert (found[0], [each.reason for each in found[1]], runner.runs) == ([], ["reads-the-clock"], 4)


def results(source, cases):
    namespace = {}
    exec(source, namespace)
    return [namespace["f"](*case.args, **case.kwargs) for case in cases]


def test_inputs_reach_every_branch_and_each_shows_something_new():
    cases, drops = made(BRANCHES)

    assert drops == []
    assert sorted(results(BRANCHES, cases)) == ["less", "odd", "other", "same"]
    assert [case.number for case in cases] == [0, 1, 2, 3]


def test_the_same_seed_makes_the_same_inputs():
    assert made(BRANCHES) == made(BRANCHES)
    assert made(BRANCHES, seed=1) != made(BRANCHES)


def test_examples_in_the_docstring_come_first():
    source = (
        'def f(x, y):\n    """Joins.\n\n    >>> ys = ["b"]\n    >>> f("a", ["b"])\n    1\n    """\n    return [x, *y]\n'
    )

    cases, _ = made(source)

    assert cases[0] == Case(number=0, args=("a", ["b"]), origin="example")
    assert {case.origin for case in cases[1:]} <= {"annotation", "mutation"}


def test_a_function_without_parameters_has_one_input():
    cases, _ = made("def f():\n    return 5\n")

    assert cases == [Case(number=0, origin="default")]


def test_one_input_of_each_exception_is_kept():
    cases, _ = made("def f(n: int):\n    if n % 3 == 0:\n        raise ValueError(n)\n    return 'fine'\n")

    values = [case.kwargs["n"] for case in cases]
    assert sorted(value % 3 == 0 for value in values) == [False, True]


@pytest.mark.parametrize("source", ["f = len\n", "def f(x):\n    return x.nothing\n"])
def test_a_problem_without_inputs_is_dropped_with_its_reason(source):
    cases, (drop,) = made(source)

    assert cases == []
    assert (drop.item, drop.stage, drop.reason) == ("p", "inputs", "no-inputs")


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("int", int),
        ("'str'", str),
        ("float", float),
        ("bool", bool),
        ("bytes", bytes),
        ("list[int]", list),
        ("List[List[str]]", list),
        ("tuple[int, str]", tuple),
        ("dict[str, float]", dict),
        ("set[int]", set),
        ("typing.Sequence[int]", list),
        ("int | None", (int, type(None))),
        ("Optional[str]", (str, type(None))),
    ],
)
def test_values_have_the_annotated_type(annotation, kind):
    found = input_generation.of_annotation(annotation, random.Random(3))

    assert isinstance(found, kind)


@pytest.mark.parametrize("seed", range(20))
def test_a_changed_case_is_still_data(seed):
    rng = random.Random(seed)
    case = Case(number=0, args=([1, "a"], (1.5, True), {"k": [2]}), kwargs={"s": "text", "n": 3, "e": []})

    for _ in range(30):
        case = input_generation.mutated(case, rng)

    assert literals.decode(literals.encode([list(case.args), dict(case.kwargs)])) == [
        list(case.args),
        dict(case.kwargs),
    ]
    assert case.kwargs.keys() == {"s", "n", "e"}


GENERATED = "import math\n\ndef f(n, word):\n    if n > 5:\n        return word * 2\n    return math.floor(n)\n"
SEEDED = "def generate_inputs(rng: Random) -> dict:\n    return {'n': rng.randint(0, 9), 'word': rng.choice('ab')}\n"


def generated(generator, most=4, seed=0, runner=None):
    problem = Problem(
        id="p", source=GENERATED, statement="", entry="f", cases=(), provenance=PLACE, generator=generator
    )
    return cases_of(problem, runner or FakeRunner(), most, seed)


def test_a_generator_is_asked_for_a_row_of_inputs_in_one_run():
    asked = []

    def heard(request, ran):
        asked.append(request.entry)
        return ran

    cases, _ = generated(SEEDED, most=6, runner=FakeRunner(heard))

    assert len(cases) == 6
    assert asked[:3] == ["groundbox_inputs"] * 3  # twice, to see that it repeats, and the first row
    assert asked.count("groundbox_inputs") < 6


@pytest.mark.parametrize(
    ("most_steps", "longer", "short", "count"), [(20, True, 6, 6), (20, False, 6, 6), (4, True, 1, 6), (4, False, 1, 1)]
)
def test_inputs_of_long_runs_make_up_what_is_missing(most_steps, longer, short, count):
    source = "def f(n):\n    t = 0\n    for i in range(n):\n        t += i\n    return t\n"
    generator = "def generate_inputs(rng):\n    return {'n': rng.randint(0, 14)}\n"
    problem = Problem(
        id="p", source=source, statement="", entry="f", cases=(), provenance=PLACE, generator=generator
    )  # fmt: skip

    cases, _ = cases_of(problem, FakeRunner(), 6, most_steps=most_steps, longer=longer)

    assert [case.number for case in cases] == list(range(count))
    assert [2 * case.kwargs["n"] + 3 <= most_steps for case in cases] == [at < short for at in range(count)]


def test_runs_are_kept_as_long_as_they_are_small_together(monkeypatch):
    problem = Problem(id="p", source=BRANCHES, statement="", entry="f", cases=(), provenance=PLACE)

    def kept():
        made, _ = asyncio.run(
            input_generation.make(problem, FakeRunner(), most=3, seed=0, limits=LIMITS, most_steps=100)
        )
        return [each.case for each in made], [each.ran is not None for each in made]

    cases, runs = kept()
    monkeypatch.setattr(input_generation, "_MOST_RECORDS", 9)

    assert runs == [True] * 3
    assert kept() == (cases, [True, False, False])


def test_a_generator_gives_the_inputs_and_none_is_changed():
    cases, drops = generated(SEEDED)

    assert drops == []
    assert len(cases) == 4
    assert {case.origin for case in cases} == {"generated"}
    assert all(0 <= case.kwargs["n"] <= 9 and case.kwargs["word"] in "ab" for case in cases)
    assert generated(SEEDED) == (cases, [])
    assert generated(SEEDED, seed=1)[0] != cases


def test_a_generator_that_fails_for_some_seeds_is_used_with_others():
    cases, drops = generated(SEEDED.replace("rng.randint(0, 9)", "10 // rng.randint(0, 2)"))

    assert drops == []
    assert {case.kwargs["n"] for case in cases} == {5, 10}


def test_a_generator_runs_in_a_sandbox_after_its_program():
    problem = Problem(
        id="p", source=GENERATED, statement="", entry="f", cases=(), provenance=PLACE,
        generator=SEEDED.replace("'word'", "math.pi and 'word'"),
    )  # fmt: skip

    cases, drops = cases_of(problem, SandboxRunner(at_once=1), most=2)

    assert (len(cases), drops) == (2, [])


@pytest.mark.parametrize(
    ("generator", "why"),
    [
        ("def generate_inputs(rng):\n    return 1 / 0\n", "its generator raises ZeroDivisionError"),
        ("def other(rng):\n    return {}\n", "its generator raises NameError"),
        ("def generate_inputs(rng):\n    return object()\n", "its generator gives no arguments that are data"),
        ("def generate_inputs(rng):\n    return [1, 2]\n", "its generator gives no arguments that are data"),
        (
            "import itertools\ncount = __import__('os').__dict__.setdefault('count', itertools.count())\n"
            "def generate_inputs(rng):\n    return {'n': next(count), 'word': ''}\n",
            "its generator gives other inputs from the same seed",
        ),
    ],
)
def test_a_generator_of_no_use_is_told(generator, why):
    cases, (drop,) = generated(generator)

    assert (cases, drop.reason, drop.detail) == ([], "no-inputs", why)
