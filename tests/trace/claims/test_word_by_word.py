"""Tellings that are held to their claims word by word."""

import json
import re
import time

import pytest

from groundbox.trace.claims import prove
from groundbox.trace.claims.page import page
from groundbox.trace.claims.vocabulary import Work, loose
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record import schema

LOOP = """\
def main(items):
    total = 0
    last = None
    for item in items:
        if item > 2:
            total += item
            last = item
    return total, last
"""

ANEW = """\
def main(x):
    x = 4
    return x
"""
TURNED = """\
from collections import deque

def main(xs):
    order = deque()
    for x in xs:
        order.appendleft(x)
    return list(order)
"""


@pytest.fixture(scope="module")
def loop(recorded):
    return recorded(LOOP, "main", [4, 1, 3])


def with_sentence(loop, place, change):
    """The narration of the loop with another sentence in the place of one, which keeps its claims as far as it can."""
    narration = narrate(loop, seed=1)
    claims = document(narration, loop)
    sentences = [dict(sentence) for sentence in claims["sentences"]]
    old = sentences[place]["text"]
    new = change(old)
    assert new != old
    kept = [claim for claim in sentences[place]["claims"] if claim.get("quote", "") in new]
    sentences[place] = {"text": new, "claims": [{k: v for k, v in each.items() if k != "at"} for each in kept]}
    return narration.text.replace(old, new, 1), claims | {"sentences": sentences}


@pytest.mark.parametrize(
    "words",
    [
        " at last", " twice", ", which nobody expected", " and the loop stops early", ", perhaps",
        " and nothing changes",
        " and a break ends the loop", ", after which the handler takes over", " and it is printed", " at its front",
    ],
)  # fmt: skip
def test_words_that_no_claim_of_their_sentence_bears_out_do_not_pass(loop, words):
    text, claims = with_sentence(loop, 3, lambda sentence: sentence.removesuffix(".") + words + ".")

    assert prove(text, loop, claims=claims).passes
    proof = prove(text, loop, claims=claims, strict=True)
    assert not proof.passes
    assert any(text[word.start : word.end].strip(" ,.") in words for word in proof.words if not word.covered)


def test_a_sentence_that_is_left_out_between_two_is_missed(loop):
    narration = narrate(loop, seed=1)
    claims = document(narration, loop)
    told = [place for place, each in enumerate(claims["sentences"]) if "`item` = 1" in each["text"]]
    sentence = claims["sentences"].pop(told[0])["text"]
    text = narration.text.replace(f"{sentence} ", "", 1)

    assert prove(text, loop, claims=claims).passes
    proof = prove(text, loop, claims=claims, strict=True)
    assert (proof.passes, proof.gaps) == (False, [told[0]])
    assert proof.to_dict()["gaps"] == [told[0]]


@pytest.mark.parametrize("name", ["first", "gives", "falls", "empty", "earlier", "never", "twice", "remains", "loop"])
def test_a_function_may_have_any_word_for_a_name(recorded, name):
    trace = recorded(LOOP.replace("main", name), name, [4, 1, 3])
    narration = narrate(trace, seed=1)

    assert narration.text.endswith(f"So {name} returns (7, 3).")
    assert prove(narration.text, trace, claims=document(narration, trace), strict=True).passes


@pytest.mark.parametrize("seed", range(3))
def test_what_a_telling_from_the_result_requires_of_the_input_is_a_test_that_holds(recorded, seed):
    trace = recorded("def main(n):\n    if n <= 2:\n        return n\n    return n * 2\n", "main", 5)
    narration = narrate(trace, style="backward", seed=seed)
    claims = document(narration, trace)
    (required,) = [each for each in claims["sentences"] if "the input" in each["text"] and "`n <= 2`" in each["text"]]

    assert [each["kind"] for each in required["claims"]] == ["test"]
    assert prove(narration.text, trace, claims=claims, strict=True).passes
    text = required["text"].replace("false", "true")
    wrong = {**required, "text": text, "claims": [{**required["claims"][0], "quote": text[:-1]}]}
    sentences = [wrong if each is required else each for each in claims["sentences"]]
    told = narration.text.replace(required["text"], text)
    assert not prove(told, trace, claims={**claims, "sentences": sentences}, strict=True).passes


