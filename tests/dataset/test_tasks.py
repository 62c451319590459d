"""Tasks: what is asked of a known run, what the right answer is, and which answers are refused."""

import asyncio
import dataclasses
import math
import random

import pytest
from dataset_fakes import FakeRunner, prove, run_here, tell

from groundbox.dataset.argument_search import seek
from groundbox.dataset.item import Item, Tried
from groundbox.dataset.item_runs import summary
from groundbox.dataset.narration import Proved, Said, Told
from groundbox.dataset.problem import Case, Problem, Provenance
from groundbox.dataset.program_runner import Request
from groundbox.dataset.prompts import ask
from groundbox.dataset.tasks import registry as tasks
from groundbox.dataset.tasks.checking import answer_of, holds, parts, right, right_by_running
from groundbox.dataset.tasks.task import Lines, View, task
from groundbox.values import literals

SOURCE = """def f(limit):
    total = 0
    for n in range(10):
        if n % 2:
            total = total + n
        if total > limit:
            break
    else:
        total = -1
    return total
"""
PLACE = Provenance(file="p.jsonl", line=1, format="plain")


def view(source=SOURCE, args=(5,), seed=0, entry="f", stdin=None):
    case = Case(number=0, args=args, stdin=stdin)
    problem = Problem(id="p", source=source, statement="", entry=entry, cases=(case,), provenance=PLACE)
    ran = run_here(Request(source=source, entry=entry, case=case, hash_seed=0, traced=True, cpu_s=1.0))
    told = tell(ran.trace, style="prose", seed=0, max_chars=10_000)
    item = Item(id="p/0", problem="p", case=case, answer=ran.answer, traced=summary(ran.trace, stable=True))
    return View(
        problem=problem, item=item, trace=ran.trace, told=told, narrator=tell, prove=prove, seed=seed, max_chars=10_000
    )


def made(task, **options):
    return list(tasks.make(task, view(**options)))


def test_the_result_of_a_call_is_asked_with_the_whole_telling():
    (draft,) = made("output")

    assert (draft.answer, draft.check) == ("9", {"kind": "value", "value": "9"})
    assert draft.reasoning.endswith("n becomes 5. total becomes 9.")


def test_the_output_of_a_script_is_asked():
    (draft,) = made("output", source="name = input()\nprint('Hi', name)\n", entry=None, args=(), stdin="you\n")

    assert draft.answer == repr("Hi you\n")


def test_a_failed_run_asks_for_its_exception_and_not_for_a_result():
    source = "def f(x):\n    y = x\n    return 1 // y\n"

    (draft,) = made("exception", source=source, args=(0,))

    assert draft.answer == "ZeroDivisionError at line 3"
    assert made("output", source=source, args=(0,)) == []
    assert made("input", source=source, args=(0,)) == []


def test_an_exception_that_was_handled_is_asked_about():
    source = "def f(x):\n    try:\n        return 1 // x\n    except ZeroDivisionError:\n        return 0\n"

    (draft,) = made("exception", source=source, args=(0,))

    assert draft.answer == "no exception"
    assert made("exception", source=source, args=(1,)) == []


@pytest.mark.parametrize("seed", range(12))
def test_a_state_that_is_asked_is_the_state_at_that_moment(seed):
    (draft,) = made("state", seed=seed)

    name = draft.question.rpartition("value of `")[2].partition("`")[0]
    line = int(draft.question.partition("When line ")[2].partition(" ")[0])
    time = int(draft.question.partition("for the ")[2][:1])
    assert draft.answer == _value_at(name, line, time)


def _value_at(name, line, time):
    """Found once more by a debugger of four lines."""
    import sys

    seen, found = {}, []

    def look(frame, event, _):
        if frame.f_code.co_filename != "again.py":
            return None
        if event == "line":
            seen[frame.f_lineno] = seen.get(frame.f_lineno, 0) + 1
            if (frame.f_lineno, seen[frame.f_lineno]) == (line, time):
                found.append(repr(frame.f_locals[name]))
        return look

    namespace = {}
    exec(compile(SOURCE, "again.py", "exec"), namespace)
    sys.settrace(look)
    try:
        namespace["f"](5)
    finally:
        sys.settrace(None)
    return found[0]


@pytest.mark.parametrize("seed", range(6))
def test_the_next_line_is_the_one_that_ran(seed):
    (draft,) = made("next_line", seed=seed)

    words = draft.question.split()
    line, time = int(words[2]), int(draft.question.partition("for the ")[2][:1])
    expected = {3: ["4"] * 6, 4: ["6", "5", "6", "5", "6", "5"], 6: ["3", "3", "3", "3", "3", "7"]}
    assert draft.answer == expected[line][time - 1]


