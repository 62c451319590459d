"""Keys that Python would not find again from a text: vast numbers, long texts, nan, instances."""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

NUMBERS = """\
def main(n):
    big = 10 ** n
    held = {big: 1}
    held[big] += 5
    held[big + 1] = 2
    parts = {big, 3}
    while big > 5:
        big //= 10 ** 900
    return held[10 ** n], len(parts)
"""
TEXTS = """\
def main(n):
    text = "ab" * n
    held = {text: 1, text[::-1]: 2}
    held[text] += 1
    parts = {text, "x"}
    return held[text], len(parts)
"""
NOT_A_NUMBER = """\
def main():
    none = float("nan")
    held = {none: 1}
    held[none] = 3
    held[(none, 1)] = 4
    return len(held)
"""
POINTS = """\
from dataclasses import dataclass

@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0

def main():
    one, other = Point(1, 2), Point(1, 5)
    held = {one: 1}
    held[other] = 2
    held[one] = 7
    return len(held)
"""
PROGRAMS = {
    "numbers": (NUMBERS, 5000),
    "texts": (TEXTS, 40_000),
    "not a number": (NOT_A_NUMBER,),
    "points": (POINTS,),
}


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_claim_is_supported(recorded, name, style):
    source, *arguments = PROGRAMS[name]
    trace = recorded(source, "main", *arguments)

    for seed in range(3):
        proof = prove(narrate(trace, style=style, seed=seed).text, trace)

        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []
        assert proof.faithful


BIG = "<int of 16610 bits>"


@pytest.mark.parametrize(
    ("name", "text", "is_so"),
    [
        ("numbers", f"`held` becomes {{{BIG}: 1}}.", True),
        ("numbers", f"`held` becomes {{{BIG}: 2}}.", False),
        ("numbers", "`held` becomes {<int of 16611 bits>: 1}.", False),
        ("numbers", f"`held[{BIG}]` goes from 1 to 6.", True),
        ("numbers", f"`held[{BIG}]` goes from 1 to 7.", False),
        ("numbers", "`held[big]` goes from 1 to 6.", True),
        ("numbers", "`held[big]` goes from 1 to 5.", False),
        ("numbers", f"`held` is {{{BIG}: 6, {BIG}: 2}}.", True),
        ("numbers", f"`held` is {{{BIG}: 6, {BIG}: 6}}.", False),
        ("numbers", f"`parts` becomes {{{BIG}, 3}}.", True),
        ("numbers", f"`parts` becomes {{{BIG}, 4}}.", False),
        ("numbers", "`parts` becomes {<negative int of 16610 bits>, 3}.", False),
        ("numbers", f"`big` is now {BIG}.", True),
        ("numbers", "`big` is now <int of 16609 bits>.", False),
        ("texts", "`held['abab' … 79992 more … 'abab']` goes from 1 to 2.", True),
        ("texts", "`held['baba' … 79992 more … 'baba']` goes from 1 to 2.", False),
        ("texts", "`held['abab' … 79993 more … 'abab']` goes from 1 to 2.", False),
        ("not a number", "`held[nan]` goes from 1 to 3. `held[(nan, 1)]` becomes 4.", True),
        ("not a number", "`held[nan]` goes from 1 to 4.", False),
        ("not a number", "`held[(nan, 1)]` becomes 3.", False),
        ("not a number", "`held[(nan, 2)]` becomes 4.", False),
        ("points", "`held[Point(x=1, y=5)]` becomes 2. `held[Point(x=1, y=2)]` goes from 1 to 7.", True),
        ("points", "`held[Point(x=1, y=2)]` becomes 2.", False),
        ("points", "`held[Point(x=1, y=6)]` becomes 2.", False),
        ("points", "`held[Point(x=1, y=5)]` goes from 2 to 7.", False),
    ],
)
def test_another_key_or_value_is_caught(recorded, name, text, is_so):
    source, *arguments = PROGRAMS[name]

    assert prove(text, recorded(source, "main", *arguments)).faithful is is_so
