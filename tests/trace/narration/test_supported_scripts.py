"""Whatever the narrator claims of a script, whose result is what it prints, the prover finds in the trace.

Each program has one thing that a claim was once lost on.
"""

from __future__ import annotations

import re

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

ONE_PRINT = """\
def double(n):
    return 2 * n

print(repr(double(4)))
"""
NO_PRINT = """\
total = 0
for n in range(3):
    total += n
"""
PRINTS_AND_MORE = """\
for word in ["a", "b"]:
    print([word])
    last = word
"""
INVERTED = """\
def clear(number, position):
    mask = ~(1 << position)
    low = ~(number & 3) & 15
    return number & mask, low

print(clear(22, 2))
"""
IDENTITY = """\
def pick(items, key=None):
    uses = key is not None
    missing = items is None
    return uses, missing

print(pick([1]))
"""
METHODS_OF_NUMBERS = """\
def ceiling(n):
    power = 2 ** n.bit_length()
    below = -3
    other = 2 ** below.bit_length()
    return power + other

print(ceiling(9))
"""
UNDERSCORES = """\
class _Empty:
    pass

class _Pair:
    def __init__(self, first, rest):
        self.first = first
        self.rest = rest

END = _Empty()

def chain(values):
    made = END
    for value in values:
        made = _Pair(value, made)
    while made is not END:
        made = made.rest
    return made is END

print(chain([1, 2]))
"""
MOMENTS = """\
import datetime

def days(count):
    step = datetime.timedelta(days=1)
    start = datetime.date(2024, 2, 28)
    pair = (start, datetime.timedelta(hours=2))
    for _ in range(count):
        start = start + step
    return start, pair

print(days(2)[0].isoformat())
"""
BYTES = """\
def gather(parts):
    kept = []
    mark = b'-'
    for part in parts:
        kept.append(part)
        mark = mark + part
    return kept, mark

print(gather([b'ab', b"it's", b'']))
"""
PROGRAMS = {
    "one print": ONE_PRINT,
    "no print": NO_PRINT,
    "prints and more": PRINTS_AND_MORE,
    "inverted": INVERTED,
    "identity": IDENTITY,
    "methods of numbers": METHODS_OF_NUMBERS,
    "underscores": UNDERSCORES,
    "moments": MOMENTS,
    "bytes": BYTES,
}


@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_claim_is_supported(recorded, name, style):
    trace = recorded(PROGRAMS[name])

    for seed in range(3):
        proof = prove(narrate(trace, style=style, seed=seed).text, trace)

        assert proof.failed == []
        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []
        assert proof.faithful


FALSE = [
    (ONE_PRINT, "So the program prints '9\\n'."),
    (ONE_PRINT, "The program prints '8\\n'. The program prints '8\\n'."),
    (ONE_PRINT, "`double` returns 8. So the program ends without printing anything."),
    (NO_PRINT, "`total` becomes 0. So the program prints '3\\n'."),
    (INVERTED, "`mask` becomes `~(1 << position)` = ~(1 << 2) = -4."),
    (INVERTED, "`mask` becomes ~(1 << 3) = -5."),
    (METHODS_OF_NUMBERS, "`power` becomes `2 ** n.bit_length()` = 32."),
    (UNDERSCORES, "`made` becomes _Pair(first=2, rest=_Empty())."),
    (UNDERSCORES, "`made` becomes _Pair(first=1, rest=_Pair())."),
    (MOMENTS, "`step` becomes datetime.timedelta(days=2)."),
    (MOMENTS, "`pair` becomes (datetime.date(2024, 2, 28), datetime.timedelta(seconds=7201))."),
    (BYTES, "`mark` becomes b'-'. b'abc' is appended to `kept`, which is now [b'abc']."),
    (BYTES, "`mark` becomes 'b'."),
]


@pytest.mark.parametrize(("source", "text"), FALSE)
def test_what_is_false_is_caught(recorded, source, text):
    proof = prove(text, recorded(source))

    assert not proof.faithful
    assert proof.failed


def test_code_keeps_its_form_where_a_value_would_spoil_it(recorded):
    told = " ".join(
        narrate(recorded(source), seed=seed).text for source in (IDENTITY, METHODS_OF_NUMBERS) for seed in range(3)
    )

    assert re.findall(r"None is (?:not )?None|\d \.bit_length|\)\.bit_length", told) == []
    assert "`key is not None` = False" in told
