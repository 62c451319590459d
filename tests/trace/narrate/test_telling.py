"""What all parts of the narrator ask for."""

from __future__ import annotations

import ast

from groundbox.trace.narrate.draft import Draft
from groundbox.trace.narrate.phrases import Voice
from groundbox.trace.narrate.policy import PARTS
from groundbox.trace.narrate.telling import Telling

STRANGE = """\
def joined(text):
\f    found = "ä\u2028" + text.strip()
    found = (found +
             "ö")
    return found + "`"
"""


def test_code_is_what_stands_in_the_source_on_one_line(recorded):
    trace = recorded(STRANGE, "joined", " x")
    voice = Voice(0)
    telling = Telling(trace=trace, policy=PARTS, voice=voice, draft=Draft(voice=voice))
    function = trace.structure.syntax.tree.body[0]

    told = [telling.code(statement.value) for statement in function.body]

    assert told == ['`"ä\u2028" + text.strip()`', "`found + 'ö'`", None]
    assert telling.code(function.body[0].value, 10) is None
    assert telling.code(ast.Name("made")) is None