@pytest.mark.parametrize("seed", range(12))
def test_the_next_line_is_asked_after_some_steps_were_told(seed):
    (draft,) = made("next_line", seed=seed)

    assert draft.reasoning.count("becomes") >= 3


SHORT = """def f(x):
    y = x + 1
    if x:
        y = y + 1
    z = y + 1
    if z:
        z = z + 1
    return z
"""


@pytest.mark.parametrize("seed", range(6))
def test_in_a_short_run_the_next_line_is_asked_where_the_most_was_told(seed):
    (draft,) = made("next_line", source=SHORT, args=(0,), seed=seed)

    assert "line 6 (`if z:`)" in draft.question
    assert draft.reasoning == "y becomes 1. z becomes 2."


def test_the_turns_of_a_condition_are_asked_in_order():
    answers = {draft.answer for seed in range(8) for draft in made("branch", seed=seed)}

    assert answers == {"[False, True, False, True, False, True]", "[False, False, False, False, False, True]"}


def test_lines_that_run_are_asked_of_a_function_that_runs_in_part():
    (draft,) = made("coverage")

    assert draft.answer == "[2, 3, 4, 5, 6, 7, 10]"
    assert "lines 2, 3, 4, 5, 6, 7, 9, 10 of `f`" in draft.question
    assert right(draft.check, "{10, 7, 6, 5, 4, 3, 2}")
    assert not right(draft.check, "[2, 3, 4, 5, 6, 7, 9, 10]")


@pytest.mark.parametrize(("limit", "answer"), [(5, "(6, 'break')"), (99, "(10, 'exhausted')")])
def test_a_loop_is_asked_for_its_rounds_and_its_end(limit, answer):
    (draft,) = made("loop", args=(limit,))

    assert draft.answer == answer


@pytest.mark.parametrize("seed", range(6))
def test_a_repair_has_one_wrong_step_and_its_answer_is_the_true_one(seed):
    (draft,) = made("repair", seed=seed)

    true = [each.text for each in view().told.sentences]
    shown = [line.partition(". ")[2] for line in draft.given.splitlines()]
    wrong = [number for number, (one, other) in enumerate(zip(true, shown, strict=True)) if one != other]
    assert len(wrong) == 1
    assert draft.answer == f"step {wrong[0] + 1}: {true[wrong[0]]}"


def test_the_kinds_of_questions_are_chosen_by_the_seed_and_the_result_is_always_asked():
    chosen = [
        tuple(each.task for each in tasks.drafts(view(seed=seed), tasks=tasks.TASKS, most=3)) for seed in range(8)
    ]

    assert {len(each) for each in chosen} == {3}
    assert all(each[0] == "output" for each in chosen)
    assert len(set(chosen)) > 2
    assert chosen == [
        tuple(each.task for each in tasks.drafts(view(seed=seed), tasks=tasks.TASKS, most=3)) for seed in range(8)
    ]


@pytest.mark.parametrize(
    ("t", "text"),
    [(-1, ""), (2, "1. a."), (5, "1. a.\n2. b will be.\n3. c."), (99, "1. a.\n2. b will be.\n3. c.\n4. d.")],
)
def test_a_telling_is_cut_after_the_last_sentence_about_the_moment(t, text):
    said = [("a.", 1), ("b will be.", 9), ("c.", 4), ("d.", 12)]
    told = Told(
        text="1. a.\n2. b will be.\n3. c.\n4. d.",
        sentences=[Said(text=words, until=until, values=()) for words, until in said],
        claims=4,
        style="steps",
        detail="full",
    )

    assert told.upto(t) == text


JUMPING = Told(
    text="1. a. b.\n2. c.\n3. d.",
    sentences=[
        Said(text="a. b.", since=0, until=4, values=(), stated=2, followed=2),
        Said(text="c.", since=3, until=9, values=(), stated=1, followed=0, jumps=("`c` = 1: `b`, set by line 2",)),
        Said(text="d.", since=-1, until=-1, values=()),
    ],
    claims=4,
    style="steps",
    detail="full",
)


