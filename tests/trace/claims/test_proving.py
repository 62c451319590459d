"""What texts say of a run is supported, refuted with a record, not found, or about something else."""

from typing import Any

import pytest

from groundbox.trace.claims import Status, happened, prove
from groundbox.trace.claims.program import Outer, outer_names
from groundbox.trace.claims.run import Run
from groundbox.trace.run.python_values import python_value

TELLS = (
    "total is called with [3, 90, 4] and 50. `s` = 0 at first. Since 90 is not less than 50, it is skipped. "
    "`s` becomes 7. Therefore, the output of total is 7."
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("`s` is 3.", "supported"),
        ("s = 7", "supported"),
        ("s = 93", "refuted"),
        ("The value of `s` becomes 8.", "refuted"),
        ("`prices[1]` is 90.", "supported"),
        ("`prices[1]` is 91.", "refuted"),
        ("`price < limit` is False.", "supported"),
        ("`limit == 50` holds.", "supported"),
        ("Since `limit == 3` holds, it goes on.", "refuted"),
        ("`limit == 50` does not hold.", "refuted"),
        ("`limit == 3` fails.", "supported"),
        ("The condition `limit == 3` isn't met.", "supported"),
        ("`limit == 3` is satisfied.", "refuted"),
        ("`limit == 3` is not true.", "supported"),
        ("`limit == 3` is not false.", "refuted"),
        ("`limit == 3` isn't true.", "supported"),
        ("If `limit == 3` holds, it goes on.", "off_program"),
        ("`limit == 3` passes.", "refuted"),
        ("`limit == 3` does not pass.", "supported"),
        ("`limit == 50` no longer succeeds.", "refuted"),
        ("The check `limit == 3` comes out true.", "refuted"),
        ("`limit == 3` comes out as `False`.", "supported"),
        ("`limit == 3` turns out to be true.", "refuted"),
        ("`limit == 3` turned out not to be true.", "supported"),
        ("`limit == 3` proves false.", "supported"),
        ("`limit == 50` evaluates to False.", "refuted"),
        ("`limit == 3` does not evaluate to True.", "supported"),
        ("`limit == 50` doesn't come out true.", "refuted"),
        ("`limit == 50` isn't True.", "refuted"),
        ("`limit == 50` is clearly false.", "refuted"),
        ("`limit == 3` is still true.", "refuted"),
        ("`limit == 3` is no longer met.", "supported"),
        ("`limit == 50` is not the case.", "refuted"),
        ("`limit == 3`, which is false.", "supported"),
        ("`limit == 50`, which does not hold.", "refuted"),
        ("The `limit == 3` branch is skipped.", "supported"),
        ("The branch `limit == 50` is not taken.", "refuted"),
        ("The `if limit == 3` is entered.", "refuted"),
        ("the length of prices is 3", "supported"),
        ("len(prices) = 4", "refuted"),
        ("90 is not less than 50", "supported"),
        ("3 + 4 = 7", "supported"),
        ("3 + 4 = 8", "off_program"),  # mathematics, which no record refutes
        ("If s is 3, it goes on.", "off_program"),
        ("The output is 7.", "supported"),
        ("The final result is 8.", "refuted"),
        ("total([3, 90, 4], 50) returns 7.", "supported"),
        ("total([3, 90, 4], 50) == 8", "refuted"),
        ("total([1], 50) == 1", "not_found"),  # another call than those recorded
        ("The input is [3, 90, 4].", "supported"),
        ("The input is [3, 91, 4].", "not_found"),
        ("prices is 3", "not_found"),  # a list is no number: a word for something else
    ],
)
def test_a_claim_has_its_status(statuses, text, status):
    assert [found for _, found in statuses(text)] == [status]


@pytest.mark.parametrize(
    "text",
    [
        "`limit == 50` is now checked.",
        "`limit == 50` is noted.",
        "`limit == 50` passes `s` on.",
        "With `limit > 3` it fails.",
        "`limit > 3`, the case.",
    ],
)
def test_words_that_say_nothing_of_how_a_test_came_out_claim_nothing(statuses, text):
    assert statuses(text) == []


