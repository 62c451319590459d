"""Expressions are worked out exactly, or refused with what to write instead."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.agent.calc.bounds import MOST_BITS, CalculationError
from groundbox.agent.calc.calculation import calculate, decimal
from groundbox.errors import GroundboxError, InvalidArgument


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("0.1 + 0.2", "0.3"),
        ("1,234.5 × 2", "2469"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 mod 3", "2"),
        ("7 % 3", "1"),
        ("2 ^ -3", "0.125"),
        ("-2 ** 2", "-4"),
        ("2 ** 3 ** 2", "512"),
        ("10!", "3628800"),
        ("sqrt(9/4)", "1.5"),
        ("round(2.675, 2)", "2.68"),
        ("max(1, 7/2, 3)", "3.5"),
        ("mean(1, 2, 6)", "3"),
        ("1/2 == 0.5", "true"),
        ("1 < 2 < 2", "false"),
        ("15 % of 200", "30"),
        ("15% of 20%", "0.03"),
        ("20 % off 80", "64"),
        ("200 plus 19 %", "238"),
        ("200 less 19 %", "162"),
        ("5 % + 3 %", "8 %"),
        ("percent increase from 80 to 100", "25 %"),
        ("percent decrease from 100 to 80", "20 %"),
        ("what percent of 80 is 20", "25 %"),
        ("20 is what percent of 80", "25 %"),
        ("20 as a percentage of 80", "25 %"),
        ("20 % off €80", "64 EUR"),
        ("$5 + 3 USD", "8 USD"),
        ("$9 / $3", "3"),
        ("5 km + 300 m", "5.3 km"),
        ("90 min in h", "1.5 h"),
        ("3 GiB in bytes", "3221225472 B"),
        ("1 lb in g", "453.59237 g"),
        ("2 + 2 =", "4"),
    ],
)
def test_an_expression_comes_to(expression, text):
    calculation = calculate(expression)

    assert (calculation.text, calculation.rounded) == (text, False)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1/3", "0.333333333333"),
        ("sqrt(2)", "1.41421356237"),
        ("$10 / 3", "3.33333333333 USD"),
        ("2 * pi", "6.28318530718"),
    ],
)
def test_what_is_rounded_says_so(expression, text):
    calculation = calculate(expression)

    assert (calculation.text, calculation.rounded) == (text, True)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("$5 + 3 EUR", "exchange rates are not known"),
        ("5 km + 3 kg", "cannot be mixed"),
        ("5 km + 3", "give both or none"),
        ("200 + 15 %", "can mean two things"),
        ("max(1,234)", "one number or two"),
        ("9**9**9", f"more than {MOST_BITS} bits"),
        ("2 ** 10000", f"more than {MOST_BITS} bits"),
        ("1000!", "from 0 to 700"),
        ("1/0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("2 ** 0.5", "write sqrt"),
        ("sqrt(-1)", "not negative"),
        ("(" * 100, "nested more than"),
        ("-" * 100 + "1", "nested more than"),
        ("9" * 1001, "digits"),
        ("1 + " * 600, "characters"),
        ("__import__('os')", "is not known here|nothing that can be"),
        ("foo(2)", "'foo' is not known here; there are abs"),
        ("2 +", "a number is missing"),
        ("", "nothing to work out"),
        ("2 3", "was not expected"),
        ("sqrt(2) ** 2 == 2", "cannot be told"),
    ],
)
def test_what_cannot_be_worked_out_is_refused_with_a_word(expression, problem):
    with pytest.raises(CalculationError, match=problem) as caught:
        calculate(expression)

    assert isinstance(caught.value, GroundboxError)


def test_powers_and_factorials_are_refused_above_their_limit_only():
    assert calculate("2 ** 8191").value == 2**8191
    assert calculate("700!").value > 0
    with pytest.raises(CalculationError):
        calculate("2 ** 8193")
    with pytest.raises(CalculationError):
        calculate("701!")


def test_arguments_are_checked():
    with pytest.raises(InvalidArgument, match="expression: must be a str"):
        calculate(3)  # type: ignore[arg-type]  # refused
    with pytest.raises(InvalidArgument, match="digits: must be a whole number"):
        calculate("1", digits=0)


def test_the_json_form_keeps_the_value_exact():
    assert calculate("1/3").to_dict() == {
        "expression": "1/3",
        "value": "1/3",
        "text": "0.333333333333",
        "rounded": True,
        "unit": "",
    }


@given(st.text(max_size=40))
def test_no_text_gives_anything_but_a_value_or_an_error(text):
    try:
        calculate(text)
    except CalculationError:
        pass


@given(st.text(alphabet="0123456789+-*/%().,^!$€ ofplusqrtkminEUR<=", max_size=60))
def test_no_text_of_numbers_and_signs_does_either(text):
    try:
        calculate(text)
    except CalculationError:
        pass


@given(st.fractions(max_denominator=10**6))
def test_decimals_that_are_not_rounded_are_the_value(value):
    text, rounded = decimal(value, 12)

    assert rounded or Fraction(text) == value
    assert abs(Fraction(text) - value) <= abs(value) * Fraction(1, 10**11)
