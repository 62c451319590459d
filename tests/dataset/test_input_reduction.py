"""Smaller inputs: they keep the shape and the branches, can be told whole, and are the same every time."""

import asyncio
import dataclasses
import json
from typing import Any

import pytest
from dataset_fakes import FakeRunner, run_here
from test_build import Inline, contents, without_times

from groundbox.dataset import sample_files
from groundbox.dataset.build import Tools, build
from groundbox.dataset.input_reduction import Measure, Search, reductions, root_of, weight
from groundbox.dataset.narration import prove, tell, untold
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.problem import Case, Problem, Provenance, Shrunk, case_from_json, case_to_json
from groundbox.dataset.program_runner import Request

PLACE = Provenance(file="p.jsonl", line=1, format="plain")
COUNT = """def f(xs, limit):
    high = 0
    for x in xs:
        if x > limit:
            high = high + 1
    return high
"""


def searched(source, given, *, others=(), taken=(), most_steps=40, most_runs=40, seed=0):
    """What a search finds, where a run of so many lines can be told."""
    case = Case(number=3, **given)
    problem = Problem(id="p", source=source, statement="", entry="f", cases=(case,), provenance=PLACE)

    def once(case, cpu_s=1.0):
        return run_here(Request(source=source, entry="f", case=case, hash_seed=0, traced=True, cpu_s=cpu_s))

    async def run(case):
        return once(case)

    async def too_long(trace):
        return "long" if trace.counts["line"] > most_steps else ""

    first = once(case)
    search = Search(
        problem=problem,
        case=case,
        measure=Measure.of(first.answer, first.trace),
        others=[Case(number=at, **each) for at, each in enumerate(others)],
        taken={Case(number=0, **each).key() for each in taken},
        run=run,
        untold=too_long,
        most_runs=most_runs,
        seed=seed,
    )
    return asyncio.run(search.found()), search


def test_a_shorter_list_is_found_that_takes_every_branch():
    found, search = searched(COUNT, {"args": ([1, 9, *[2, 8] * 100], 5)})

    best = found[0]
    assert best.origin == "shrunk"
    assert best.shrunk_from.arcs == best.shrunk_from.arcs_kept > 4
    assert best.args[1] == 5
    assert 2 <= len(best.args[0]) < 40
    assert {x > 5 for x in best.args[0]} == {False, True}
    assert search.runs <= 8


def test_a_number_that_a_run_counts_to_gets_smaller():
    found, _ = searched(
        "def f(n):\n    t = 0\n    for i in range(n):\n        t = t + i\n    return t\n", {"args": (900,)}
    )

    assert 1 < found[0].args[0] < 20


def test_a_number_that_says_how_long_a_list_is_goes_with_it():
    source = "def f(n, xs):\n    t = 0\n    for i in range(n):\n        t = t + xs[i]\n    return t\n"

    found, _ = searched(source, {"kwargs": {"n": 64, "xs": list(range(64))}})

    assert found[0].kwargs["n"] == len(found[0].kwargs["xs"]) > 2


def test_the_ends_of_a_range_come_nearer_to_each_other():
    source = "def f(begin, end):\n    t = 0\n    for i in range(begin, end):\n        t = t + i\n    return t\n"

    found, _ = searched(source, {"kwargs": {"begin": 90_000, "end": 90_400}})

    assert 1 < found[0].kwargs["end"] - found[0].kwargs["begin"] < 20


def test_what_would_raise_is_not_taken_for_what_returned():
    source = "def f(xs):\n    t = xs[30]\n    for x in xs:\n        t = t + x\n    return t\n"

    found, _ = searched(source, {"args": (list(range(200)),)}, most_steps=70)

    assert all(31 <= len(case.args[0]) <= 33 for case in found)