def test_what_is_refuted_names_the_record_and_never_repeats_the_texts_value(proof, run):
    (verdict,) = proof("s = 93").verdicts

    assert verdict.message == f"`s` is 0 at record {verdict.step}, later 3, 7; never what the text says"
    assert verdict.step < len(run.records)


def test_a_text_that_tells_the_run_passes(proof):
    found = proof(TELLS)

    assert found.passes
    assert found.answer is True
    assert found.to_dict()["numbers"] == {"covered": 9, "total": 9}


@pytest.mark.parametrize("number", ["3", "90", "4", "50", "0", "7"])
def test_a_changed_number_is_noticed(proof, number):
    places = [at for at in range(len(TELLS)) if TELLS.startswith(number, at) and not TELLS[at - 1].isdigit()]

    for at in places:
        assert not proof(f"{TELLS[:at]}{int(number) + 1}{TELLS[at + len(number) :]}").passes, at


@pytest.mark.parametrize(
    ("text", "answer"),
    [("s = 3.", None), ("The output is 8.", False), ("The result is 9. No, the result is 7.", True)],
)
def test_the_result_has_to_be_told(proof, text, answer):
    found = proof(text)

    assert (found.answer, found.passes) == (answer, False)


def test_another_answer_can_be_asked_for(proof):
    assert proof("The output is 7.", answer=7).answer is True
    assert proof("The output is 7.", answer=8).answer is False


def test_true_is_no_one_and_digits_may_be_rounded(recorded):
    run = recorded("def f(x):\n    r = x / 3\n    t = r > 1\n    return r\n", "f", 10)

    def told(text):
        return [str(verdict.status) for verdict in prove(text, run).verdicts]

    assert told("r = 3.33") == ["supported"]
    assert told("r = 3.34") == ["refuted"]
    assert told("`t` is True") == ["supported"]
    assert told("`t` is 1") == ["not_found"]


def test_a_run_that_was_not_recorded_whole_refutes_nothing(recorded):
    source = "def f(n):\n    s = 0\n    for i in range(n):\n        s += i\n    return s\n"
    run = recorded(source, "f", 400, soft_events=50)

    assert run.folded
    assert [str(v.status) for v in prove("s = 1234567", run).verdicts] == ["not_found"]


def test_values_of_an_object_are_those_of_the_moment(recorded):
    run = recorded("def f():\n    a = []\n    for i in range(3):\n        a.append(i)\n    return a\n", "f")
    text = "a = []. a = [0, 1]. a = [0, 1, 2]. a = [0, 2]."

    assert [str(v.status) for v in prove(text, run).verdicts] == ["supported"] * 3 + ["refuted"]


def test_what_a_program_printed_is_its_result(traced):
    run = traced("print(6 * 7)")

    assert prove("The output is 42.", run).passes
    assert prove("The output is 43.", run).count(Status.REFUTED) == 1


COUNTS = """\
def count(words):
    seen = {}
    log = []
    for word in words:
        if word in seen:
            log.append(word)
        seen[word] = seen.get(word, 0) + 1
    log.remove(log[0])
    return max(seen.values())
"""