def test_that_a_long_value_stays_is_held_against_that_value(recorded):
    source = """\
def main(items):
    count = 0
    while count < 12:
        items = sorted(items);count += 1
    return count
"""
    trace = recorded(source, "main", list(range(30)))
    narration = narrate(trace, seed=1)

    assert "] as before, and `count` " in narration.text
    assert prove(narration.text, trace, claims=document(narration, trace), strict=True).passes


@pytest.mark.parametrize(("change", "stays"), [("n", True), ("n + (n == 150)", False)])
def test_a_long_value_that_differs_in_its_middle_does_not_stay(recorded, change, stays):
    source = f"""\
def main(items):
    items = [{change} for n in items]
    return len(items)
"""
    trace = recorded(source, "main", list(range(100, 200)))
    step = next(t for t, r in enumerate(trace.records) if isinstance(r, schema.Set) and r.name == "items")
    value = trace.state_at(step).text(trace.records[step].v)
    text = f"`items` stays at {value}."
    claims = [{"kind": "value", "subject": "items", "value": value, "step": step}]
    document = {"schema": "groundbox.claims/1", "sentences": [{"text": text, "claims": claims}]}

    words = prove(text, trace, claims=document, strict=True).words

    assert [text[each.start : each.end] for each in words if not each.covered] == ([] if stays else ["stays at"])


WITHIN = """\
def main(n):
    class Sprite:
        def __init__(self, name, x):
            self.name, self.x = name, x
    def move(sprite, by):
        sprite.x += by
        return sprite
    sprite = Sprite("a name that is long enough", 1)
    other = sprite
    for i in range(n):
        sprite = move(sprite, i)
    return sprite.x
"""


@pytest.mark.parametrize("seed", range(3))
def test_an_object_of_a_class_in_a_function_is_told_as_the_same(recorded, seed):
    trace = recorded(WITHIN, "main", 3)
    narration = narrate(trace, seed=seed)

    assert "the same Sprite as before" in narration.text
    assert prove(narration.text, trace, claims=document(narration, trace), strict=True).passes


EMPTIES = """\
import heapq

def main(xs):
    heap = sorted(xs)
    return [heapq.heappop(heap) for _ in range(len(heap))]
"""


def test_what_an_expression_came_to_that_changes_what_it_reads_is_what_its_line_gave(recorded):
    trace = recorded(EMPTIES, "main", [3, 1, 2])
    narration = narrate(trace, seed=1)
    claims = document(narration, trace)

    assert "`[heapq.heappop(heap) for _ in range(len(heap))]` = [1, 2, 3]" in narration.text
    assert prove(narration.text, trace, claims=claims, strict=True).passes
    for other in ("[1, 2, 4]", "[]"):
        wrong = json.loads(json.dumps(claims).replace("[1, 2, 3]", other))
        assert not prove(narration.text.replace("[1, 2, 3]", other), trace, claims=wrong, strict=True).passes


UNPACKED = """\
def area(a, b, c=1, *rest, scale=1):
    return a * b * c * scale + len(rest)

def main(xs, options):
    first = area(*[2, 3])
    second = area(*xs)
    third = area(xs[0], *xs[1:], **options)
    fourth = area(*(5, 6), *[1, 2, 3], scale=3)
    return [first, second, third, fourth, area(*range(2, 4))]
"""