def test_records_keep_their_keys_and_a_tree_its_shape():
    source = "def f(t):\n    if t is None:\n        return 0\n    return t['v'] + f(t['l']) + f(t['r'])\n"
    tree: Any = None
    for value in range(40):
        tree = {"v": value, "l": tree, "r": None}

    found, _ = searched(source, {"args": (tree,)})

    assert set(found[0].args[0]) == {"v", "l", "r"}
    assert 0 < weight(found[0].args[0]) < weight(tree)


def test_text_that_holds_json_still_does():
    loop = "for x in s.split('[')[1].split(']')[0].split(','):"
    source = f"def f(s):\n    t = 0\n    {loop}\n        t = t + int(x)\n    return t\n"

    found, _ = searched(source, {"args": (json.dumps({"xs": list(range(40)), "name": "n"}),)}, most_steps=30)

    assert set(json.loads(found[0].args[0])) == {"xs", "name"}


def test_an_argument_of_another_input_may_take_the_place_of_a_larger_one():
    source = (
        "def f(xs, code):\n    if code not in ('abc', 'xyz'):\n        return None\n"
        "    for x in xs:\n        x += 1\n    return x\n"
    )

    found, _ = searched(source, {"args": ([1] * 500, "abc")}, others=[{"args": ([4, 5], "xyz")}])

    assert ([4, 5], "abc") in [case.args for case in found]


def test_inputs_that_are_taken_are_passed_over_and_said_so():
    source = "def f(n):\n    t = 0\n    for i in range(n):\n        t = t + i\n    return t\n"
    all_short = [{"args": (n,)} for n in range(-50, 25)]

    found, search = searched(source, {"args": (900,)}, taken=all_short)

    assert found == []
    assert search.collided


def test_a_run_whose_length_does_not_depend_on_the_input_is_given_up_soon():
    source = "def f(n):\n    t = n\n    for i in range(500):\n        t = t + i\n    return t\n"

    found, search = searched(source, {"args": (10**9,)})

    assert found == []
    assert search.runs <= 8


def test_a_search_makes_no_more_runs_than_it_may():
    found, search = searched(COUNT, {"args": ([1, 9, *[2, 8] * 1000], 5)}, most_runs=3)

    assert search.runs == 3
    assert found == []


def test_the_same_seed_finds_the_same():
    given = {"args": ([7, *[1] * 150, 8], 5)}

    assert searched(COUNT, given)[0] == searched(COUNT, given)[0]


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3], [4, 5, 6, 7]],
        {"a": [1, 2, 3], "b": [4]},
        ("x", 5, 2.5, None, True),
        {3, 4, 5},
        frozenset({"a"}),
        "two words\nand a line",
        '{"broken": [1, 2',
        [[]],
        float("nan"),
        -(10**400),
        b"bytes",
    ],
)
def test_reductions_of_anything_are_no_heavier_and_of_its_types(value):
    root = root_of(Case(number=0, args=(value,), kwargs={"n": 4}))

    for smaller in reductions(root):
        assert weight(smaller) <= weight(root)
        assert type(smaller["args"][0]) is type(value)


def test_a_case_says_in_its_json_what_it_was_shrunk_from():
    shrunk = Shrunk(sha256="ab", origin="given", arcs=7, arcs_kept=6)
    case = Case(number=1, args=([1],), origin="shrunk", shrunk_from=shrunk)

    assert case_from_json(json.loads(json.dumps(case_to_json(case)))) == case


def built(out, options, runner=None):
    """A build with the real narrator and prover."""
    tools = Tools(runner=runner or FakeRunner(), executor=Inline(2), narrator=tell, prover=prove)
    return asyncio.run(build(options, out, tools))


def problems(tmp_path, sizes):
    path = tmp_path / "long.jsonl"
    cases: list[dict[str, Any]] = [{"args": [[n % 7 for n in range(size)], 3], "expected": 0} for size in sizes]
    for case in cases:
        case["expected"] = sum(x > 3 for x in case["args"][0])
    path.write_text(json.dumps({"source": COUNT, "entry": "f", "statement": "Counts.", "cases": cases}) + "\n")
    return path


