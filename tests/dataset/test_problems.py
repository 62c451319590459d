"""Readers of problem files: what becomes a problem, and what a drop with its line and reason."""

import gzip
import json
import os
from pathlib import Path

import pytest

from groundbox.dataset.problem import ABSENT, Case, Drop, Problem, from_json, json_words
from groundbox.dataset.problems.reading import read
from groundbox.errors import InvalidArgument

EXAMPLES = Path(__file__).parents[2] / "examples" / "problems"
DATA = os.environ.get("GROUNDBOX_DATA")


def written(tmp_path, name, *rows):
    path = tmp_path / name
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def parts(path, **options):
    found = list(read(path, **options))
    return [each for each in found if isinstance(each, Problem)], [each for each in found if isinstance(each, Drop)]


def test_a_line_of_codeio_becomes_a_problem_with_its_recorded_outputs(tmp_path):
    row = {
        "problem_description": "Double it.",
        "io_requirements": "A number.",
        "refcode": "def main_solution(n):\n    return 2 * n\n",
        "funcname": "main_solution",
        "ios": [{"input": {"n": 2}, "output": 4}, {"input": {"n": 0}, "output": None}, {"input": {"n": 1}}],
        "meta": {"repo_name": "somebody/something", "license": "MIT"},
    }

    (problem,), drops = parts(written(tmp_path, "p.jsonl", row))

    assert drops == []
    assert (problem.id, problem.entry, problem.statement) == ("p.jsonl:1", "main_solution", "Double it.\n\nA number.")
    assert problem.cases == (
        Case(number=0, kwargs={"n": 2}, expected=4),
        Case(number=1, kwargs={"n": 0}, expected=None),
        Case(number=2, kwargs={"n": 1}, expected=ABSENT),
    )
    assert problem.provenance.licence == "MIT"
    assert problem.provenance.details == {"repo_name": "somebody/something"}


def test_bad_lines_and_bad_cases_are_counted_and_nothing_else_is_lost(tmp_path):
    good = {"refcode": "def main_solution(): pass", "ios": [{"input": {}}]}
    path = written(
        tmp_path,
        "p.jsonl",
        good,
        "not json\n",
        "\n",
        [1],
        {"refcode": 5, "ios": []},
        {"something": "else"},
        {**good, "ios": [{"input": 3}, {"output": 3}, {"input": {}}]},
    )

    problems, drops = parts(path)

    assert [(each.id, len(each.cases)) for each in problems] == [("p.jsonl:1", 1), ("p.jsonl:7", 1)]
    assert [(each.item, each.stage, each.reason) for each in drops] == [
        ("p.jsonl:2", "parse", "bad-line"),
        ("p.jsonl:4", "parse", "bad-line"),
        ("p.jsonl:5", "parse", "bad-line"),
        ("p.jsonl:6", "parse", "unknown-format"),
        ("p.jsonl:7/0", "parse", "bad-case"),
        ("p.jsonl:7/1", "parse", "bad-case"),
    ]
    assert problems[1].cases[0].number == 2


def test_arguments_of_cruxeval_are_data(tmp_path):
    path = written(
        tmp_path,
        "c.jsonl",
        {"code": "def f(a, b): return a", "input": "(1, {'x'}), b=[2]", "output": "(1, {'x'})", "id": "one"},
        {"code": "def f(a): return a", "input": "__import__('os').getcwd()", "output": "''", "id": "two"},
        {"code": "def f(a): return a", "input": "1) + f(2", "output": "3", "id": "three"},
        {"code": "def f(): return object()", "input": "", "output": "object()", "id": "four"},
    )

    problems, drops = parts(path)

    assert [each.cases for each in problems] == [
        (Case(number=0, args=((1, {"x"}),), kwargs={"b": [2]}, expected=(1, {"x"})),),
        (Case(number=0),),
    ]
    assert [(each.item, each.reason) for each in drops] == [
        ("two/0", "input-not-a-literal"),
        ("three/0", "input-not-a-literal"),
    ]