@pytest.mark.parametrize(
    ("text", "share", "jumps"),
    [
        ("", 1.0, 0),
        ("1. a. b.", 1.0, 0),
        ("1. a. b.\n2. c.", 0.6667, 1),
        (JUMPING.text, 0.6667, 1),
        ("Step 2 says another thing.", 0.6667, 1),
    ],
)
def test_what_follows_is_counted_up_to_where_the_reasoning_ends(text, share, jumps):
    found, missing = JUMPING.derived(text)

    assert (found, len(missing)) == (share, jumps)


@pytest.mark.parametrize(("t", "since"), [(2, 0), (4, 3), (5, 3), (9, 10), (2000, 2001)])
def test_what_only_a_later_sentence_speaks_of_is_not_told_yet(t, since):
    assert JUMPING.untold_since(t) == since


def test_what_a_sentence_stated_that_is_left_out_does_not_follow():
    told = JUMPING.without([0])

    assert told.derived(told.text) == (0.0, ["a sentence with 2 values is left out", *JUMPING.sentences[1].jumps])


def test_a_state_is_asked_only_where_the_telling_up_to_the_moment_has_it():
    known = view()
    first, *others = known.told.sentences
    joined = Said(text=" ".join(each.text for each in others), since=others[0].until, until=others[-1].until, values=())
    late = dataclasses.replace(known, told=dataclasses.replace(known.told, sentences=[first, joined]))

    one_by_one, at_once = (
        {each.answer for seed in range(20) for each in tasks.make("state", dataclasses.replace(given, seed=seed))}
        for given in (known, late)
    )

    assert first.text == "total becomes 0."
    assert one_by_one > {"0", "1", "4"}
    assert at_once <= {"0", "5", "9"}


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("so it is\n\nAnswer: [1, 2]", "[1, 2]"),
        ("Answer: 1\nno, wait.\n**Answer:** `2`", "2"),
        ("Answer: 'a\\nb'", "'a\\nb'"),
        ("**Answer: 2**", "2"),
        ("> - **Answer:** **`[2]`**", "[2]"),
        ("The answer is this. Answer: 2", "2"),
        ("It prints `Answer: 1`.\n\nAnswer: 'Answer: 2'", "'Answer: 2'"),
        ("Answer: step 1: `x` becomes `y`", "step 1: `x` becomes `y`"),
        ("Answer: `a` and `b`", "`a` and `b`"),
        ("Answer: '`'", "'`'"),
        ("no answer", ""),
    ],
)
def test_the_last_answer_of_a_reply_counts(reply, answer):
    assert answer_of(reply) == answer


@pytest.mark.parametrize("answer", ["'Answer: 1'", "step 2: `x` is `y`", "{'a': '**'}", "'*'", "no exception"])
def test_a_reply_gives_back_the_answer_and_the_reasoning_that_it_was_made_of(answer):
    assert parts(f"It prints Answer: 3.\n\nAnswer: {answer}") == ("It prints Answer: 3.", answer)


@pytest.mark.parametrize(
    ("wanted", "given", "holds"),
    [
        ("[1, 2]", "[1,2]", True),
        ("[1, 2]", "(1, 2)", False),
        ("1", "True", False),
        ("1", "1.0", False),
        ("0.3", "0.30000000000000004", True),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", True),
        ("'x'", "x", False),
        ("{1, 2}", "{2, 1}", True),
        ("None", "", False),
        ("5", "__import__('os').getpid()", False),
        ("5", "0x" + "f" * 5000, False),
    ],
)
def test_values_are_compared_as_values_of_one_type(wanted, given, holds):
    assert right({"kind": "value", "value": wanted}, given) is holds


@pytest.mark.parametrize(
    "case",
    [
        Case(number=0, args=(math.inf, -math.nan, -0j), kwargs={"a": frozenset({(1,)})}),
        Case(number=0, kwargs={"a": 1, "class": 2, "b c": [3]}),
        Case(number=0, args=({(1, 2): b"x"},)),
        Case(number=0, args=("f(1) `", "'")),
    ],
    ids=Case.text,
)
def test_a_call_is_read_as_the_input_that_it_was_written_of(case):
    problem = Problem(id="p", source="", statement="", entry="f", cases=(case,), provenance=PLACE)
    check = {"kind": "call", "value": "1"}

    assert holds(check, f"f({case.text()})", problem=problem, case=case)
    assert not holds(check, f"f({case.text()}, 0)".replace("=", "", 1), problem=problem, case=case)


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ("f(5)", True),
        ("f(limit=4)", True),
        ("f(99)", False),
        ("g(5)", False),
        ("f()", False),
        ("f(int('5'))", False),
        ("f(5", False),
    ],
)
def test_an_input_is_judged_by_running_it(given, holds):
    problem = view().problem
    check = {"kind": "call", "value": "9"}

    found = asyncio.run(right_by_running(check, given, problem=problem, runner=FakeRunner(), cpu_s=1.0))

    assert found is holds