def test_a_build_has_smaller_inputs_for_long_runs_no_two_alike_and_counts_them(tmp_path):
    options = BuildOptions(problems=(problems(tmp_path, [5, 400, 401, 402]),), max_chars=2500)

    report = built(tmp_path / "out", options)

    samples = list(sample_files.read_samples(tmp_path / "out" / "samples.parquet"))
    inputs = {each.item: json.loads(each.case) for each in samples}
    shrunk = [each["shrunk_from"] for each in inputs.values() if "shrunk_from" in each]
    assert report["kept"] == len({json.dumps(each["args"]) for each in inputs.values()}) == 4
    assert [each["arcs"] - each["arcs_kept"] for each in shrunk] == [0, 0, 0]
    assert report["smaller"]["sought"] == report["smaller"]["found"] == report["smaller"]["kept"] == 3
    assert report["smaller"]["why"] == {"long": 3}
    assert {each.detail for each in samples} == {"normal"}


def test_a_run_without_a_smaller_input_is_dropped_and_without_a_search_it_is_told_in_part(tmp_path):
    source = "def f(n):\n    t = n\n    for i in range(300):\n        t = t + i\n    return t\n"
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"source": source, "entry": "f", "cases": [{"args": [5]}]}) + "\n")

    strict = built(tmp_path / "strict", BuildOptions(problems=(path,)))
    lax = built(tmp_path / "lax", BuildOptions(problems=(path,), smaller_runs=0))

    assert (strict["kept"], strict["dropped"]) == (0, {"not-told-whole": 1})
    assert lax["smaller"]["sought"] == 0
    assert lax["dropped"].get("not-told-whole") is None


def test_the_same_bytes_with_smaller_inputs_whatever_the_order_of_runs(tmp_path):
    options = BuildOptions(problems=(problems(tmp_path, [300, 310, 320, 4]),), max_chars=2500)

    built(tmp_path / "one", options)
    built(tmp_path / "two", options, runner=FakeRunner(pause_s=0.002))

    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert without_times(tmp_path / "one") == without_times(tmp_path / "two")


def test_a_run_is_told_whole_or_it_is_said_why_not():
    case = Case(number=0, args=([1, 9, 4], 5))
    request = Request(source=COUNT, entry="f", case=case, hash_seed=0, traced=True, cpu_s=1.0)
    trace = run_here(request).trace
    long = run_here(dataclasses.replace(request, case=Case(number=0, args=([1] * 2000, 5)))).trace

    assert untold(trace, style="prose", seed=0, max_chars=12_000) == ""
    assert untold(trace, style="prose", seed=0, max_chars=200) == "long"
    assert untold(long, style="prose", seed=0, max_chars=12_000) == "long"
    assert tell(trace, style="prose", seed=0, max_chars=12_000).whole


def test_a_search_among_few_possible_inputs_ends():
    source = "def f(n):\n    for i in range(n):\n        if i > 100:\n            return i\n    return n\n"

    found, search = searched(source, {"args": (102,)}, most_steps=10)

    assert found[0].args[0] < 6
    assert search.runs <= 40


def test_a_problem_whose_first_items_have_no_smaller_input_is_not_looked_at_for_ever(tmp_path):
    source = "def f(n):\n    t = n\n    for i in range(300):\n        t = t + i\n    return t\n"
    path = tmp_path / "p.jsonl"
    cases = [{"args": [10**6 + n]} for n in range(8)]
    path.write_text(json.dumps({"source": source, "entry": "f", "cases": cases}) + "\n")

    report = built(tmp_path / "out", BuildOptions(problems=(path,)))

    assert report["dropped"] == {"not-told-whole": 8}
    assert report["smaller"]["sought"] == 8
    assert report["smaller"]["runs"] <= 2 * 8 + 2 * 6
