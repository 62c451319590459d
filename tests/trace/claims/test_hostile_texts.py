"""Texts made to be slow, to run something, or to act in a page or a terminal."""

import itertools
import time
from typing import Any

import pytest

from groundbox.trace.claims import items, prove
from groundbox.trace.claims.page import page

SLOW = {
    "operators": lambda n: "s+" * n,
    "brackets": lambda n: "(s " * n,
    "brackets in rows": lambda n: "(zz)+" * n,
    "quotes that do not end": lambda n: "' \\" * n,
    "backticks": lambda n: "`" * n,
    "backticks apart": lambda n: "` `` " * n,
    "the output of": lambda n: "output of " * n,
    "words": lambda n: "returns " + "a-" * n,
    "claims": lambda n: "s = 3. " * n,
    "claims in one sentence": lambda n: "s = 3 and " * n,
    "numbers": lambda n: "1,234 " * n,
    "markers": lambda n: "- " * n,
    "spaces": lambda n: "s is" + " " * n + "x",
    "values in a row": lambda n: "values 1, 2 and 3, " * n,
    "equations in a row": lambda n: "s = 3 = " * n,
    "words of wordings": lambda n: "the final value of the loop will only run the input list of the " * (n // 8),
    "rows of a table": lambda n: "| s |\n|---|\n" + "| 3 | 4 |\n" * (n // 4),
    "latex": lambda n: "\\frac{1}{2} \\times \\text{s}^{2} " * (n // 4),
    "empty lines": lambda n: "\n \n" * n,
}


@pytest.mark.parametrize("kind", SLOW)
def test_time_grows_with_the_text_and_not_with_its_square(proof, kind):
    def cost(n):
        text, times = SLOW[kind](n), []
        for _ in range(2):
            begun = time.process_time()
            proof(text)
            times.append(time.process_time() - begun)
        return min(times)

    # Eight times the text; its square would be 64 times the work.
    assert cost(8000) < 28 * max(cost(1000), 0.01)


PIECES = [
    "(", "[", "x[", "{", "'", '"', "'a", "`", "$", "*", "**", "|a", "\\(", "n is (", "i → ", "and ", "is ", "=", "1,",
    "not ", "```\n", "| i | j |\n", "\n- ", "… 5 more …", "it's 'a ", "\x00", "{1:", "x = 1, ", "i becomes [", "𝒙 ",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_a_hundred_kilobytes_of_one_piece_are_judged_and_do_not_pass(proof, piece):
    text = (piece * (100_000 // len(piece) + 1))[:100_000]

    assert not proof(text).passes


@pytest.mark.parametrize(
    "text",
    [
        "`__import__('os').system('touch ran')` is 0",
        "s = 9 ** 9 ** 9 ** 9",
        "`'a' * 10 ** 12` is 'b'",
        "`[0] * 10 ** 12` = [0]",
        "`sum(range(10 ** 12))` = 3",
        "s = " + "[" * 1500 + "]" * 1500,
        "s = " + "9" * 5000,
        "s = '" + "x" * 100_000 + "'",
        "\u202e s = 3 \x1b[31m \x00 \ud800",
        "\ue000 is \uf000",
        "",
    ],
)
def test_nothing_is_run_and_nothing_breaks(proof, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    proof(text).to_dict()

    assert list(tmp_path.iterdir()) == []


def test_more_claims_than_are_worked_through_are_not_found(recorded):
    run = recorded("def f():\n    s = 0\n    for i in range(300):\n        s += i\n    return s\n", "f")

    found = prove("".join(f"s = {n}. " for n in range(10**6, 10**6 + 500)), run)

    assert {str(verdict.status) for verdict in found.verdicts} == {"refuted", "not_found"}


def test_a_page_shows_text_as_text(proof, run):
    shown = page(proof("<script>alert(1)</script> \u202e s = 93 </style>"), run, title="<b>")

    assert "<script" not in shown
    assert "\u202e" not in shown
    assert "&lt;script&gt;" in shown
    assert "<title>&lt;b&gt;</title>" in shown
    assert 'class="refuted"' in shown


def test_a_page_shows_the_record_with_its_line_and_names(proof, run):
    shown = page(proof("| s |\n|---|\n| 3 |\n"), run)

    assert "<code>s: 3</code>" in shown
    assert "line 3: for price in prices:" in shown
    assert "\nlimit = 50\ns = 3\n" in shown


def test_items_stay_within_the_text():
    text = "`a` 'b' [1, 2] (3) x = " * 50

    spans = [(item.start, item.end) for item in items.find(text, {"x"})]

    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert spans[-1][1] <= len(text)


def document(*sentences):
    return {
        "schema": "groundbox.claims/1",
        "sentences": [{"text": text, "claims": list(claims)} for text, *claims in sentences],
    }


NESTED = "[" * 1000 + "]" * 1000
BAD_CLAIMS: dict[str, Any] = {
    "a value of a megabyte": {"kind": "value", "subject": "s", "value": "'" + "x" * 1_000_000 + "'"},
    "a value nested a thousand deep": {"kind": "value", "subject": "s", "value": NESTED},
    "a subject nested a thousand deep": {"kind": "value", "subject": NESTED, "value": "3"},
    "a value that grows": {"kind": "value", "subject": "s", "value": "9 ** 9 ** 9 ** 9"},
    "a text that grows": {"kind": "value", "subject": "s", "value": "'a' * 10 ** 9"},
    "a subject that grows": {"kind": "value", "subject": "s + 9 ** 9 ** 9", "value": "3"},
    "a shift that grows": {"kind": "test", "subject": "1 << 10 ** 9 > s", "value": "1 << 10 ** 9 > 3"},
    "a comprehension that does not end": {
        "kind": "test", "subject": "s in [i for i in range(10**5) for j in range(10**5)]", "value": "True",
    },
    "a call of something": {"kind": "value", "subject": "__import__('os').system('touch ran')", "value": "0"},
    "a change that is none": {"kind": "mutation", "subject": "import os", "value": "0"},
    "a change of something long": {"kind": "mutation", "subject": "s.append(" + "-" * 10_000 + "1)", "value": ""},
    "a step that is not there": {"kind": "value", "subject": "s", "value": "3", "step": 10**15},
    "a step before the first": {"kind": "value", "subject": "s", "value": "3", "step": -7},
    "records to count from that are not there": {"kind": "count", "subject": "calls since 999999999999", "value": "0"},
    "control characters": {"kind": "value", "subject": "s\u202e\x00\x1b[31m", "value": "\u2066 3", "quote": "\x1b"},
    "a loop of another program": {"kind": "count", "subject": "for " + "x, " * 5_000 + "y in z", "value": "3"},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CLAIMS)
@pytest.mark.parametrize("step", [None, 9])
def test_bad_claims_are_not_found_and_nothing_is_run(proof, run, name, step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claim = BAD_CLAIMS[name] if step is None or "step" in BAD_CLAIMS[name] else {**BAD_CLAIMS[name], "step": step}
    begun = time.process_time()

    found = proof("It is so.", claims=document(["It is so.", claim]))

    assert time.process_time() - begun < 2
    (verdict,) = found.verdicts
    assert str(verdict.status) in ("not_found", "refuted")
    assert len(verdict.message) < 500
    assert verdict.message
    assert not found.passes
    assert list(tmp_path.iterdir()) == []
    assert "\x1b" not in page(found, run)


def test_claims_that_contradict_each_other_are_both_held_against_the_record(proof):
    claims = [{"kind": "answer", "subject": "", "value": value} for value in ("7", "8")]

    found = proof("The output is 7.", claims=document(["The output is 7.", *claims]))

    assert [str(verdict.status) for verdict in found.verdicts] == ["supported", "refuted"]
    assert not found.passes


def test_ten_thousand_sentences_cost_no_more_than_their_number(proof):
    def cost(count):
        claim = {"kind": "value", "subject": "s", "value": "7", "step": 30}
        sentences = [(f"`s` is 7 in round {number}.", claim) for number in range(count)]
        begun = time.process_time()
        found = proof(" ".join(text for text, _ in sentences), claims=document(*sentences))
        assert len(found.verdicts) == count
        return time.process_time() - begun

    assert cost(10_000) < 25 * max(cost(1_000), 0.02)


def test_more_claims_than_are_read_are_said_to_be_so(proof):
    claim = {"kind": "value", "subject": "s", "value": "7", "step": 30}

    found = proof("`s` is 7.", claims=document(["`s` is 7.", *[claim] * 50_010]))

    assert found.verdicts[-1].message == "too many claims were made before it"


def test_expressions_are_bounded_all_together(proof):
    costly = {"kind": "test", "subject": "s in [i for i in range(9000)]", "value": "True", "step": 30}
    begun = time.process_time()

    found = proof("It is so.", claims=document(["It is so.", *[costly] * 5_000]))

    assert time.process_time() - begun < 20
    assert not found.passes