@pytest.mark.parametrize(
    ("call", "other"),
    [
        ("area(*[2, 3])", "area(*[2, 4])"),
        ("area(*[2, 3])", "area(*[2])"),
        ("area(*xs)", "area(*xs[1:])"),
        ("area(*(5, 6), *[1, 2, 3], scale=3)", "area(*(5, 6), *[1, 2, 4], scale=3)"),
        ("area(*(5, 6), *[1, 2, 3], scale=3)", "area(*(5, 6), *[1, 2, 3], scale=2)"),
        ("**options)", "**{'scale': 1})"),
    ],
)
def test_a_call_that_unpacks_its_arguments_is_held_against_what_was_given(recorded, call, other):
    trace = recorded(UNPACKED, "main", [3, 1, 2], {"scale": 2})
    narration = narrate(trace, seed=1)
    claims = document(narration, trace)

    assert call in narration.text
    assert prove(narration.text, trace, claims=claims, strict=True).passes
    wrong = json.loads(json.dumps(claims).replace(call, other))
    assert not prove(narration.text.replace(call, other), trace, claims=wrong, strict=True).passes


RING = """
from collections import deque
ring = deque([0])
for number in (1, 2, 3):
    ring.rotate(-1)
    ring.append(number)
"""


def test_a_step_that_is_told_by_the_whole_object_is_not_missed_until_it_is_left_out(recorded):
    trace = recorded(RING)
    narration = narrate(trace, seed=1)
    claims = document(narration, trace)
    assert prove(narration.text, trace, claims=claims, strict=True).passes

    left_out = next(place for place, each in enumerate(claims["sentences"]) if "deque([1, 0, 2])" in each["text"])
    sentence = claims["sentences"].pop(left_out)["text"]
    proof = prove(narration.text.replace(f"{sentence} ", "", 1), trace, claims=claims, strict=True)

    assert (proof.passes, proof.gaps) == (False, [left_out])


