"""The pure stages: parse, compare, quality, duplicates, contamination, split."""

import dataclasses
import json

import pytest
from dataset_fakes import run_here, tell

from groundbox.dataset import deduplication
from groundbox.dataset.deduplication import Benchmarks, Document
from groundbox.dataset.item import Answer, Fault, Item, Traced
from groundbox.dataset.item_runs import compare
from groundbox.dataset.narration import narrate
from groundbox.dataset.problem import Case, Problem, Provenance
from groundbox.dataset.problems.reading import parse
from groundbox.dataset.program_runner import Request
from groundbox.dataset.selection import Shares, Taste, judge, outside, split

TRACED = Traced(sha256="0", records=9, steps=5, folded=False, stable=True, lines=(1, 2))


def problem(source="def f(x):\n    return x\n", cases=(), **more):
    place = Provenance(file="p.jsonl", line=1, format="plain")
    given = {"id": "p", "statement": "", "entry": "f", "provenance": place, **more}
    return Problem(source=source, cases=tuple(cases), **given)


def item(value=None, text="", stdout="", fault=None, number=0, traced=TRACED, expected=None, **case):
    answer = Answer(value=value, text=text or repr(value), stdout=stdout, fault=fault)
    given = Case(number=number, **({} if expected is None else {"expected": expected}), **case)
    return Item(id=f"p/{number}", problem="p", case=given, answer=answer, traced=traced, runnable=True)


def reasons(items):
    return [each.drop and each.drop.reason for each in items]


def test_an_input_that_was_there_already_is_dropped_by_name():
    cases = [Case(number=n, args=(value,)) for n, value in enumerate([1, 2, 1, 1.0])]

    *drops, kept = sorted(parse([problem(cases=cases)]), key=lambda each: isinstance(each, Problem))

    assert [case.number for case in kept.cases] == [0, 1, 3]
    assert [(each.item, each.reason, each.detail) for each in drops] == [
        ("p/2", "duplicate-input", "the same as case 0")
    ]


def test_cases_over_the_limit_are_dropped_by_name():
    cases = [Case(number=n, args=(n,)) for n in range(3)]

    found = list(parse([problem(cases=cases)], most_cases=2))

    assert [getattr(each, "reason", None) or len(each.cases) for each in found] == ["over-the-case-limit", 2]


def test_problems_of_one_name_get_names_of_their_own():
    found = parse([problem(), problem(), problem(id="p#2")])

    assert [each.id for each in found] == ["p", "p#2", "p#2#2"]


def test_a_text_that_cannot_be_written_drops_every_case_of_its_problem():
    bad = problem(source="x = '\ud800'", cases=[Case(number=0), Case(number=1, stdin="a")])

    assert [(each.item, each.reason) for each in parse([bad])] == [("p/0", "bad-line"), ("p/1", "bad-line")]


def test_an_answer_like_the_recorded_one_passes():
    found = compare(item(value={"tuple": [1, {"float": "nan"}]}, expected=[1, float("nan")]))

    assert found.drop is None


def test_another_answer_than_the_recorded_one_is_dropped_with_both():
    found = compare(item(value={"list": [1, 2]}, text="[1, 2]", expected=[1, 3]))

    assert found.drop is not None
    assert (found.drop.reason, found.drop.facts) == (
        "recorded-output-mismatch",
        {"recorded": "[1, 3]", "found": "[1, 2]"},
    )


def test_an_exception_in_place_of_the_recorded_answer_is_dropped_with_both():
    found = compare(item(fault=Fault(type="KeyError", message="'a'", line=3), expected=[1, 3]))

    assert found.drop is not None
    assert (found.drop.reason, found.drop.facts["found"]) == ("raised-instead-of-recorded-output", "KeyError: 'a'")


def test_constant_answers_teach_nothing():
    found = judge(problem(), [item(value=7, number=n) for n in range(3)], Taste())

    assert reasons(found) == ["constant-output"] * 3


def test_two_items_are_too_few_to_call_an_answer_constant():
    assert reasons(judge(problem(), [item(value=7, number=n) for n in range(2)], Taste())) == [None, None]


def test_the_commonest_answer_gets_no_more_than_its_share():
    items = [item(value=n == 4, number=n) for n in range(10)]

    found = judge(problem(), items, Taste(most_same=0.8))

    assert reasons(found) == [None] * 5 + ["few-distinct-outputs"] * 5


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (item(value=None, text="None"), "trivial-output"),
        (item(value={"opaque": "x"}, text=""), "output-not-a-literal"),
        (item(value="x" * 3000), "long-output"),
        (item(value=1, traced=dataclasses.replace(TRACED, steps=10_001)), "long-trace"),
        (item(value=1, traced=dataclasses.replace(TRACED, steps=10_000)), None),
        (item(value=None, stdout="printed"), None),
        (item(fault=Fault(type="KeyError", message="", line=1)), None),
    ],
)
def test_items_are_judged_alone(found, reason):
    if found.answer is not None and reason == "output-not-a-literal":
        found = dataclasses.replace(found, answer=dataclasses.replace(found.answer, text=""))

    assert reasons(judge(problem(), [found], Taste())) == [reason]