def test_only_lines_that_hold_one_whole_statement_are_asked_about():
    lines = Lines(
        "def f(a,\n      b):\n    x = 1; y = 2\n    z = [a,\n         b]\n    if a: return 1\n"
        "    w = sum(n for n in z)\n    v = [n for n in z]\n    while v:\n        v.pop()\n    return v\n"
    )

    assert [line for line in range(1, 12) if lines.is_plain(line)] == [8, 9, 10, 11]


ODD = 'def f(x):\n    y = "\x0c\u2028\x85\x1c"\n\x0c    z = 1\r    w = x\r\n    v = 2\n    return v\n'


def test_lines_are_counted_as_python_counts_them_in_questions_and_listings():
    lines = Lines(ODD)
    (draft,) = made("state", source=ODD, args=(1,))

    asked = ask(view(ODD, (1,)).problem, Case(number=0, args=(1,)), draft, random.Random(0))

    assert [lines.text(number) for number in range(3, 7)] == ["z = 1", "w = x", "v = 2", "return v"]
    assert [number for number in range(10) if lines.is_plain(number)] == list(range(1, 7))
    assert "\n4 |     w = x\n5 |     v = 2\n6 |     return v\n" in asked


SHIFT = """def f(n: int, way: str):
    if way == "up":
        return n + 7
    return n - 7
"""


def searching(source=SHIFT, args=(5, "up"), change=None):
    """A view of an item with the arguments that a search tried, as a build has it."""
    seen = view(source, args)
    wanted = literals.parse(seen.item.answer.text)
    tried, traces = [], []
    while guess := seek(seen.problem, wanted, tried):
        ran = run_here(Request(source=source, entry="f", case=guess.case, hash_seed=0, traced=True, cpu_s=1.0))
        tried.append(Tried(case=guess.case, why=guess.why, answer=ran.answer, sha256=ran.trace.header.sha256))
        traces.append(ran.trace)
        if ran.answer.text == seen.item.answer.text:
            break
    item = dataclasses.replace(seen.item, tried=tuple(tried))
    return dataclasses.replace(seen, item=item, guesses=traces, **(change or {}))


def test_arguments_are_found_by_trying_and_the_reply_tells_every_try():
    (draft,) = tasks.make("input", searching(args=(5, "up")))

    assert draft.answer == "f(n=5, way='up')"
    assert draft.reasoning.split("\n\n") == [
        "The program compares `way` with 'up'. The first try is `f(n=3, way='up')`.",
        "Nothing is assigned.",
        "It returns 10, and 12 is wanted: too small.",
        "A larger `n` may give a larger result. So `f(n=4, way='up')` is tried.",
        "Nothing is assigned.",
        "It returns 11, and 12 is wanted: too small.",
        "From `n` = 3 to `n` = 4 the result goes from 10 to 11; at this rate 12 needs about `n` = 5. "
        "The next try is `f(n=5, way='up')`.",
        "Nothing is assigned.",
        "It returns 12, which is the wanted result.",
    ]
    assert not draft.shows_input


def test_a_search_tells_nothing_of_the_input_that_the_result_came_from():
    one = [(each.case, each.why) for each in searching(args=(5, "up")).item.tried]
    other = [(each.case, each.why) for each in searching(args=(19, "down")).item.tried]

    assert one == other


def test_there_is_no_question_where_no_arguments_were_found_or_a_try_is_not_proven():
    unproven = {"prove": lambda text, trace: Proved(faithful=False, total=1, proven=0, coverage=1.0, failed=("no",))}

    assert list(tasks.make("input", view(SHIFT, (5, "up")))) == []
    assert list(tasks.make("input", searching(change=unproven))) == []
    assert list(tasks.make("input", searching(change={"max_chars": 100}))) == []

    def in_part(trace, **options):
        return dataclasses.replace(tell(trace, **options), whole=False)

    assert list(tasks.make("input", searching(change={"narrator": in_part}))) == []


def test_a_second_task_of_a_name_is_told_where_both_are():
    def make(view):
        yield from ()

    with pytest.raises(ValueError, match=r"two tasks are called 'output', in groundbox\.\S+ and in \S*test_tasks"):
        task("output", about="of nothing", place=1)(make)