HALVINGS = """
def halvings(number):
    rest, count = number, 0
    while rest:
        rest //= 2
        count += 1
    return count

def main(most):
    number = 3
    while halvings(number) <= most:
        number *= number + 1
    return number
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_name_in_the_condition_of_a_loop_tells_none_of_its_values(recorded, seed):
    """Else the last one would be told before the words that pass over those before it."""
    trace = recorded(HALVINGS, "main", 10)
    narration = narrate(trace, seed=seed, detail="parts")

    assert re.search(r"loop with the condition `rest` (?:runs|goes round) 15 times", narration.text)
    assert prove(narration.text, trace, claims=document(narration, trace), strict=True).passes


def test_it_may_be_left_out_where_the_text_says_so(loop):
    narration = narrate(loop, seed=1)
    claims = document(narration, loop)
    told = [place for place, each in enumerate(claims["sentences"]) if "`item` = 1" in each["text"]]
    sentence = claims["sentences"].pop(told[0])["text"]

    text = narration.text.replace(sentence, "A step is left out here.", 1)

    assert prove(text, loop, claims=claims, strict=True).passes


@pytest.mark.parametrize(
    "piece", ["all of ", "`s` ", "nothing changes ", "'a ", "one ", "a + ", "the same list as before "]
)
def test_hostile_sentences_take_time_that_grows_with_their_length(loop, piece):
    def cost(n):
        text = piece * n
        claims = {"schema": "groundbox.claims/1", "sentences": [{"text": text.strip(), "claims": CLAIMS}]}
        begun = time.process_time()
        prove(text, loop, claims=claims, strict=True)
        return time.process_time() - begun

    assert cost(8000) < 28 * max(cost(1000), 0.02)


CLAIMS = [{"kind": "value", "subject": "total", "value": "0", "step": 3}] * 50


def test_what_is_beyond_the_work_that_is_allowed_is_not_borne_out(loop):
    from groundbox.trace.claims.untold import Untold

    found = loose("so it is", 0, 8, [], Untold(loop), Work(5))

    assert [(each.start, each.end, each.covered) for each in found] == [(0, 8, False)]


def test_code_that_is_nested_too_deeply_has_no_parts():
    from groundbox.trace.claims.vocabulary import _parts

    assert "1 + 1" in _parts("x = 1 + 1")
    assert "1 + 1" not in _parts("x = " + " + ".join("1" * 3000))


@pytest.mark.parametrize(("most", "is_said"), [(10**6, True), (10**4, False)])
def test_sums_are_looked_for_as_far_as_work_is_allowed(loop, most, is_said):
    from groundbox.trace.claims.data import ClaimData
    from groundbox.trace.claims.model import Kind
    from groundbox.trace.claims.told import PlacedClaim
    from groundbox.trace.claims.untold import Untold

    values = [ClaimData(kind=Kind.VALUE, subject="x", value=str(2 * step), step=step) for step in range(1, 30)]
    claims = [
        PlacedClaim(
            kind=Kind.VALUE, subject=None, value=None, shown="x", step=data.step, start=0, end=0, parts=(),
            sentence=0, certain=True, data=data,
        )
        for data in values
    ]  # fmt: skip

    found = loose("grows", 0, 5, claims, Untold(loop), Work(most))

    assert (not found) is is_said


def test_a_program_that_is_nested_too_deeply_is_told_and_proven_without_its_tree(recorded):
    trace = recorded(f"def f(n):\n    x = {' + '.join(['n'] * 2500)}\n    return x\n", "f", 1)
    narration = narrate(trace, seed=1)

    proof = prove(narration.text, trace, claims=document(narration, trace), strict=True)

    assert "2500" in narration.text
    assert [str(each.status) for each in proof.verdicts if str(each.status) == "refuted"] == []
    assert prove("`x` is 2500. The function returns 2500.", trace).answer is True


def test_the_page_shows_words_that_nothing_bears_out_and_updates_that_are_left_out(loop):
    text, claims = with_sentence(loop, 3, lambda sentence: sentence.removesuffix(".") + ", perhaps.")
    narration = narrate(loop, seed=1)
    without = document(narration, loop)
    place = next(place for place, each in enumerate(without["sentences"]) if "`item` = 1" in each["text"])
    shorter = narration.text.replace(f"{without['sentences'].pop(place)['text']} ", "", 1)

    assert "<mark>perhaps</mark>" in page(prove(text, loop, claims=claims, strict=True), loop)
    shown = page(prove(shorter, loop, claims=without, strict=True), loop)
    assert "Before it an update is left out" in shown
    assert "updates that are left out: 1." in shown


@pytest.mark.parametrize("words", ["stays at", "keeps the value", "remains"])
def test_a_value_that_has_changed_is_not_held_to_stay(recorded, words):
    trace = recorded(ANEW, "main", 3)
    text, claims = with_sentence(trace, 1, lambda sentence: f"`x` {words} 4.")

    proof = prove(text, trace, claims=claims, strict=True)

    assert words in [text[word.start : word.end] for word in proof.words if not word.covered]


def test_a_deque_in_workings_is_held_against_the_record(recorded):
    trace = recorded(TURNED, "main", [3, 0, 2])
    narration = narrate(trace, seed=1)
    claims = document(narration, trace)

    false = json.loads(json.dumps(claims).replace("list(deque([2, 0, 3]))", "list(deque([2, 9, 3]))"))

    assert false != claims
    assert prove(narration.text, trace, claims=claims, strict=True).passes
    text = narration.text.replace("list(deque([2, 0, 3]))", "list(deque([2, 9, 3]))")
    assert not prove(text, trace, claims=false, strict=True).passes


COUNTDOWN = """
def main(n):
    while n > 0:
        n -= 1
    return n
