import pytest

from groundbox.agent.repeats import Seen, advice, failure_key
from groundbox.agent.turn import Bounds, Spent, Verdict, after_run, exhausted, judge_run, what_is_left
from groundbox.errors import InvalidArgument
from groundbox.execution import Failure, Warning


def judge(made, *failures, source="x", findings=(), **made_of):
    """The decision on the last of several runs."""
    seen = Seen()
    for failure in failures:
        execution = made.execution(error=failure)
        seen = seen.after(execution, source)
    if not failures:
        execution = made.execution(**made_of)
    return judge_run(execution, findings, seen, source)


def test_a_run_that_went_well_is_accepted(made):
    assert judge(made, stdout="1").verdict is Verdict.ACCEPT


def test_a_run_that_failed_is_tried_again(made):
    decision = judge(made, "KeyError: 'x'")

    assert decision.verdict is Verdict.RETRY
    assert decision.hints == []


def test_a_success_that_is_surely_wrong_is_tried_again(made):
    finding = Warning(code="sql.duplicates_by_join", tier="error", message="each row counts twice")

    decision = judge(made, findings=[finding])

    assert decision.verdict is Verdict.RETRY
    assert decision.why == "it ran, and sql.duplicates_by_join says that its result is wrong"


def test_a_success_that_may_be_wrong_is_accepted_with_a_word(made):
    decision = judge(made, findings=[Warning(code="c", tier="warn", message="hm")])

    assert decision.verdict is Verdict.ACCEPT
    assert "another way" in decision.hints[0]


def test_the_same_failure_is_named_with_its_number(made):
    second = judge(made, "KeyError: 'x'", "KeyError: 'x'")
    third = judge(made, *["KeyError: 'x'"] * 3)

    assert second.hints[0].startswith("This is the same program and the same failure for the second time.")
    assert "for the third time. Change the approach" in third.hints[0]
    assert judge(made, "KeyError: 'x'", "KeyError: 'y'").hints == []
    assert advice(12, same_program=False).startswith("This is the same failure for the 12th time.")


def test_what_differs_from_run_to_run_does_not_make_a_failure_another(made):
    def key(message, source="a\nb = f()\n", line=2):
        return failure_key(made.execution(error=Failure(type="E", message=message, line=line)), source)

    assert key("<f at 0x7f3a> in <cell 3>") == key("<f at 0x91bc> in <cell 17>")
    assert key("after 3.1 seconds") == key("after 3.7 seconds")
    assert key("m") == key("m", source="new line\nand\nb = f()\n", line=3)
    assert key("m") != key("m", source="a\nc = g()\n")
    assert key("column 2023") != key("column 2024")


@pytest.mark.parametrize(
    ("spent", "word"),
    [
        ({"turns": 5}, "max_turns=5"),
        ({"retries": 3}, "max_retries=3"),
        ({"malformed": 2}, "max_malformed=2"),
        ({"restarts": 2}, "max_restarts=1"),
        ({"wall_s": 10.0}, "wall_s=10"),
        ({"tokens": 1000}, "max_tokens=1000"),
    ],
)
def test_each_bound_is_named_where_it_is_reached_and_not_before(spent, word):
    bounds = Bounds(max_turns=5, max_retries=3, max_malformed=2, max_restarts=1, wall_s=10.0, max_tokens=1000)
    (name, value) = next(iter(spent.items()))
    below = {name: value - 1}

    assert word in exhausted(Spent(**spent), bounds)
    assert exhausted(Spent(**below), bounds) == ""
    assert "max_same_failure=4" in exhausted(Spent(), bounds, same_failure=4)


def test_a_run_that_is_accepted_ends_the_row_of_failures(made):
    spent = after_run(Spent(retries=2, malformed=1), judge(made, stdout="1"))

    assert (spent.runs, spent.retries, spent.malformed) == (1, 0, 0)
    assert after_run(spent, judge(made, "E: m")).retries == 1


def test_what_is_left_is_told_when_it_becomes_little():
    bounds = Bounds(max_turns=10, wall_s=100.0, max_tokens=1000)

    assert what_is_left(Spent(turns=3), bounds) == "left: 7 turns."
    told = what_is_left(Spent(turns=9, retries=1, wall_s=80.0, tokens=900), bounds)
    assert told.startswith("left: 1 turn, 3 failed attempts, 20 s, 100 tokens. Answer now")


def test_what_another_loop_counts_is_not_told():
    assert what_is_left(Spent(), Bounds(), turns_counted=False) == ""
    assert what_is_left(Spent(retries=1), Bounds(), turns_counted=False) == "left: 3 failed attempts."
    assert "Answer now" in what_is_left(Spent(runs=24), Bounds(), turns_counted=False)


@pytest.mark.parametrize("wrong", [{"max_turns": 0}, {"wall_s": 0}, {"max_tokens": True}, {"max_mends": -1}])
def test_bounds_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(InvalidArgument, match="must be"):
        Bounds(**wrong)