@pytest.fixture(scope="module")
def counted(recorded):
    """count(["a", "b", "a", "a"]), which gives 3."""
    return recorded(COUNTS, "count", ["a", "b", "a", "a"])


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("The loop runs 4 times.", "rounds", "supported"),
        ("The loop runs 5 times.", "rounds", "refuted"),
        ("The loop executes four times.", "rounds", "supported"),
        ("count is called once.", "calls", "supported"),
        ("`seen` changes from {} to {'a': 1}.", "change", "supported"),
        ("`seen` changes from {} to {'b': 1}.", "change", "not_found"),
        ("'a' is appended to log.", "add", "supported"),
        ("It appends 'b' to log.", "add", "not_found"),
        ("It removes 'a' from log.", "remove", "supported"),
        ("seen['a'] += 1", "add", "supported"),
        ("seen['a'] += 2", "add", "not_found"),
        ("word goes from 'a' to 'b'.", "change", "supported"),
        ("The second element is 'b'.", "member", "supported"),
        ("The third element is 'b'.", "member", "not_found"),
        ("The key 'a' maps to 3.", "pair", "supported"),
        ("The key 'a' maps to 4.", "pair", "not_found"),
        ("The length of the list is 4.", "value", "supported"),
        ("The dictionary becomes {'a': 2, 'b': 1}.", "value", "supported"),
        ("'a' appears 3 times.", "value", "supported"),
        ("0 ≤ len(log) ≤ 2 is True", "test", "supported"),
        ("len(words) = 2 + 2 = 4", "test", "supported"),
        ("`len(words) = 2 + 2`", "test", "supported"),
        ("$2^{3} = 8$", "value", "supported"),
        ("17 mod 5 = 2", "value", "supported"),
        ("**Return:** 3", "return", "supported"),
        ("\\boxed{4}", "return", "refuted"),
        ("What is count(['a', 'b', 'a', 'a'])? The answer is 3.", "return", "supported"),
    ],
)
def test_a_claim_of_a_kind_has_its_status(counted, text, kind, status):
    verdict = prove(text, counted).verdicts[-1 if "?" in text or "2 + 2 =" not in text else 0]

    assert (str(verdict.claim.kind), str(verdict.status)) == (kind, status)


def test_an_exception_is_the_result_of_a_run_that_it_ends(traced):
    run = traced("def f(d):\n    return d['x']\n\nf({})\n")

    assert [str(v.status) for v in prove("It raises a KeyError.", run).verdicts] == ["supported"]
    assert [str(v.status) for v in prove("It raises a ValueError.", run).verdicts] == ["not_found"]


def test_a_table_of_states_claims_what_its_cells_say(counted):
    table = "| iteration | word | seen |\n|---|---|---|\n| 1 | 'a' | {'a': 1} |\n| 2 | 'b' | {'a': 1, 'b': 2} |\n"

    found = [(str(v.claim.kind), str(v.status)) for v in prove(table, counted).verdicts]

    assert found == [("value", "supported"), ("value", "supported"), ("value", "supported"), ("value", "not_found")]


def test_code_that_is_quoted_claims_what_it_assigns_unless_the_program_says_so(counted):
    text = "`seen = {'a': 7}` and `log = []` and `log, seen = [], {}`"

    found = [str(verdict.status) for verdict in prove(text, counted).verdicts]

    assert found == ["refuted", "supported", "supported"]


def test_messages_tell_the_other_side_and_no_value_of_the_text(proof):
    text = "`s` == 93. `s + 1` is 94. total([3, 90, 4], 50) == 95. The sum is 3 + 4 = 96. The output is 97."

    messages = [verdict.message for verdict in proof(text).verdicts]

    assert all(messages)
    assert not any(str(number) in message for number in range(93, 98) for message in messages)


def test_what_was_taken_back_is_not_refuted(statuses):
    assert statuses("Wait, `s` = 93 would be wrong, so `s` = 7.")[-1] == ("so `s` = 7", "supported")
    assert all(status != "refuted" for _, status in statuses("Hmm, maybe `s` = 93."))


def test_a_number_near_others_of_the_run_has_to_be_claimed(proof):
    # 90 is far from all other numbers of the run; 4 is one slip from 3
    assert [number.covered for number in proof("Then 90 comes, and 8.").numbers] == [True, False]


@pytest.mark.parametrize(
    "text", ["√s = 9", "k * s = 93", "s = 4! and more", "s = 4 ÷ m", "prices, s = 93", "len(prices) = 3 < 4"]
)
def test_a_part_of_a_formula_is_not_refuted(proof, text):
    assert proof(text).count(Status.REFUTED) == 0


def test_floats_that_were_worked_out_in_another_way_are_equal(recorded):
    run = recorded("def f(a, b):\n    r = (a - b) / b\n    return r\n", "f", 0.3, 0.1)

    assert [str(v.status) for v in prove("r = 0.2 / 0.1", run).verdicts] == ["supported"]


