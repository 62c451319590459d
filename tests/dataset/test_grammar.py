"""Programs of a grammar: they are what was asked for, they run, and the same seed gives the same ones."""

import ast
import json
import random
import subprocess
import sys
from typing import Any

import pytest

from groundbox.dataset.grammar import CONSTRUCTS, Grammar, _Writer, problems, results_within
from groundbox.errors import InvalidArgument

NODES = {"branch": ast.If, "for": ast.For, "while": ast.While, "list": ast.List, "dict": ast.Dict}


def depth_of(node, depth=0):
    nested = depth + isinstance(node, ast.If | ast.For | ast.While)
    return max([nested, *(depth_of(each, nested) for each in ast.iter_child_nodes(node))])


def results(line):
    namespace = {}
    exec(line["source"], namespace)
    return [namespace["f"](*json.loads(json.dumps(case["args"]))) for case in line["cases"]]


def test_programs_run_differ_and_are_the_same_for_a_seed():
    lines = list(problems(300, grammar=Grammar(), seed=3))

    assert len({line["source"] for line in lines}) == len({line["id"] for line in lines}) == 300
    assert all(len(set(map(repr, results(line)))) > 1 for line in lines)
    assert lines == list(problems(300, grammar=Grammar(), seed=3))
    assert lines != list(problems(300, grammar=Grammar(), seed=4))


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_construct_stands_where_it_is_asked_for_and_nowhere_else(construct):
    with_it = list(problems(60, grammar=Grammar(constructs=frozenset({construct, "branch"}), statements=(3, 4))))
    without = list(problems(60, grammar=Grammar(constructs=frozenset(CONSTRUCTS) - {construct})))

    def has(line):
        nodes = list(ast.walk(ast.parse(line["source"])))
        if construct == "helper":
            return sum(isinstance(each, ast.FunctionDef) for each in nodes) > 1
        if construct == "string":
            return any(isinstance(each, ast.Constant) and isinstance(each.value, str) and len(each.value) > 1
                       for each in nodes) or ".upper()" in line["source"]  # fmt: skip
        return any(isinstance(each, NODES[construct]) for each in nodes)

    assert sum(map(has, with_it)) >= 10
    assert not any(map(has, without))


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_depth_and_length_are_kept(depth):
    lines = list(problems(120, grammar=Grammar(depth=depth, statements=(3, 5))))
    functions = [next(each for each in ast.parse(line["source"]).body if each.name == "f") for line in lines]

    assert max(map(depth_of, functions)) == depth
    assert {len(each.body) - 1 for each in functions} == {3, 4, 5}


def test_no_number_of_a_run_leaves_the_bound():
    for line in problems(200, grammar=Grammar(bound=12, depth=2)):
        for result in results(line):
            numbers = result if isinstance(result, list) else [result]
            assert all(abs(each) <= 12 for each in numbers if isinstance(each, int))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"constructs": frozenset({"goto"})}, "there is no 'goto'"),
        ({"statements": (4, 2)}, "two rising numbers"),
        ({"depth": 7}, "from 0 to 6"),
        ({"bound": 3}, "it must be 9 or more"),
    ],
)
def test_impossible_options_are_refused(options, reason):
    with pytest.raises(InvalidArgument, match=reason):
        Grammar(**options)


def test_more_programs_than_there_are_are_refused():
    few = Grammar(statements=(1, 1), depth=0, constructs=frozenset(), values=2, bound=2)

    with pytest.raises(InvalidArgument, match="no new ones fit"):
        list(problems(10_000, grammar=few))


def assigned(node: Any) -> list[str]:
    """Names that are assigned anywhere in it."""
    return [
        target for each in ast.walk(node) if isinstance(each, ast.Assign) for target in map(ast.unparse, each.targets)
    ]


def test_nothing_else_in_a_loop_assigns_the_number_that_falls_also_once_all_names_are_used_up():
    grammar = Grammar(depth=6, statements=(10, 10), cases=1, constructs=frozenset({"while", "for"}))
    loops = 0
    for seed in range(300):
        writer = _Writer(grammar, random.Random(seed))
        writer._fresh = []
        for node in ast.walk(ast.parse(writer.program()[0])):
            if isinstance(node, ast.While):
                loops += 1
                assert isinstance(node.test, ast.Compare)
                assert assigned(node).count(ast.unparse(node.test.left)) == 1
    assert loops > 1000


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--statements", "9" * 5_000], 2, "--statements takes a number or two"),
        (["--count", "100000", "--statements", "1", "--depth", "0", "--construct", "dict"], 2, "no new ones fit"),
        (["--values", "100"], 2, "bound: it must be 100 or more, as values are"),
        (["--out", "none/p.jsonl"], 3, "--out: 'none/p.jsonl' cannot be written: No such file or directory"),
    ],
)
def test_bad_usage_is_told_and_leaves_no_file(options, status, message, tmp_path):
    command = [sys.executable, "-m", "groundbox", "dataset", "generate", "--count", "2", "--out", "p.jsonl", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, list(tmp_path.iterdir())) == (status, [])
    assert message in done.stderr


def test_the_command_writes_lines_for_a_build(tmp_path):
    out = tmp_path / "programs.jsonl"
    command = [sys.executable, "-m", "groundbox", "dataset", "generate", "--count", "5", "--out", str(out)]
    done = subprocess.run([*command, "--statements", "2"], capture_output=True, text=True, check=False)
    bad = subprocess.run([*command, "--statements", "a-b"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == [f"grammar-0-{n}" for n in range(1, 6)]
    assert bad.returncode == 2
    assert "--statements takes" in bad.stderr


def test_the_bound_is_for_the_program_and_not_for_what_the_host_runs_meanwhile():
    class Host:
        def __add__(self, other):
            large = 1_000 * other
            return large // 1_000

    assert results_within("def f(a):\n    return a + 1\n", [[Host()]], 9) == ["1"]
    assert results_within("def f(a):\n    return a + 1\n", [[9]], 9) is None
