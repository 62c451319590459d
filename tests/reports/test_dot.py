"""Graphs as people write them: if Graphviz draws one, its structure is told, or a note says why it is not."""

import pytest

from groundbox import Outcome, Sandbox
from groundbox.runtimes.graph_facts import MEDIA_TYPE
from groundbox.sandbox import languages

pytestmark = pytest.mark.skipif(languages.missing("dot") is not None, reason=str(languages.missing("dot")))


@pytest.fixture(scope="module")
def box():
    with Sandbox(profile="bare") as made:
        yield made


COMMENTED = [
    # source, nodes, edges
    ('digraph {\n  # first group\n  a [label="A"]; # start\n  a -> b;\n}\n', 2, 1),
    ("digraph {\n\t# all\n\ta -> b\n\t# the rest: b -> c\n}\n", 2, 1),
    ("  # of a tool\ndigraph { # opens\n a -> b -> c # chain\n} # closes\n", 3, 2),
    ("digraph {\r\n  a -> b # said { here }\r\n  b -> c\r\n}\r\n", 3, 2),
    ("graph{a--b#c--d\n}", 2, 1),
    ('digraph { a [label="x", # the text\n color=red]; "#b" -> a }', 2, 1),
    ("strict digraph # kind\n g # name\n { a -> a # loop\n a -> a }", 1, 1),
    ('digraph { a [label="no # comment"]; b [label=<<b>#1</b>>]; a -> b // # twice\n /* # */ }', 2, 1),
    ("digraph { node style=[shape=box]; a -> b }", 2, 1),
]


@pytest.mark.parametrize(("source", "nodes", "edges"), COMMENTED)
def test_the_structure_of_what_graphviz_draws_is_told(box, source, nodes, edges):
    execution = box.run(source, language="dot", argv=["-Tsvg"])

    assert execution.outcome is Outcome.OK, execution.error
    counts = execution.value[MEDIA_TYPE]["counts"]
    assert (counts["nodes"], counts["edges"]) == (nodes, edges)


@pytest.mark.parametrize(
    "source",
    [
        "# nothing but a comment",
        "/* nothing but a comment */",
        "digraph { " + "subgraph { " * 150 + "a -> b" + " }" * 150 + " }",
    ],
)
def test_what_is_drawn_and_not_read_is_not_silent(box, source):
    execution = box.run(source, language="dot", argv=["-Tsvg"])

    if execution.outcome is Outcome.OK and execution.value is None:
        (note,) = [warning for warning in execution.warnings if warning.code == "dot.not_told"]
        assert "our own reader stopped at line 1, column " in note.message
    else:
        assert execution.outcome is not Outcome.OK


def test_a_reader_that_fails_is_not_silent(box, monkeypatch):
    """Whatever the reason: here the reader knows no comment at all."""
    from groundbox.runtimes import dot
    from groundbox.runtimes.graph import DotError

    def fail(source):
        raise DotError(source, 4, "'#'", "a name")

    monkeypatch.setattr(dot, "parse", fail)

    execution = box.run("digraph { a -> b }", language="dot", argv=["-Tsvg"])

    assert execution.outcome is Outcome.OK
    assert [warning.code for warning in execution.warnings] == ["dot.not_told"]


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("graph { a -> b }", "begin with digraph"),
        ("digraph { a -- b }", "begin with graph"),
        ("digraph { a [label=y: (2, 2)]\n a -> b }", "double quotes"),
        ("digraph { a -> b/c }", "double quotes"),
        ("digraph { a [label=x:y] }", "double quotes"),
        ("digraph { a -> {b c}:n }", ""),
        ("digraph { a -> b", ""),
    ],
)
def test_an_error_has_a_hint_that_helps(box, source, hint):
    error = box.run(source, language="dot", argv=["-Tsvg"]).error

    assert hint in " ".join(error.hints)
    assert bool(error.hints) is bool(hint)