def test_what_a_method_returns_is_no_result(recorded):
    run = recorded("def f(s, t):\n    at = s.find(t)\n    return at if s == t else -1\n", "f", "abc", "a")

    assert [str(v.status) for v in prove("The `find` method returns 0.", run).verdicts] == ["supported"]
    assert [str(v.status) for v in prove("Since it is, it returns this, which is 0.", run).verdicts] == ["not_found"]
    assert [str(v.status) for v in prove("So the function will return the index 0.", run).verdicts] == ["not_found"]
    assert [str(v.status) for v in prove("The output is 0.", run).verdicts] == ["refuted"]


def test_what_was_given_is_not_what_comes_of_it(recorded):
    run = recorded("def f(s):\n    t = s + 'd'\n    return t\n", "f", "abc")

    assert [str(v.status) for v in prove("It adds a letter, resulting in 'abcd'.", run).verdicts] == ["supported"]
    assert [str(v.status) for v in prove("It drops a letter, resulting in 'abc'.", run).verdicts] == ["not_found"]


EVENS = "def f(xs):\n    t = 0\n    for x in xs:\n        if x % 2 == 0:\n            t += x\n    return t\n"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("When x is 7, x % 2 == 0 is false. The output is 4.", True),
        ("When x is 7, x % 2 == 0 is true. The output is 4.", False),
        ("With `x` = 4, `x % 2 == 0` holds: x % 2 == 0 is true. The output is 4.", True),
        ("With `x` = 4 the test x % 2 == 0 is false. The output is 4.", False),
        ("x % 2 == 0 is true for x = 4. The output is 4.", True),
    ],
)
def test_a_test_has_to_come_out_so_with_the_values_of_its_sentence(recorded, text, passes):
    assert prove(text, recorded(EVENS, "f", [4, 7])).passes is passes


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("`price < limit` is false (90 < 50).", True),
        ("`price < limit` is false, because 90 >= 50.", True),
        ("90 >= 50, so `price < limit` is false.", True),
        ("3 < 50, so `price < limit` is true.", True),
        ("90 < 50 is false.", True),
        ("Is 90 < 50? No.", True),
        ("90 < 50 does not hold.", True),
        ("It checks 90 < 50, and 90 is skipped.", True),
        ("| 90 < 50 | False |", True),
        ("90 < 50, so `price < limit` is false.", False),
        ("`price < limit` is false (3 < 50).", False),
        ("`price < limit` is false because 3 < 50.", False),
        ("3 >= 50, so `price < limit` is true.", False),
        ("`price < limit` is true (90 < 50).", False),
        ("Since 90 < 50, it is added.", False),
        ("90 >= 50, so `price < limit` is true.", False),
    ],
)
def test_a_comparison_of_numbers_goes_with_what_is_said_of_its_condition(proof, text, passes):
    assert proof(f"{text} The output is 7.").passes is passes


def test_what_the_run_gives_is_not_taken_for_what_another_call_gives(recorded):
    source = "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n"
    run = recorded(source, "fib", 4)

    assert prove("fib(3) returns 2, so the final result is 3.", run).passes
    assert not prove("fib(1) returns 1, so fib(3) returns 3. The final result is 3.", run).passes


COOK = """
def main(needs, wanted):
    order = []

    def cook(name):
        for each in needs.get(name, []):
            cook(each)
        order.append(name)

    cook(wanted)
    return order

main({"a": ["b"], "b": ["c"]}, "a")
"""
VISIT = """
seen = []

def visit(n):
    if n > 0:
        seen.append(n)
        visit(n - 1)
        seen.append(-n)

visit(2)
"""


@pytest.mark.parametrize(
    ("source", "text", "status"),
    [
        (COOK, "`order` is now ['c', 'b'].", Status.SUPPORTED),
        (COOK, "`order` is now ['b'].", Status.REFUTED),
        (VISIT, "Then `seen` is [2, 1, -1].", Status.SUPPORTED),
        (VISIT, "Then `seen` is [2, 1, -2].", Status.REFUTED),
    ],
)
def test_an_object_of_an_enclosing_scope_is_seen_where_a_function_changes_it(recorded, source, text, status):
    assert [each.status for each in prove(text, recorded(source)).verdicts] == [status]


