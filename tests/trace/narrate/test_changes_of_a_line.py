"""Of an object that a line changes more than once, what it is after the line is told, and no state between."""

from __future__ import annotations

import pytest

from groundbox.trace.narrate.narrator import narrate

REMOVED_AND_SET = "d = {'a': 1, 'b': 2}\nd['b'], d['c'] = d.pop('a'), 9\nprint(d)\n"
CLEARED = "e = {str(k): k for k in range(6)}\ne.clear(); e['z'] = 1\nprint(e)\n"
SET_AFTER_SET = """\
s = {1, 2, 3, 4, 5}
s.add(6)
s -= {1, 2, 3, 4, 5}; s |= {7, 8, 9, 10, 11}
s.add(12)
print(sorted(s))
"""
WITHIN = "ys = []; zs = []\nys.append(zs); zs.append(1)\nprint(ys)\n"
WITHIN_BEFORE = "ys = [[]]\nys.append(0); ys[0].append(1)\nprint(ys)\n"
LONG = "d = {k: k for k in range(80)}\nd['x'], d['y'] = d.pop(3), 4\nprint(len(d))\n"
ONE_BY_ONE = "d = {'a': 1}\nd['b'] = 2\ndel d['a']\nprint(d)\n"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("source", "said", "unsaid"),
    [
        (REMOVED_AND_SET, ["the key", "from 2 to 1", "9, so `d` is now {'b': 1, 'c': 9}."], ["is now {'b': 2}"]),
        (CLEARED, ["`e` is now {'z': 1}"], ["e['z']"]),
        (SET_AFTER_SET, ["`s` is now {10, 11, 6, 7, 8, 9}"], ["are removed", "are added"]),
        (WITHIN, ["`ys` is now [[1]]", "which is now [1]"], ["[] is appended", "gets []"]),
        (WITHIN_BEFORE, ["1 "], ["is now [[1], 0]"]),
        (LONG, ["the key 3", "`d['x']`", "`d['y']`"], ["so `d` is now"]),
        (ONE_BY_ONE, ["is now {'b': 2}"], ["so `d`"]),
    ],
)
def test_the_state_after_a_line_is_told(recorded, unproven, source, said, unsaid, seed):
    trace = recorded(source)
    told = [narrate(trace, detail=detail, seed=seed) for detail in ("normal", "full", "brief")]

    for each in told:
        text = each.text.replace("and is now [1]", "which is now [1]")
        assert [part for part in said if part not in text] == [], text
        assert [part for part in unsaid if part in text] == [], text
    assert [wrong for each in told for wrong in unproven(each, trace)] == []


def test_what_a_line_makes_of_an_object_is_told_once(recorded):
    text = narrate(recorded(SET_AFTER_SET)).text

    assert text.count("`s` is now {10, 11, 6, 7, 8, 9}") == 1
