"""The tree of a run: steps, conditions, iterations, handlers."""

import ast
import textwrap
from pathlib import Path

import pytest

from groundbox.trace.record.syntax import copied, walked
from groundbox.trace.run.structure import Loop, Step


def outline(nodes):
    """A row of nodes as text: lines, truths, what was raised and handled, loops with iterations and exits."""
    return " ".join(map(word, nodes))


def word(node):
    if isinstance(node, Step):
        truth = {None: "", True: "+", False: "-"}[node.condition]
        raised = "" if node.raised is None and node.handled is None else f"!{node.handled or ''}"
        calls = "".join(f"({outline(call.body)})" for call in node.calls)
        return f"{node.line}{truth}{raised}{'~' if node.leaving else ''}{calls}"
    parts = []
    for iteration in node.iterations:
        head = "" if iteration.header is None else word(iteration.header)
        parts.append(f"#{iteration.number} {head}" + (f" {outline(iteration.body)}" if iteration.body else ""))
    closing = "" if node.closing is None else f" end {word(node.closing)}"
    return f"{node.kind}[{' '.join(parts)}{closing}: {node.exit}]"


def of(traced, source):
    """The outline of a program's function `f`, which it calls once; or of the whole module."""
    source = textwrap.dedent(source).strip() + "\n"
    structure = traced(source).structure
    found = [a for a in structure.activations.values() if a.name == "f"]
    return outline(found[0].body if found else structure.roots[0].body)


