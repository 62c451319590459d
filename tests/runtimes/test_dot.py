"""DOT: pictures, the graph as data and text, errors with their place, and warnings."""

import asyncio
import json
import os
import threading
import time
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from groundbox import AsyncSandbox, InvalidArgument, Limits, MiB, Outcome, Sandbox
from groundbox.runtimes import dot as runtime
from groundbox.runtimes.graph_facts import MEDIA_TYPE
from groundbox.sandbox import languages, worker
from groundbox.sandbox.languages import Program
from groundbox.sandbox.screening import HERE_BYTES
from groundbox.sandbox.worker import Worker

pytestmark = pytest.mark.skipif(languages.missing("dot") is not None, reason=str(languages.missing("dot")))


@pytest.fixture
def box():
    with Sandbox(profile="bare") as made:
        yield made


def dot(box, source, *argv, **options):
    return box.run(source, language="dot", argv=argv, **options)


def test_a_graph_comes_as_svg_and_png(box):
    execution = dot(box, 'digraph { a -> b [label="yes & no"] }')

    (display,) = execution.displays
    assert set(display.data) == {"image/svg+xml", "image/png"}
    assert display.png.startswith(b"\x89PNG\r\n\x1a\n")
    texts = [e.text for e in ET.fromstring(display.data["image/svg+xml"]).iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a", "b", "yes & no"]
    assert (execution.stdout, execution.stderr, dict(execution.artifacts)) == ("", "", {})


@pytest.mark.skipif(not os.path.isdir("/var/cache/fontconfig"), reason="this host keeps no cache of its fonts")
def test_the_fonts_are_not_looked_at_anew(box):
    """Looking at each costs more than drawing a graph; what was found is kept in the home of whoever looked.

    The one font that an environment brings is in no cache of the host. Looking at it takes some milliseconds.
    """
    dot(box, "digraph { a -> b }", "-Tsvg")

    kept = box.run("grep -ral /usr/ /tmp/.cache/fontconfig", language="shell")
    assert kept.stdout == ""


@pytest.mark.skipif(not os.path.isdir("/var/cache/fontconfig"), reason="this host keeps no cache of its fonts")
def test_fonts_that_are_looked_at_anew_would_be_seen(box):
    """So the test above can fail: here fontconfig is told of no cache but the one in the home."""
    config = '<fontconfig><dir>/usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>'
    box.run(f"echo '{config}' > /tmp/fonts.conf", language="shell")
    box.run("echo 'digraph { a -> b }' | FONTCONFIG_FILE=/tmp/fonts.conf dot -Tsvg", language="shell")

    kept = box.run("grep -ral /usr/ /tmp/.cache/fontconfig", language="shell")
    assert kept.stdout != ""


def test_the_formats_can_be_chosen(box):
    (display,) = dot(box, "graph { a -- b }", "-Tpdf").displays

    assert list(display.data) == ["application/pdf"]
    assert display._bytes("application/pdf").startswith(b"%PDF")


def drawn_large():
    """Each node takes more than a hundred bytes."""
    return f"digraph {{ {' '.join(f'n{number}' for number in range(HERE_BYTES // 100))} }}"


def test_others_go_on_while_a_large_picture_is_looked_at(monkeypatch):
    """A look at a picture that ends when the event loop has turned a thousand times more."""
    turned = threading.Event()

    async def turn():
        for _ in range(1000):
            await asyncio.sleep(0)
        turned.set()

    async def scenario():
        loop = asyncio.get_running_loop()

        def screen(data):
            asyncio.run_coroutine_threadsafe(turn(), loop)
            return {"text/plain": f"{turned.wait(timeout=30)}"}

        monkeypatch.setattr(runtime, "screen", screen)
        async with AsyncSandbox(profile="bare") as box:
            first = await box.run(drawn_large(), language="dot", argv=["-Tsvg"])
            return first, await box.run("echo on", language="shell")

    first, second = asyncio.run(scenario())

    assert [display.text for display in first.displays] == ["True"]
    assert second.stdout == "on\n"


def test_a_large_picture_whose_run_is_at_its_limit_is_shown_still(monkeypatch):
    """The worker ends while its picture is looked at; what came before its end is read."""
    over = threading.Event()
    ended = Worker.has_ended

    def has_ended(self, how):
        ended(self, how)
        over.set()

    def screen(data):
        return {"text/plain": f"{over.wait(timeout=30)}"}

    monkeypatch.setattr(runtime, "screen", screen)
    monkeypatch.setattr(Worker, "has_ended", has_ended)

    with Sandbox(profile="bare", limits=Limits(wall_s=1)) as box:
        execution = box.run(drawn_large(), language="dot", argv=["-Tsvg"])

    assert [display.text for display in execution.displays] == ["True"]


@pytest.mark.parametrize("engine", ["dot", "neato", "fdp", "sfdp", "twopi", "circo", "osage", "patchwork"])
def test_every_engine_draws(box, engine):
    execution = dot(box, "graph { a -- b -- c }", f"-K{engine}", "-Tsvg")

    assert (execution.error, len(execution.displays)) == (None, 1)


def test_the_layout_that_the_graph_names_is_used(box):
    by_name = dot(box, "graph { layout=circo; a -- b -- c -- a }", "-Tsvg")
    by_option = dot(box, "graph { a -- b -- c -- a }", "-Kcirco", "-Tsvg")

    assert by_name.displays[0].data == by_option.displays[0].data


@pytest.mark.parametrize(
    "option", ["-Kvim", "-Tps", "-l/etc/passwd", "-o/work/x", "file.dot", "-Tsvg:cairo", "-n", "-K"]
)
def test_no_other_option_comes_through(box, option):
    with pytest.raises(InvalidArgument, match="argv"):
        dot(box, "graph {}", option)


STRUCTURES = {
    "digraph g { a -> b -> c -> a; d }": (4, 3, 2, ["d"], [["a", "b", "c"]]),
    "graph { a -- b; c -- d -- e }": (5, 3, 2, [], []),
    "digraph { a -> {b c} -> d }": (4, 4, 1, [], []),
    "digraph { subgraph cluster_x { a; b } -> c }": (3, 2, 1, [], []),
    "strict graph { a -- b; b -- a; a -- b }": (2, 1, 1, [], []),
    "digraph { a -> a }": (1, 1, 1, [], [["a"]]),
    'digraph { "x" + "y" -> z:port:ne; /* c */ // d\n# e\n }': (2, 1, 1, [], []),
    "digraph { é -> 1.5 -> -3 }": (3, 2, 1, [], []),
    "digraph { a [label=<<b>x</b>>]; a -> b }": (2, 1, 1, [], []),
    "digraph {}": (0, 0, 0, [], []),
}


@pytest.mark.parametrize("source", STRUCTURES)
def test_the_structure_is_told(box, source):
    execution = dot(box, source, "-Tsvg")

    told = execution.value[MEDIA_TYPE]
    nodes, edges, components, isolated, cycles = STRUCTURES[source]
    assert execution.error is None
    assert told["counts"] == {"nodes": nodes, "edges": edges, "components": components, "isolated": len(isolated)}
    assert (told["isolated"], [sorted(c) for c in told["cycles"]]) == (isolated, cycles)
    svg = ET.fromstring(execution.displays[0].data["image/svg+xml"])
    drawn = [e.get("class") for e in svg.iter("{http://www.w3.org/2000/svg}g")]
    assert (drawn.count("node"), drawn.count("edge")) == (nodes, edges)


def test_the_text_form_is_for_reading(box):
    text = dot(
        box, 'digraph flow { start [label="Begin"]; start -> end [label=ok]; end -> start; other }', "-Tsvg"
    ).text

    assert text.splitlines() == [
        "digraph flow: 3 nodes, 2 edges, 2 components, with cycles",
        "nodes:",
        "  start 'Begin'",
        "  end",
        "  other",
        "edges:",
        "  start -> end 'ok'",
        "  end -> start",
        "isolated:",
        "  other",
        "cycle: start -> end -> start",
        "components:",
        "  start, end",
        "  other",
    ]


ERRORS = {
    "digraph {\n a -> b;\n b -> -> c\n}": (3, 7, "expected a node, a subgraph, an attribute or '}', found '->'"),
    "graph { a -> b }": (1, 11, "expected '--' in a graph, found '->'"),
    "digraph {\n a -> b": (2, 8, "expected a node, a subgraph, an attribute or '}', found the end of the source"),
    'digraph { a [label="x] }': (1, 20, "expected a closing '\"', found '\"'"),
    "digraph { a [label=] }": (1, 20, "expected a value, found ']'"),
    "a -> b": (1, 1, "expected 'graph' or 'digraph', found 'a'"),
    "digraph { node -> a }": (1, 16, "expected '[', found '->'"),
    "digraph { a [x=<b] }": (1, 16, "expected a closing '>', found '<'"),
    "digraph { a ? b }": (1, 13, "expected a name, a number, a text or a sign, found '?'"),
}


@pytest.mark.parametrize("source", ERRORS)
def test_an_error_has_its_place_and_what_was_expected(box, source):
    execution = dot(box, source)

    assert execution.outcome is Outcome.ERROR
    error = execution.error
    assert (error.type, error.line, error.column, error.message) == ("SyntaxError", *ERRORS[source])
    assert (execution.value, execution.displays) == (None, [])


def test_what_only_graphviz_finds_is_told_in_its_words(box):
    error = dot(box, "digraph { a [label=<<b>x</i>>] }").error

    assert (error.type, error.message) == ("GraphvizError", "mismatched tag in line 1")


WARNINGS = {
    "digraph { a [shpae=box]; a -> b }": ("dot.unknown_attribute", "Did you mean 'shape'?"),
    "digraph { a [shape=nosuch]; a -> b }": ("dot.graphviz", ""),
    "digraph { customer; order; customer -> order; custommer -> order }": (
        "dot.misspelt_node",
        "If 'customer' is meant, write it so; Graphviz has drawn one more node.",
    ),
    "digraph { a -> b; lonely }": ("dot.unconnected_node", ""),
    "digraph { a } digraph { b }": ("dot.several_graphs", "Run one program for each."),
}


@pytest.mark.parametrize("source", WARNINGS)
def test_what_looks_like_a_mistake_is_a_warning(box, source):
    execution = dot(box, source, "-Tsvg")

    assert [(w.code, w.hint) for w in execution.warnings] == [WARNINGS[source]]
    assert execution.ok


@pytest.mark.parametrize(
    "source",
    [
        "digraph { step1; step2; step1 -> step2; step2 -> step3 }",
        "digraph { alpha -> beta -> gamma }",
        "digraph { node [shape=box]; a; b; a -> b; c -> a }",
    ],
)
def test_an_honest_graph_has_no_warning(box, source):
    assert list(dot(box, source, "-Tsvg").warnings) == []


def test_a_graph_of_100_000_nodes_is_an_outcome_and_the_sandbox_goes_on():
    source = "digraph {" + "".join(f"n{i} -> n{i // 2};" for i in range(100_000)) + "}"
    with Sandbox(profile="bare", limits=Limits(wall_s=3, cpu_s=10)) as box:
        box.run("kept = 1")

        execution = dot(box, source, "-Tsvg")

        assert execution.outcome in (Outcome.TIMEOUT, Outcome.MEMORY)
        assert [warning.code for warning in execution.warnings if warning.code == "dot.not_told"] == ["dot.not_told"]
        assert box.run("kept").text == "1"


def test_deep_nesting_is_an_error_and_no_crash(box):
    assert dot(box, "graph {" + "{" * 5000 + "}" * 5000 + "}", "-Tsvg").outcome in (Outcome.ERROR, Outcome.SIGNAL)


def test_the_result_is_json(box):
    assert json.loads(json.dumps(dot(box, "digraph { a -> b }").to_dict()))["value"][MEDIA_TYPE]["counts"]["edges"] == 1


RED_SQUARE = """
import zlib, struct
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
with open('a.png', 'wb') as file:
    file.write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 9, 9, 8, 2, 0, 0, 0)))
    file.write(chunk(b'IDAT', zlib.compress((b'\\0' + b'\\xff\\0\\0' * 9) * 9)) + chunk(b'IEND', b''))
"""


def test_an_image_of_the_workdir_is_in_the_picture_and_the_svg_refers_to_no_file(box):
    box.run(RED_SQUARE)

    execution = dot(box, 'graph { a [image="a.png", label=""] }')

    assert (execution.error, list(execution.warnings)) == (None, [])
    assert "a.png" not in execution.displays[0].data["image/svg+xml"]


LARGE = {
    "a long name with many edges": '"' + "x" * 100_000 + '" -> {' + " ".join(f"n{i}" for i in range(9_000)) + "}",
    "many defaults, then many nodes": "".join(f"node [a{i}=x] " for i in range(8_000))
    + "".join(f"n{i};" for i in range(9_000)),
    "a long label for all": "node [label=" + "x" * 150_000 + "] " + " ".join(f"n{i};" for i in range(9_000)),
    "many nodes that look alike": "".join(f"abcdefghij{i};" for i in range(5_000))
    + "".join(f"abcdefghjj{i} -> a;" for i in range(5_000)),
    "edges that are the same": "} strict digraph {" + "{a b c d e f g h i j} -> {a b c d e f g h i j}; " * 5_000,
    "many unknown attributes": "a [" + " ".join(f"shpae{i}=x" for i in range(15_000)) + "]",
    "many subgraphs": "{" * 99 + " ".join(f"n{i};" for i in range(20_000)) + "}" * 99,
    "quotation marks": '"\\"' * 60_000,
    "angles": "<" * 200_000,
    "comments": "/**/" * 60_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_source_made_to_take_long_is_studied_in_bounds(name):
    """The host reads it outside of any limit of the sandbox, so both time and size are bounded by its own."""
    source = f"digraph {{ {LARGE[name]} }}"
    assert len(source) <= runtime.MOST_READ

    begun = time.process_time()
    studied = runtime.study(Program(source=source))

    assert time.process_time() - begun < 5
    assert len(json.dumps(studied.value)) < 4_000_000
    assert sum(len(json.dumps([w.message, dict(w.evidence)])) for w in studied.warnings) < 1_000_000


def test_what_graphviz_says_is_told_in_part_when_it_is_long(box):
    name = "x" * 5000
    execution = dot(box, f'digraph {{ a [shape="{name}"] }}')

    assert all(len(warning.message) <= 1000 for warning in execution.warnings)
    assert any("unknown shape" in warning.message for warning in execution.warnings)


def test_what_a_thread_takes_to_look_counts_as_reading(monkeypatch):
    """So a guest that shows large pictures without end is read a part of the time only, and nobody polls meanwhile."""
    spent: Any = []
    read_on: Any = []
    began = {}
    pace, on = Worker._pace, Worker._read_on
    monkeypatch.setattr(worker, "_FREE_S", 0.0)
    monkeypatch.setattr(worker, "_PAUSES", 1)
    monkeypatch.setattr(Worker, "_pace", lambda self, s: spent.append(s) or pace(self, s))
    monkeypatch.setattr(Worker, "_read_on", lambda self, report: read_on.append(1) or on(self, report))

    def screen(data):
        while time.thread_time() < 0.2 + began.setdefault(threading.get_ident(), time.thread_time()):
            pass
        return {"text/plain": "seen"}

    monkeypatch.setattr(runtime, "screen", screen)
    with Sandbox(profile="bare") as box:
        execution = box.run(drawn_large(), language="dot", argv=["-Tsvg"])

    assert [display.text for display in execution.displays] == ["seen"]
    assert max(spent) >= 0.2
    assert len(read_on) < 100


@pytest.mark.parametrize("format_", ["png", "pdf"])
def test_a_picture_over_the_size_of_any_is_left_out_with_the_reason(format_):
    """One line of DOT makes pictures of many megabytes."""
    fits = "A" * (4 * MiB * 4 // 3)

    media_type = runtime.FORMATS[format_]

    assert runtime.screen({media_type: fits}) == {media_type: fits}
    assert runtime.screen({media_type: fits + "AAAA", "image/svg+xml": "<a/>"}) == {
        "text/plain": f"no SVG is shown: what came is no SVG\nno {format_.upper()} is shown: "
        "it has 4194306 bytes, more than 4194304"
    }