@pytest.mark.parametrize(
    ("source", "reaches"),
    [
        ("import os\nos.remove('x')", "os.remove"),
        ("import subprocess", "subprocess"),
        ("from os import fork", "os.fork"),
        ("open('x')", "open"),
        ("import sys\nsys.settrace(None)", "sys.settrace"),
        ("import os.path\nos.path.join('a', 'b')", ""),
        ("import math, sys\nprint(sys.maxsize)", ""),
    ],
)
def test_programs_that_reach_outside_themselves_are_known(source, reaches):
    assert outside(source) == reaches


PROGRAM = """
def total(values, limit):
    found = 0
    for value in values:
        if value > limit:
            found += value
        else:
            found -= limit
    return [found, len(values)]
"""


def test_renamed_and_commented_copies_are_found_and_the_first_stays():
    copy = PROGRAM.replace("total", "summe").replace("values", "zahlen").replace("found", "x")
    copy = copy.replace("    x = 0", '    """Adds."""\n    x = 0  # begin')
    sources = {"first": PROGRAM, "other": "def g(a):\n    return {k: [] for k in a}\n", "copy": copy}

    found = deduplication.find_duplicates(sources)

    assert found.of == {"copy": ("first", 1.0)}
    assert found.sizes == [2]


def test_programs_that_only_share_idioms_are_no_copies():
    other = PROGRAM.replace("if value > limit", "if value % 2 == limit").replace("found -= limit", "print(value)")
    other = other.replace("return [found, len(values)]", "return sorted(values)[:found] or None")

    assert deduplication.find_duplicates({"one": PROGRAM, "other": other}).of == {}


def test_nothing_has_no_copies():
    assert deduplication.find_duplicates({}).of == {}


def test_a_planted_benchmark_solution_is_found_under_other_names():
    planted = "import math\n\n\ndef helper(q):\n    return math.sqrt(q)\n" + PROGRAM.replace("total", "answer")

    found = Benchmarks([Document(name="Bench/1", code=PROGRAM, text="")], [planted]).look_up(planted, "")

    assert found is not None
    assert (found.document, found.kind) == ("Bench/1", "code")
    assert found.containment >= deduplication.CONTAINMENT


def test_shared_boilerplate_is_not_contamination():
    other = "def f(values):\n    found = 0\n    for value in values:\n        found += value\n    return found\n"

    found = Benchmarks([Document(name="Bench/1", code=PROGRAM, text="")], [other]).look_up(other, "")

    assert found is None or found.containment < deduplication.CONTAINMENT


def test_a_benchmark_text_is_found_in_a_statement():
    words = (
        "Given a list of positive integers, return the sum of those that are greater than the limit, reduced by the "
        "limit for every other integer of the list, together with how many integers there are in all."
    )
    benchmarks = Benchmarks([Document(name="Bench/2", code="", text=words)], [])

    assert benchmarks.look_up("x = 1", f"Dear model! {words.upper()}") == deduplication.Finding(
        document="Bench/2", kind="text", containment=1.0
    )
    assert benchmarks.look_up("x = 1", "Return the sum of a list.") is None


def test_benchmarks_are_read_in_the_formats_that_are_usual(tmp_path):
    path = tmp_path / "lcb.jsonl"
    rows = [
        {"question_id": "q1", "question_content": "Count them."},
        {"task_id": "H/1", "prompt": "def f():\n", "canonical_solution": "    return 1\n"},
        {"other": 1},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "broken\n")

    assert deduplication.documents(path) == [
        Document(name="q1", code="", text="Count them."),
        Document(name="H/1", code="def f():\n    return 1\n", text="def f():\n"),
    ]


def test_a_split_depends_on_the_problem_alone_and_has_about_its_share():
    shares = Shares(validation=0.1, test=0.2)
    problems = [problem(id=str(n), statement=f"Problem number {n}") for n in range(2000)]

    found = [split(each, shares) for each in problems]

    assert found == [split(dataclasses.replace(each, id="x", source=""), shares) for each in problems]
    assert 340 < found.count("test") < 460
    assert 150 < found.count("validation") < 250


def test_problems_with_one_statement_are_in_one_split():
    first = problem(id="a", source="x = 1", statement="Count  them!")
    second = problem(id="b", source="y = 2", statement="count them")

    shares = Shares(validation=0.5, test=0.4)
    assert split(first, shares) == split(second, shares)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_run_that_is_not_told_whole_is_dropped_with_the_reason(is_whole):
    case = Case(number=0, args=(3,))
    source = "def f(n):\n    return n + 1\n"
    trace = run_here(Request(source=source, entry="f", case=case, hash_seed=0, traced=True, cpu_s=1.0)).trace

    def narrator(trace, **options):
        return dataclasses.replace(tell(trace, **options), whole=is_whole)

    item, told = narrate(
        Item(id="p/0", problem="p", case=case), trace, narrator, styles=("prose",), seed=0, max_chars=300
    )

    assert (told is None) is not is_whole
    assert (item.drop is None) is is_whole
    if item.drop is not None:
        found = item.drop.stage, item.drop.reason, item.drop.detail
        assert found == ("narrate", "told-in-parts", "the run is not told whole: that takes over 300 characters")


def test_an_escape_in_a_program_is_no_word_on_standard_error(recwarn):
    from groundbox.dataset import deduplication, signature

    source = 'def f():\n    return "\\[" + "a fresh one"\n'
    signature.tree_of.cache_clear()

    assert deduplication.normalised(source)
    assert signature.parses(source)
    assert [each for each in recwarn if each.category is SyntaxWarning] == []