"""


def test_a_condition_that_leads_to_a_change_is_not_said_to_change_nothing(recorded):
    """The record that begins an iteration is not the one that ends it."""
    trace = recorded(COUNTDOWN, "main", 2)
    step = next(at for at, record in enumerate(trace.records) if isinstance(record, schema.Test))
    words = "`n > 0` holds"

    def loose_words(text):
        claim = {"kind": "test", "subject": "n > 0", "value": "True", "step": step, "quote": words, "at": 0}
        claims = {"schema": "groundbox.claims/1", "sentences": [{"text": text, "claims": [claim]}]}
        proof = prove(text, trace, claims=claims, strict=True)
        return [text[word.start : word.end] for word in proof.words if not word.covered]

    assert loose_words(f"{words}.") == []
    assert loose_words(f"{words}, and nothing changes.") == ["nothing changes"]


CALLING_HEADER = """
def more(rest):
    return rest.pop() if rest else 0

def main(rest):
    while more(rest):
        pass
    return rest
"""


def test_an_iteration_without_a_body_changes_nothing_though_its_header_calls(recorded):
    trace = recorded(CALLING_HEADER, "main", [1, 2])
    narrations = [narrate(trace, seed=seed) for seed in range(6)]

    assert any("nothing changes" in each.text or "nothing is changed" in each.text for each in narrations)
    assert all(prove(each.text, trace, claims=document(each, trace), strict=True).passes for each in narrations)


TWO_CALLS = """
def pair(n):
    return [n, n + 1]

def main(k):
    a = pair(k)
    b = pair(k + 1)
    return a + b
"""


@pytest.mark.parametrize(
    ("name", "call", "about", "is_so"),
    [
        ("a", "pair(1)", "a", True),
        ("b", "pair(2)", "b", True),
        ("a", "pair(2)", "a", False),
        ("b", "pair(1)", "b", False),
        ("a", "pair(2)", "b", False),
        ("b", "pair(2)", "", False),
    ],
    ids=["so", "so of the other", "another call", "an earlier call", "another name's claim", "not claimed"],
)
def test_a_value_that_is_told_by_its_call_is_what_that_call_returned(recorded, name, call, about, is_so):
    trace = recorded(TWO_CALLS, "main", 1)
    calls = [at for at, each in enumerate(trace.records) if isinstance(each, schema.Call) and each.name == "pair"]
    given = {each.name: at for at, each in enumerate(trace.records) if isinstance(each, schema.Set)}
    text = f"`{name}` is the list that `{call}` returned."
    claims = [
        {"kind": "call", "subject": call, "value": "", "step": calls[call == "pair(2)"], "quote": f"`{call}`"},
        {"kind": "value", "subject": name, "value": "", "quote": f"`{name}`"},
    ]
    if about:
        quote = text.removesuffix(".")
        claims.append({"kind": "value", "subject": about, "value": call, "step": given[about], "quote": quote})
    document = {"schema": "groundbox.claims/1", "sentences": [{"text": text, "claims": claims}]}

    proof = prove(text, trace, claims=document, strict=True)

    assert all(word.covered for word in (*proof.words, *proof.numbers)) is is_so


THREE_VALUES = """
def main():
    x = 1
    y = 1
    x = 2
    x = 3
    z = 3
    return x
"""


def test_an_update_is_missed_though_the_values_beside_it_are_claimed_of_other_names(recorded):
    trace = recorded(THREE_VALUES, "main")
    sets = [at for at, each in enumerate(trace.records) if isinstance(each, schema.Set) and each.name in "xyz"]
    first, _, _, last, other_last = sets
    texts = ["`x` is set to 1.", "`x` is set to 3."]
    claims = [
        [("x", "1", first, "`x`"), ("y", "1", sets[1], "1")],
        [("x", "3", last, "`x`"), ("z", "3", other_last, "3")],
    ]
    sentences = [
        {
            "text": text,
            "claims": [
                {"kind": "value", "subject": subject, "value": value, "step": step, "quote": quote}
                for subject, value, step, quote in row
            ],
        }
        for text, row in zip(texts, claims, strict=True)
    ]

    proof = prove(
        " ".join(texts),
        trace,
        claims={"schema": "groundbox.claims/1", "sentences": sentences, "order": "forward"},
        strict=True,
    )

    assert proof.gaps == [1]
