"""report.html of a translation: what was not taken is told in words, and all text of a model stays text."""

from collections import Counter

from groundbox.dataset.build_statistics import BuildStatistics
from groundbox.dataset.problem import Drop
from groundbox.dataset.translation.report import MOST_DROPS, Counts, page

HOSTILE = "</pre></style><script>alert(1)</script><img src=https://example.org/x>"


def drop(number, **facts):
    return Drop(item=f"{number}{HOSTILE}", problem="p", stage="translate", reason="unproven-claims", facts=facts)


def shown(drops):
    counts = Counts(counts=Counter(asked=3, prompt_tokens=7, completion_tokens=5), measures={
        f"{name}/{which}": [0.5]
        for name in ("faithfulness", "coverage")
        for which in ("first", "accepted")
    })  # fmt: skip
    facts = {
        "items": len(drops), "kept": 0, "samples": 0, "dropped": {"unproven-claims": len(drops), "no-such-word": 1},
        "translation": counts.report(), "claims": {"total": 9, "proven": 5},
    }  # fmt: skip
    return page(facts, BuildStatistics(), counts, drops, HOSTILE)


def test_what_was_not_taken_is_shown_with_what_is_wrong():
    made = shown([drop(1, failed=["x is 3, not 4"], text="x becomes 4.")])

    assert "<li>x is 3, not 4</li>" in made
    assert "<pre>x becomes 4.</pre>" in made
    assert "says what did not happen" in made
    assert "no-such-word" in made
    assert "of 9 claims proven" in made


def test_some_are_shown_and_no_text_of_a_model_is_more_than_text():
    made = shown([drop(number, failed=[HOSTILE], text=HOSTILE) for number in range(MOST_DROPS + 2)])

    assert made.count("<details>") == MOST_DROPS
    assert "<script" not in made
    assert "<img" not in made
    assert "default-src 'none'; style-src 'sha256-" in made