CASES = {
    "a_for_ends_when_nothing_is_left": (
        """
        t = 0
        for i in range(2):
            t += i
        t = 5
        """,
        "1 for[#1 2 3 #2 2 3 end 2: exhausted] 4",
    ),
    "a_while_ends_with_a_false_test": (
        """
        n = 2
        while n > 0:
            n -= 1
        else:
            n = 7
        """,
        "1 while[#1 2+ 3 #2 2+ 3 end 2-: false] 5",
    ),
    "a_loop_left_by_break_skips_its_else": (
        """
        for i in range(5):
            if i == 1:
                break
        else:
            i = 9
        i = 3
        """,
        "for[#1 1 2- #2 1 2+ 3: break] 6",
    ),
    "a_loop_left_by_return": (
        """
        def f(xs):
            for x in xs:
                for y in xs:
                    if x == y:
                        return x
        f([1, 2])
        """,
        "for[#1 2 for[#1 3 4+ 5: return]: return]",
    ),
    "a_loop_left_by_an_exception": (
        """
        try:
            for i in range(3):
                if i == 1:
                    raise ValueError(i)
        except KeyError:
            i = 5
        except ValueError as e:
            i = 7
        finally:
            i = 9
        """,
        "1 for[#1 2 3- #2 2 3+ 4!7: raise] 5- 7+ 8 10",
    ),
    "while_true_counts_its_iterations": (
        """
        n = 0
        while True:
            n += 1
            if n == 2:
                break
        """,
        "1 while[#1 2+ 3 4- #2 2+ 3 4+ 5: break]",
    ),
    "continue_goes_to_the_next_iteration": (
        """
        t = 0
        for i in range(3):
            if i == 1:
                continue
            t += i
        """,
        "1 for[#1 2 3- 5 #2 2 3+ 4 #3 2 3- 5 end 2: exhausted]",
    ),
    "loops_inside_loops": (
        """
        for i in range(2):
            for j in range(i):
                pass
        """,
        "for[#1 1 for[ end 2: exhausted] #2 1 for[#1 2 3 end 2: exhausted] end 1: exhausted]",
    ),
    "a_for_on_one_line": ("t = 0\nfor i in range(3): t += i\nt = 1", "1 for[#1 2 #2 2 #3 2 end 2: exhausted] 3"),
    "a_while_on_one_line": ("t = 3\nwhile t > 1: t -= 1\nt = 0", "1 while[#1 2+ #2 2+: false] 3"),
    "a_while_on_one_line_that_never_runs": ("t = 0\nwhile t > 1: t -= 1\nt = 0", "1 while[ end 2-: false] 3"),
    "an_if_on_one_line": ("n = 3\nif n > 2: n = 5\nif n > 9: n = 1\n", "1 2+ 3-"),
    "an_if_on_one_line_that_asks_a_function": (
        """
        def odd(n):
            return n % 2 == 1
        r = []
        for n in range(2):
            if odd(n): r.append(n)
        """,
        "1 3 for[#1 4 5-(2) #2 4 5+(2) end 4: exhausted]",
    ),
    "elif_and_else": (
        """
        n = 3
        if n == 1:
            n = 5
        elif n == 3:
            n = 6
        else:
            n = 7
        """,
        "1 2- 4+ 5",
    ),
    "a_test_on_several_lines_is_one_step": (
        """
        a = b = 1
        if (a and
                b):
            a = 2
        """,
        "1 2+ 4",
    ),
    "a_statement_on_several_lines_is_one_step": (
        """
        xs = [
            1,
            2 + 3,
        ]
        print(
            xs,
            len(xs),
        )
        """,
        "1 5",
    ),
    "try_else_and_finally": (
        """
        try:
            a = 1
        except ValueError:
            a = 2
        else:
            a = 3
        finally:
            a = 4
        """,
        "1 2 6 8",
    ),
    "an_exception_out_of_a_call_is_taken_by_the_caller": (
        """
        def g():
            raise KeyError('k')
        def f():
            try:
                g()
            except KeyError:
                return 1
        f()
        """,
        "4 5!6(2!) 6+ 7",
    ),
    "an_exception_raised_again_is_taken_further_out": (
        """
        try:
            try:
                {}['k']
            except KeyError:
                raise
        except LookupError:
            pass
        """,
        "1 2 3!4 4+ 5!6 6+ 7",
    ),
    "with_is_entered_and_left": (
        """
        from contextlib import nullcontext, suppress
        with nullcontext() as c:
            c = 1
        with suppress(ValueError):
            raise ValueError
        c = 2
        """,
        "1 2 3 2~ 4 5!4 4~ 6",
    ),
    "a_loop_left_out_of_a_with": (
        """
        from contextlib import nullcontext
        for i in range(3):
            with nullcontext():
                if i == 1:
                    break
        """,
        "1 for[#1 2 3 4- 3~ #2 2 3 4+ 5 3~: break]",
    ),
    "match_tries_its_cases": (
        """
        match [1, 2]:
            case []:
                r = 0
            case [a]:
                r = 1
            case [a, b] if a < b:
                r = 2
            case _:
                r = 3
        """,
        "1 2- 4- 6+ 7",
    ),
    "an_assertion_holds_or_fails": (
        """
        n = 1
        assert n > 0
        try:
            assert n > 5, 'small'
        except AssertionError:
            pass
        """,
        "1 2+ 3 4-!5 5+ 6",
    ),
    "recursion": (
        """
        def f(n):
            if n < 1:
                return 0
            return n + f(n - 1)
        f(1)
        """,
        "2- 4(2+ 3)",
    ),
    "a_lambda_and_a_key_function": ("xs = sorted([2, 1], key=lambda v: -v)", "1(1)(1)"),
    "a_class_body_and_decorators": (
        """
        def keep(c):
            return c
        @keep
        class C:
            n = 1
            def m(self):
                return self.n
        """,
        "1 3(3 5 6)(2)",
    ),
    "comprehensions_are_part_of_their_line": (
        """
        xs = [
            a * b
            for a in range(3)
            for b in range(2)
        ]
        ys = {x for x in xs}
        """,
        "1 6",
    ),
    "statements_after_a_semicolon_are_one_step": ("a = 1; b = 2\nc = 3", "1 2"),
    "a_docstring_only_branch_is_not_guessed": ("n = 1\nif n:\n    'nothing'\nn = 2", None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_tree_of_a_run(traced, name):
    source, expected = CASES[name]

    found = of(traced, source)

    if expected is not None:
        assert found == expected
    else:
        assert found.startswith("1 2")
        assert "2-" not in found


GENERATOR = """
def count(n):
    for i in range(n):
        got = yield i
    return 'done'

total = 0
for x in count(3):
    total += x
"""


def test_a_generator_is_one_activation_however_often_it_goes_on(traced):
    structure = traced(GENERATOR).structure

    generator = structure.activations[2]
    loop = structure.roots[0].body[2]
    headers = [iteration.header for iteration in loop.iterations]
    assert (generator.name, generator.outcome, len(structure.activations)) == ("count", "return", 2)
    assert [len(step.yields) for step in generator.steps() if step.line == 4] == [1, 1, 1]
    assert [[call.frame for call in header.calls] for header in headers] == [[2], [], []]
    assert [len(header.resumes) for header in [*headers, loop.closing]] == [0, 1, 1, 1]
    assert outline(generator.body) == "for[#1 3 4 #2 3 4 #3 3 4 end 3: exhausted] 5"


def test_values_of_the_target_are_effects_of_the_header(traced):
    trace = traced("t = 0\nfor i in [5, 6]:\n    t += i\n")

    loop = trace.structure.roots[0].body[1]

    effects = [[trace.records[t].v for t in iteration.header.effects] for iteration in loop.iterations]
    assert (effects, loop.count, loop.folded) == ([[5], [6]], 2, 0)
    assert [trace.state_at(i.body[0].last).names(1) for i in loop.iterations] == [{"t": 5, "i": 5}, {"t": 11, "i": 6}]


def test_calls_stand_in_the_step_that_made_them(traced):
    trace = traced("def g(a):\n    return a\nx = g(1) + g(2)\n")

    step = trace.structure.roots[0].body[1]

    assert [(call.name, call.args, call.value, call.depth) for call in step.calls] == [
        ("g", {"a": 1}, 1, 2),
        ("g", {"a": 2}, 2, 2),
    ]
    assert (trace.state_at(step.step).names(1).get("x"), trace.state_at(step.last).names(1)["x"]) == (None, 3)
    assert isinstance(step.statement, ast.Assign)


def test_iterations_that_were_not_recorded_are_counted(traced):
    import groundbox

    source = "t = 0\nfor i in range(500):\n    t += i\nwhile True:\n    t -= 1\n    if t < 0:\n        break\n"
    trace = traced(source, trace=groundbox.TraceOptions(soft_events=50))

    loops = [node for node in trace.structure.roots[0].body if isinstance(node, Loop)]
    assert trace.folded
    assert [(loop.count, loop.exit) for loop in loops] == [(500, "exhausted"), (124_751, "break")]
    assert [loop.count - len(loop.iterations) == loop.folded > 0 for loop in loops] == [True, True]
    assert trace.state_at(len(trace) - 2).names(1)["t"] == -1


def test_a_source_that_does_not_parse_still_has_steps():
    from groundbox.testing.traces import CALL, END, body, read

    trace = read(body(CALL, {"k": "line", "f": 1, "n": 1}, {"k": "line", "f": 1, "n": 2}, *END), source="%magic\n!ls\n")

    assert [(step.line, step.statement) for step in trace.structure.steps] == [(1, None), (2, None)]


def test_a_step_is_found_by_any_of_its_records(traced):
    trace = traced("def g():\n    return 1\nx = g()\n")
    step = trace.structure.roots[0].body[1]

    found = {trace.structure.step_at(t).line for t in range(step.step, step.last + 1)}

    assert found == {2, 3}
    assert trace.structure.step_at(step.last) is step
    assert trace.structure.step_at(0) is None


def test_a_loop_in_a_loop_counts_its_iterations_anew(traced):
    outer = traced("for i in range(2):\n    for j in range(2):\n        pass\n").structure.roots[0].body[0]

    inner = [iteration.body[0] for iteration in outer.iterations]

    assert [iteration.number for iteration in outer.iterations] == [1, 2]
    assert [[(each.number, each.body[0].line) for each in loop.iterations] for loop in inner] == [[(1, 3), (2, 3)]] * 2


def test_the_iteration_that_a_generator_waits_in_after_a_fold_is_one_of_its_loop(recorded):
    trace = recorded(
        "from itertools import islice\ndef g(n):\n    for i in range(n):\n        got = yield i\nit = g(9)\n"
        "a = list(islice(it, 5))\nb = it.send(4)\nc = list(it)\n",
        soft_events=1,
    )

    (activation,) = (each for each in trace.structure.activations.values() if each.name == "g")
    (loop,) = (node for node in activation.body if isinstance(node, Loop))
    assert (loop.count, [fold.iterations for fold in loop.folds]) == (9, [2, 2])
    assert [iteration.number for iteration in loop.iterations] == [1, 2, 5, 6, 7]
    fifth = loop.iterations[2]
    assert fifth.header is None
    assert [trace.records[t].name for t in fifth.body[0].effects] == ["got"]


def test_an_iteration_on_one_line_that_a_generator_waits_in_is_counted_once(recorded):
    trace = recorded(
        "from itertools import islice\ndef g(n):\n    for i in range(n): yield i\nit = g(9)\na = list(islice(it, 5))\n"
        "b = next(it)\n",
        soft_events=1,
    )

    (activation,) = (each for each in trace.structure.activations.values() if each.name == "g")
    (loop,) = (node for node in activation.body if isinstance(node, Loop))
    assert [fold.iterations for fold in loop.folds] == [3]
    assert [iteration.number for iteration in loop.iterations] == [1, 2, 6]
    assert loop.count == 6


def test_a_tree_is_copied_so_that_a_change_does_not_reach_the_first_one():
    tree = ast.parse(Path(ast.__file__).read_text())
    written = ast.dump(tree, include_attributes=True)

    made = copied(tree)
    same = ast.dump(made, include_attributes=True) == written
    for node in walked(made):
        if isinstance(node, ast.Name | ast.arg):
            node.lineno = -1
        for part in (getattr(node, name, None) for name in node._fields):
            if isinstance(part, list):
                part.clear()

    assert same
    assert ast.dump(tree, include_attributes=True) == written


def test_a_tree_is_walked_in_the_order_of_the_standard_library():
    tree = ast.parse(Path(ast.__file__).read_text())

    assert walked(tree) == list(ast.walk(tree))
