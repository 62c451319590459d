"""Single claims: what supports them, what contradicts them, what nobody can say."""

import pytest

from groundbox.trace.proof.claims import Kind
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status, Verdict

TRUE = [
    ("gcd", "a becomes 18 and b becomes 48 % 18 = 12."),
    ("gcd", "We get $b = 48 \\bmod 18 = 12$."),
    ("gcd", "The loop runs three times and gcd(48, 18) returns 6."),
    ("gcd", "| a | b |\n|---|---|\n| 48 | 18 |\n| 18 | 12 |\n"),
    ("gcd", "a: 48 → 18 → 12 → 6"),
    ("sum_even", "total grows from 0 to 4, as 4 is added."),
    ("sum_even", "3 % 2 == 0 is false."),
    ("sum_even", "Initially nums is [3, 4, 7, 10, 2]. total is 16. Recall that total was 0."),
    ("fib", "fib is called 9 times and the recursion depth is 4."),
    ("bubble", "We swap 3 and 1, giving [1, 3, 2, 4]."),
    ("brackets", "We append '(' to stack, giving ['(']."),
    ("brackets", "'[' is popped from stack."),
    ("wordcount", "counts['the'] is incremented to 2."),
    ("divide", "1 / 0 raises a ZeroDivisionError, which is caught."),
    ("account", "self.balance drops from 100 to 70."),
    ("account", "withdraw(90) raises ValueError('insufficient funds')."),
    ("evens", "evens yields 2."),
    ("fizz", "The program prints:\n\n```\n1\n2\nFizz\n4\nBuzz\n```\n"),
    ("fizz", "It prints Fizz."),
    ("interest", "balance is about 115.76."),
    ("search", "low becomes 4 on line 8."),
    ("collatz", "6 → 3 → 10 → 5 → 16 → 8 → 4 → 2 → 1"),
    ("transpose", "The outer loop runs 3 times."),
    ("bfs", "queue is [('B', 1), ('C', 1)]."),
]
FALSE = [
    ("gcd", "a becomes 18 and b becomes 48 % 18 = 10.", "b"),
    ("gcd", "b becomes 48 % 36 = 12.", ""),
    ("gcd", "The loop runs four times.", "four times"),
    ("gcd", "| a | b |\n|---|---|\n| 48 | 18 |\n| 18 | 13 |\n", "13"),
    ("gcd", "zeta becomes 5 and `zeta` = 5.", "zeta"),
    ("sum_even", "total grows from 0 to 4, as 5 is added.", "total"),
    ("sum_even", "When x is 7, x % 2 == 0 is true. When x is 10, total becomes 14.", ""),
    ("sum_even", "total becomes 4. total becomes 16.", "total"),
    ("sum_even", "total becomes 14. Then total becomes 4.", "total"),
    ("sum_even", "total becomes 4. total becomes 4.", "total"),
    ("fib", "fib(3) returns 3.", "fib(3)"),
    ("divide", "1 / 0 raises a TypeError.", "TypeError"),
    ("interest", "balance is 115.76.", "balance"),
    ("search", "low becomes 4 on line 10.", "line 10"),
    ("fizz", "The program prints:\n\n```\n1\nFizz\n2\n```\n", "Fizz"),
    ("bfs", "queue is [('C', 1), ('B', 1)].", "queue"),
]


@pytest.mark.parametrize(("program", "text"), TRUE)
def test_a_true_text_is_faithful(stored, program, text):
    proof = prove(text, stored(program))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(("program", "text", "quoted"), FALSE)
def test_a_false_text_is_not_and_the_message_quotes_it(stored, program, text, quoted):
    proof = prove(text, stored(program))

    assert not proof.faithful
    assert any(quoted in message for message in proof.failed)


def test_a_verdict_says_what_is_so_instead(stored):
    proof = prove("total becomes 5.", stored("sum_even"))

    assert proof.verdicts == [
        Verdict(
            kind=Kind.CHANGE,
            quote="total becomes 5",
            start=0,
            end=15,
            sentence=0,
            status=Status.CONTRADICTED,
            step=7,
            actual="0",
            message="“total becomes 5”: the next change of total is to 0",
        )
    ]
    assert proof.failed == ["“total becomes 5”: the next change of total is to 0"]


def test_a_text_without_claims_is_not_faithful(stored):
    proof = prove("This is a nice little program.", stored("gcd"))

    assert (proof.faithful, proof.failed, proof.faithfulness, proof.sentence_coverage) == (False, [], 0.0, 0.0)


@pytest.mark.parametrize("text", ["If a becomes 99 we stop.", "Is b equal to 99?", "We expected b to be 99."])
def test_what_is_only_supposed_or_asked_is_no_claim(stored, text):
    assert prove(text, stored("gcd")).verdicts == []


@pytest.mark.parametrize(
    ("text", "given", "faithful"),
    [
        ("b becomes 12. The answer is 6.", True, True),
        ("b becomes 12. The answer is 7.", False, False),
        ("b becomes 12.", None, False),
    ],
)
def test_a_given_answer_has_to_be_told(stored, text, given, faithful):
    proof = prove(text, stored("gcd"), answer=6)

    assert (proof.answer, proof.faithful) == (given, faithful)


def test_an_answer_may_be_written_as_json(stored):
    assert prove("Final answer: [8, 16]", stored("collatz"), answer=[8, 16]).faithful


def test_coverage_counts_sentences_and_events(stored):
    proof = prove("b becomes 12. What a nice number.", stored("gcd"))

    assert proof.sentence_coverage == 0.5
    assert 0 < proof.event_coverage < 0.2


FIB = """\
def fib(n):
    total = 0
    if n < 2:
        return n
    total += fib(n - 1)
    total += fib(n - 2)
    return total
"""
_FIRST = "In `fib(14)` total starts at 0. total grows from 0 to 233, as `fib(n - 1)` = 233 is added. "


@pytest.mark.parametrize(("said", "faithful"), [(144, True), (143, False), (89, False)])
def test_an_equation_is_found_after_a_call_of_many_steps(recorded, said, faithful):
    text = f"{_FIRST}Adding `fib(n - 2)` = {said} takes total from 233 to 377."

    assert prove(text, recorded(FIB, "fib", 14)).faithful is faithful


ROUNDS = """\
def main(n):
    round = 0
    while round < n:
        round += 1
    return round
"""


@pytest.mark.parametrize(("said", "faithful"), [("4, 5, 6", True), ("4, 5, 7", False), ("3, 4, 5", False)])
def test_a_name_in_code_is_no_word_for_iterations(recorded, said, faithful):
    text = f"The loop begins. In iterations 4 to 6 `round` takes the values {said}."

    assert prove(text, recorded(ROUNDS, "main", 8)).faithful is faithful


def test_rounds_in_plain_words_are_iterations(recorded):
    trace = recorded(ROUNDS, "main", 8)

    assert [prove(f"After {count} rounds the loop ends.", trace).faithful for count in (8, 7)] == [True, False]