@pytest.mark.parametrize(
    ("written_as", "value"),
    [
        ("3 * 19", 57),
        ("''.join(['a'] * 3)", "aaa"),
        ("dict(b=1, a=[-2.0 / 4])", {"b": 1, "a": [-0.5]}),
        ("'a-b'.split('-')", ["a", "b"]),
        ("range(3)", None),
        ("lambda: 1", None),
        ("int", None),
        ("len", None),
        ("n + 1", None),
        ("'a' * 10**9", None),
        ("1 / 0", None),
        ("f", None),
    ],
)
def test_arguments_may_be_worked_out_of_literals_and_nothing_else(tmp_path, written_as, value):
    path = written(tmp_path, "c.jsonl", {"code": "def f(a): return a", "input": written_as, "output": "1", "id": "one"})

    problems, drops = parts(path)

    assert [each.reason for each in drops] == ["input-not-a-literal"] * (value is None)
    assert [case.args for each in problems for case in each.cases] == ([] if value is None else [(value,)])


def test_humaneval_is_read_from_its_asserts_packed_or_not(tmp_path):
    row = {
        "task_id": "HumanEval/0",
        "prompt": 'def half(n):\n    """Half of it."""\n',
        "canonical_solution": "    return n / 2\n",
        "entry_point": "half",
        "test": "def check(candidate):\n    assert candidate(4) == 2.0\n    assert not candidate(0)\n"
        "    assert abs(candidate(3) - 1.5) < 1e-6\n    assert candidate(n) == 1\n",
    }
    packed = tmp_path / "H.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(row).encode()))

    (problem,), drops = parts(packed)

    assert (problem.id, problem.entry, problem.statement) == ("HumanEval/0", "half", "Half of it.")
    assert problem.source == row["prompt"] + row["canonical_solution"]
    assert problem.cases == (
        Case(number=0, args=(4,), expected=2.0),
        Case(number=1, args=(0,)),
        Case(number=2, args=(3,)),
    )
    assert [(each.item, each.reason) for each in drops] == [("HumanEval/0/3", "input-not-a-literal")]


def test_mbpp_names_its_function_by_its_tests(tmp_path):
    row = {
        "task_id": 11,
        "text": "Remove it.",
        "code": "def helper(x): return x\ndef remove(s, c):\n    return s.replace(c, '')\n",
        "test_list": ["assert remove('hello', 'l') == 'heo'", "assert set(remove('a', c='b')) == {'a'}"],
    }
    path = tmp_path / "sanitized.json"
    path.write_text(json.dumps([row, {**row, "task_id": 12, "prompt": "Other words.", "test_list": ["assert 1"]}]))

    (problem,), drops = parts(path)

    assert (problem.id, problem.entry, problem.statement) == ("mbpp/11", "remove", "Remove it.")
    assert problem.cases == (
        Case(number=0, args=("hello", "l"), expected="heo"),
        Case(number=1, args=("a",), kwargs={"c": "b"}),
    )
    assert [each.item for each in drops] == ["sanitized.json:2"]


def test_a_folder_gives_its_doctests_and_its_scripts(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "a.py").write_text(
        '"""Adds."""\n\n\ndef add(a, b):\n    """Sum of two.\n\n    >>> add(1, 2)\n    3\n    >>> add(*[1, 2])\n    3\n'
        '    >>> add(1, "x")\n    Traceback (most recent call last):\n    TypeError: no\n    """\n'
        "    return a + b\n\n\n"
        'if __name__ == "__main__":\n    print(add(1, 2))\n'
    )
    (folder / "b.py").write_text("def broken(:\n")
    (folder / "c.py").write_text("x = 1\n")

    problems, drops = parts(folder, licence="MIT")

    assert [(each.id, each.entry, each.statement) for each in problems] == [
        ("programs/a.py:add", "add", "Sum of two."),
        ("programs/a.py", None, "Adds."),
    ]
    assert problems[0].cases == (Case(number=0, args=(1, 2), expected=3), Case(number=2, args=(1, "x")))
    assert problems[1].cases == (Case(number=0, stdin=""),)
    assert problems[0].provenance.licence == "MIT"
    assert [(each.item, each.reason) for each in drops] == [
        ("programs/a.py:add/1", "input-not-a-literal"),
        ("programs/b.py:1", "does-not-parse"),
        ("programs/c.py:1", "no-examples"),
    ]


