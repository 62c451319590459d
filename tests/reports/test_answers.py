"""Answers in scripts without blanks, and counts of what has items."""

import json
import time

import pytest

import groundbox as gb
from groundbox.check import check_answer

UNSUPPORTED, EXACT, DERIVABLE = "unsupported", "exact", "derivable"


def _verdicts(source, answer):
    report = check_answer(answer, [gb.run(source)])
    return {mention.text: str(mention.verdict) for mention in report.mentions}


@pytest.mark.parametrize(
    ("printed", "answer", "verdicts"),
    [
        (
            "54321",
            "总额为54321元，同比增长37%，共有888名客户。",
            {"54321": EXACT, "37%": UNSUPPORTED, "888": UNSUPPORTED},
        ),
        ("54321", "الإجمالي ٥٤٬٣٢١ والنمو ٣٧٪", {"٥٤٬٣٢١": EXACT, "٣٧٪": UNSUPPORTED}),
        ("54321.5", "المجموع ٥٤٬٣٢١٫٥", {"٥٤٬٣٢١٫٥": EXACT}),
        ("54321", "合計は99,999円です。", {"99,999": UNSUPPORTED}),
        ("54321 2024-03-06", "2024年3月6日の合計は54,321円です。", {"2024年3月6日": EXACT, "54,321": EXACT}),
        ("54321 2024-03-06", "2024年3月7日", {"2024年3月7日": UNSUPPORTED}),
        ("2024-03", "2024年3月和2024年5月", {"2024年3月": EXACT, "2024年5月": UNSUPPORTED}),
        ("54321", "ยอดรวม54321บาท เพิ่มขึ้น37%", {"54321": EXACT, "37%": UNSUPPORTED}),
        ("54321", "총54,321원, 고객888명", {"54,321": EXACT, "888": UNSUPPORTED}),
        ("54321", "约5.4万元", {"5.4万": DERIVABLE}),
        ("54321", "约6.4万元", {"6.4万": UNSUPPORTED}),
        ("120000000", "总计1億2000万円", {"1億2000万": EXACT}),
        ("0.37", "增长百分之37", {"37": DERIVABLE}),
        ("54321", "第3章，5月，4号线", {"3": "no_claim", "5": "no_claim", "4": "no_claim"}),
        ("总额54321元", "总额是54321元，不是54322元", {"54321": EXACT, "54322": UNSUPPORTED}),
        ("CSI300", "B12a和X99", {"12": "no_claim", "99": "no_claim"}),
    ],
)
def test_digits_among_letters_of_scripts_without_blanks_are_claims(printed, answer, verdicts):
    assert _verdicts(f"print({printed!r})", answer) == verdicts


def test_a_file_named_in_such_a_text_is_looked_for_without_the_words_before_it():
    found = _verdicts("open('report.csv', 'w').write('a')", "结果保存在report.csv和other.csv中。")

    assert found == {"report.csv": EXACT, "other.csv": UNSUPPORTED}


@pytest.mark.parametrize(
    "answer", ["Sales grew by half, i.e. 50%.", "Sales grew, e.g. 50% in a year.", "Sales grew, cf. 50% in a year."]
)
def test_an_abbreviation_does_not_end_a_sentence(answer):
    assert _verdicts("print(100, 150)", answer) == {"50%": DERIVABLE}


@pytest.mark.parametrize("words", ["about 50%", "approx. 50%", "roughly 50 percent", "~50%"])
def test_a_number_that_follows_exactly_also_follows_if_the_answer_calls_it_rough(words):
    assert list(_verdicts("print(100, 150)", f"Sales grew by {words}.").values()) == [DERIVABLE]
    assert list(_verdicts("print(100, 150)", f"Sales grew by {words.replace('50', '40')}.").values()) == [UNSUPPORTED]


ITEMS = {
    "list": "['x', 'y', 'z']",
    "tuple": "('x', 'y', 'z')",
    "set": "{'x', 'y', 'z'}",
    "dict": "{'x': 7, 'y': 8, 'z': 9}",
    "numbers": "[11, 15, 19]",
    "nested": "[['a'], ['b'], ['c']]",
    "counter": "__import__('collections').Counter('abc')",
    "deque": "__import__('collections').deque('abc')",
    "keys": "dict(a=1, b=2, c=4).keys()",
    "json": "__import__('json').dumps([{'id': 7}, {'id': 8}, {'id': 9}])",
    "json over lines": "__import__('json').dumps([{'id': 7}, {'id': 8}, {'id': 9}], indent=2)",
    "long": str([f"name {number}" for number in range(3)]),
}


@pytest.mark.parametrize("printed", [True, False], ids=["printed", "value"])
@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS.keys())
def test_the_number_of_items_follows_from_what_has_them(items, printed):
    source = f"print({items})" if printed else items

    assert _verdicts(source, "There are three items.")["three"] in (DERIVABLE, EXACT)
    assert _verdicts(source, "There are six items.") == {"six": UNSUPPORTED}


@pytest.mark.parametrize(
    ("printed", "answer", "verdict"),
    [
        ("fruits: ['a', 'b', 'c', 'd']", "There are 4 fruits.", DERIVABLE),
        ("fruits: ['a', 'b', 'c', 'd']", "There are 4 customers.", UNSUPPORTED),
        (json.dumps({"fruits": list("abcd"), "nuts": ["x"]}), "There are 4 fruits.", DERIVABLE),
        (json.dumps({"fruits": list("abcd"), "nuts": ["x"]}), "There are 3 fruits.", UNSUPPORTED),
        ("the range (low, mid, high, top) holds", "There are 4 items.", UNSUPPORTED),
        ("[INFO] ready", "There is 1 item.", UNSUPPORTED),
    ],
)
def test_a_count_is_of_what_the_words_beside_it_say(printed, answer, verdict):
    assert list(_verdicts(f"print({printed!r})", answer).values()) == [verdict]


@pytest.mark.parametrize(
    "hostile", ["[" * 60_000, "'" * 60_000, "[1, " * 20_000, "(" * 200 + "\n" * 5000, "年" * 60_000]
)
def test_hostile_text_takes_bounded_time(hostile):
    ran = gb.run(f"print({hostile!r})")
    begun = time.process_time()

    check_answer("There are three items. " + hostile[:10_000], [ran])

    assert time.process_time() - begun < 5
