"""Programs that work out a number are compared by number."""

import asyncio

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.pal import Item, number, read_items, score

LOOP = asyncio.Runner()
LIMITS = gb.Limits(wall_s=5, cpu_s=2)


@pytest.mark.parametrize(
    ("program", "answer", "reason"),
    [
        ("def solution():\n    eggs = 16\n    return (eggs - 7) * 2", 18, "right"),
        ("def solution():\n    return 17", 18, "wrong"),
        ("def solution():\n    print(18)", 18, "right"),
        ("def solution():\n    return '$1,234.50'", 1234.5, "right"),
        (
            "def solution():\n    import sympy\n    x = sympy.Symbol('x')\n    return float(sympy.solve(2 * x - 3)[0])",
            1.5,
            "right",
        ),
        ("print('the answer is 18')", 18, "right"),
        ("print(1)\nprint('about 18.0 eggs')", 18, "right"),
        ("print('none')", 18, "no-number"),
        ("def solution():\n    return object()", 18, "no-number"),
        ("1 / 0", 18, "error"),
        ("while True: pass", 18, "timeout"),
        ("def solution(", 18, "error"),
        ("print(float('nan'))", 18, "no-number"),
    ],
)
def test_a_program_is_scored(program, answer, reason):
    item = Item(question="?", program=program, answer=answer)

    assert LOOP.run(score(item, limits=LIMITS, options={})).reason == reason


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3, 3.0),
        (True, 1.0),
        ("a 1,234.5 b", 1234.5),
        ("-2e3", -2000.0),
        ("x", None),
        (None, None),
        (1e999, None),
        (10**400, None),
    ],
)
def test_numbers(value, found):
    assert number(value) == found


def test_items_are_read(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text('{"question": "q", "program": "print(1)", "answer": "#### 1,000"}\n')

    assert read_items(file) == [Item(question="q", program="print(1)", answer=1000.0)]


@pytest.mark.parametrize("line", ['{"program": "1"}', '{"answer": 1}', "", "3"])
def test_a_bad_line_is_refused(tmp_path, line):
    file = tmp_path / "p.jsonl"
    file.write_text(line)

    with pytest.raises(InvalidArgument, match="--samples"):
        read_items(file)