def test_plain_lines_hold_functions_and_scripts(tmp_path):
    path = written(
        tmp_path,
        "own.jsonl",
        {"source": "print(input())", "cases": [{"stdin": "a"}, {"args": [1]}]},
        {
            "source": "def f(a): return a",
            "entry": "f",
            "cases": [{"args": [{"$set": [1]}], "expected": 1}, {"args": 1}],
        },
        {"source": "print(1)"},
    )

    problems, drops = parts(path)

    assert [each.cases for each in problems] == [
        (Case(number=0, stdin="a"),),
        (Case(number=0, args=({1},), expected=1),),
        (Case(number=0),),
    ]
    assert [(each.item, each.reason) for each in drops] == [
        ("own.jsonl:1/1", "bad-case"),
        ("own.jsonl:2/1", "bad-case"),
    ]


def test_a_format_can_be_prescribed(tmp_path):
    path = written(tmp_path, "p.jsonl", {"refcode": "def f(): pass", "ios": []})

    _, (drop,) = parts(path, format="cruxeval")

    assert (drop.item, drop.reason) == ("p.jsonl:1", "bad-line")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="neither a file nor a folder"):
        read(tmp_path / "none.jsonl")


@pytest.mark.parametrize("name", ["everyday.jsonl", "plain.jsonl"])
def test_the_examples_are_read_without_a_drop_and_travel_as_json(name):
    problems, drops = parts(EXAMPLES / name)

    assert drops == []
    assert [from_json(json.loads(json.dumps(each, default=json_words))) for each in problems] == problems
    assert {each.provenance.licence for each in problems} == {"Apache-2.0"}


@pytest.mark.skipif(not DATA, reason="GROUNDBOX_DATA does not name a folder with benchmark files")
@pytest.mark.parametrize(
    ("name", "problems", "cases", "dropped"),
    [("pyedu-514.jsonl", 514, 4598, 0), ("cruxeval-400.jsonl", 397, 397, 3), ("HumanEval.jsonl.gz", 164, 1127, 5)],
)
def test_real_files_are_read_to_the_last_case(name, problems, cases, dropped):
    found, drops = parts(Path(DATA or "") / name)

    assert (len(found), sum(len(each.cases) for each in found), len(drops)) == (problems, cases, dropped)


def test_a_line_with_a_generator_of_inputs_has_none_yet(tmp_path):
    row = {
        "task_description": "Doubles.", "input_output_spec": "n (int)", "difficulty": 3, "unique_inputs": 9,
        "code_sample": "def main_solution(n):\n    return 2 * n\n", "input_generator": "def generate_inputs(rng): ...",
    }  # fmt: skip
    (tmp_path / "codeio.jsonl").write_text(json.dumps(row) + "\n")

    (problem,), drops = parts(tmp_path / "codeio.jsonl")

    assert (problem.entry, problem.cases, problem.generator, drops) == ("main_solution", (), row["input_generator"], [])
    assert (problem.statement, problem.provenance.format) == ("Doubles.\n\nn (int)", "codeio")
    assert from_json(json.loads(json.dumps(problem, default=json_words))) == problem
    (tmp_path / "plain.jsonl").write_text(json.dumps(problem, default=json_words) + "\n")
    assert parts(tmp_path / "plain.jsonl")[0][0].generator == problem.generator