ASSIGNED_LATER = """
xs = [1, 2]

def f(n):
    k = n
    xs = [k]
    del xs
    k = 2
    return k

f(5)
"""
OWNED_BY_A_CLASS = """
xs = [1, 2]

def f(n):
    class Kept:
        xs = [n]

    return Kept.xs

f(5)
"""
TWICE = """
def make(start):
    kept = [start]

    def add(x):
        kept.append(x)
        return x

    return add

first, second = make(1), make(10)
first(5)
second(6)
"""
AGAIN = """
xs = [1, 2]

def change():
    global xs
    k = 1
    xs = [5]
    return k

change()
"""


@pytest.mark.parametrize(
    ("source", "text", "status"),
    [
        (ASSIGNED_LATER, "`xs` goes from [1, 2] to [5].", Status.NOT_FOUND),
        (ASSIGNED_LATER, "`xs` goes from [5] to [1, 2].", Status.NOT_FOUND),
        (OWNED_BY_A_CLASS, "`xs` goes from [1, 2] to [5].", Status.NOT_FOUND),
        (TWICE, "`kept` goes from [1] to [10, 6].", Status.NOT_FOUND),
        (TWICE, "`kept` goes from [1] to [10].", Status.NOT_FOUND),
        (AGAIN, "`xs` goes from [1, 2] to [5].", Status.SUPPORTED),
    ],
)
def test_a_name_of_a_code_is_not_taken_for_one_around_it_that_is_called_the_same(recorded, source, text, status):
    assert [each.status for each in prove(text, recorded(source)).verdicts] == [status]


MEMO = """
memo = {}

def fib(n):
    if n < 2:
        return n
    if n not in memo:
        memo[n] = fib(n - 1) + fib(n - 2)
    return memo[n]

fib(30)
"""


def test_an_object_that_many_frames_see_is_worked_out_once_for_each_change_of_it(recorded, monkeypatch):
    run = Run(recorded(MEMO))
    made: Any = []
    monkeypatch.setattr(happened, "python_value", lambda state, raw: made.append(raw) or python_value(state, raw))

    moments = run.happened.moments

    assert sum("memo" in moment.names for moment in moments) > 150
    assert sum(type(raw) is dict and "ref" in raw for raw in made) == 30  # empty, and after each of 29 changes


TAKES = """
a = []

def f(b):
    c = a

    def g():
        nonlocal c
        return [a for a in b], c, d

    d = g
"""


def test_names_from_around_a_code_are_those_that_it_does_not_bind():
    assert outer_names(TAKES) == {
        "f": Outer(frozenset(), frozenset({"a"})),
        "f.<locals>.g": Outer(frozenset({"b", "c", "d"}), frozenset()),
    }
    assert outer_names("def f():\n    nonlocal x\n") == outer_names("def") == {}


RISES = """
def pairs(xs):
    for x in xs:
        yield x, x * 2 % 9

def f(xs):
    rises = 0
    for low, high in pairs(xs):
        if low < high:
            rises += 1
    return rises

f([5, 4])
"""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("When `low` is 5, `low < high` is False.", True),
        ("When `low` is 4, `low < high` is False.", False),  # the run is not known whole: it has a generator
        ("When `low` is 4, `low < high` is True.", True),
    ],
)
def test_a_test_holds_with_the_values_of_its_sentence_or_is_not_found(recorded, text, holds):
    assert all(each.holds for each in prove(text, recorded(RISES)).verdicts) is holds


TAKEN = """
taken = []

def take(n):
    taken.append(n)
    return len(taken)

def f(n):
    t = 0
    for i in range(n):
        t += take(1)
    return t
"""


@pytest.mark.parametrize(("soft_events", "status"), [(20_000, Status.REFUTED), (10, Status.NOT_FOUND)])
def test_what_a_call_gives_is_refuted_only_where_every_call_is_recorded(recorded, soft_events, status):
    trace = recorded(TAKEN, "f", 60, soft_events=soft_events)
    assert trace.folded is (soft_events == 10)

    assert [each.status for each in prove("`take(1)` returns 61.", trace).verdicts] == [status]
