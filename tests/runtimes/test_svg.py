"""SVG made harmless. A picture is judged by what another parser finds in it."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundbox.runtimes import svg
from groundbox.runtimes.svg import MOST_BYTES, NotSvg, harmless

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'

ATTACKS = {
    "a script": "<script>alert(1)</script>",
    "a script by another prefix": '<s:script xmlns:s="http://www.w3.org/2000/svg">alert(1)</s:script>',
    "a handler": '<g onload="alert(1)" onclick="alert(1)"/>',
    "a handler in capitals": '<g ONLOAD="alert(1)"/>',
    "foreign content": '<foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="alert(1)"/></foreignObject>',
    "another namespace": '<g xmlns="http://www.w3.org/1999/xhtml"><img src="https://evil.example/"/></g>',
    "a link to code": '<a xlink:href="javascript:alert(1)"><text>x</text></a>',
    "a link to code in another way": '<a href="java&#10;script:alert(1)"><text>x</text></a>',
    "a link elsewhere": '<a xlink:href="https://evil.example/"><text>x</text></a>',
    "an image": '<image xlink:href="https://evil.example/a.png" width="1" height="1"/>',
    "an image as data": '<image xlink:href="data:image/svg+xml;base64,PHN2Zz4="/>',
    "a use": '<use xlink:href="https://evil.example/a.svg#x"/>',
    "a style": "<style>@import url(https://evil.example/a.css);</style>",
    "a style that refers": '<g style="fill:url(https://evil.example/a.svg#x)"/>',
    "a style with an escape": r'<g style="fill:\75rl(https://evil.example/)"/>',
    "a style with a comment": '<g style="fill:u/**/rl(https://evil.example/)"/>',
    "a paint that refers": '<g fill="url(https://evil.example/a.svg#x)"/>',
    "a paint with spaces": "<g fill=\" URL( 'https://evil.example/a.svg#x' )\"/>",
    "a paint of two": '<g fill="url(#a) url(https://evil.example/)"/>',
    "an animation": '<set attributeName="href" to="javascript:alert(1)"/><animate attributeName="onload"/>',
    "an iframe": '<iframe src="https://evil.example/"/>',
    "a base": '<g xml:base="https://evil.example/"/>',
    "an instruction": '<?xml-stylesheet href="https://evil.example/a.css"?>',
    "a comment": "<!-- <script>alert(1)</script> -->",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_acts_or_refers_elsewhere_is_left_out(name):
    made = harmless(f"{HEAD}{ATTACKS[name]}<text>kept</text></svg>")

    root = ET.fromstring(made)
    assert {element.tag.partition("}")[0] for element in root.iter()} == {"{http://www.w3.org/2000/svg"}
    assert not re.search(r"alert|evil|script|<!|<\?(?!xml version)|data:", made)
    assert [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")][-1] == "kept"


def test_what_a_picture_needs_is_kept():
    picture = (
        f'{HEAD}<defs><linearGradient id="l"><stop offset="0" style="stop-color:#ff0000;stop-opacity:1;"/>'
        '</linearGradient></defs><g class="node"><title>a&amp;b &lt;x&gt;</title>'
        '<path d="M1,2C3,4 5,6" fill="url(#l)" stroke="black" style="stroke-width:2"/></g></svg>'
    )

    assert ET.canonicalize(harmless(picture)) == ET.canonicalize(picture)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not xml",
        "<html/>",
        f"{HEAD}<g></svg>",
        '<!DOCTYPE svg [<!ENTITY a "aaaa">]>' + HEAD + "&a;</svg>",
        '<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + HEAD + "&a;</svg>",
        HEAD + "<g>" * 300 + "</g>" * 300 + "</svg>",
        HEAD + " " * MOST_BYTES + "</svg>",
    ],
)
def test_what_is_no_picture_is_refused(text):
    with pytest.raises(NotSvg):
        harmless(text)


def test_text_cannot_become_markup():
    made = harmless(f'{HEAD}<g id="&quot;&gt;&lt;script&gt;"><text>&lt;script&gt;&amp;lt;</text></g></svg>')

    root = ET.fromstring(made)
    assert [element.tag.partition("}")[2] for element in root.iter()] == ["svg", "g", "text"]
    assert root[0].get("id") == '"><script>'


def test_declarations_of_its_own_are_refused():
    large = "A" * 1000
    svg = f'<!DOCTYPE svg [<!ATTLIST g fill CDATA "{large}">]>' + HEAD + "<g/>" * 1000 + "</svg>"

    with pytest.raises(NotSvg, match="declares a document type of its own"):
        harmless(svg)


def test_what_graphviz_begins_with_is_none_of_its_own():
    doctype = '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'

    assert "<g>" in harmless(doctype + HEAD + "<g/></svg>")


def test_a_picture_of_too_many_elements_is_refused():
    with pytest.raises(NotSvg, match="more than 60000 elements"):
        harmless(HEAD + "<g/>" * 60_001 + "</svg>")


PARTS = [
    *ATTACKS.values(),
    *(
        "<g>",
        "</g>",
        "<g/>",
        "<title>",
        "</title>",
        "<svg>",
        "</svg>",
        "<!-- a -->",
        "<!-- a--b -->",
        "-->",
        "]]>",
        "\n",
    ),
    *(
        "a/b = c",
        "&lt;",
        "&#60;",
        "&#0;",
        "&nbsp;",
        "</g",
        "/>",
        '"',
        "\ud800",
        "\x01",
        "\u2028",
        "<text x='1'>",
        "</text>",
    ),
    *('<path d="M1,2" d="M3"/>', '<path d="M1,2C3" fill="red"/>', '<g transform="rotate(1) translate(4 2)"/>'),
    *(
        '<g transform="url(#a)"/>',
        '<g fill="url(#a)"/>',
        '<g id="\u212a"/>',
        '<g ID="a"/>',
        '<g\nid="a"/>',
        '<g  id="a"/>',
    ),
]


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.lists(st.sampled_from(PARTS[-25:]), max_size=2))
@example([], ["\u2028"])
def test_a_picture_that_stays_as_it_is_would_be_the_same_when_written_anew(parts, before):
    text = f"{''.join(before)}{HEAD}<g>{''.join(parts)}</g></svg>".encode("utf-8", "replace").decode()

    kept = svg._as_it_is(text)

    assert kept is None or ET.canonicalize(kept) == ET.canonicalize(svg._anew(text.encode()))


def test_a_plain_picture_stays_as_it_is_but_for_comments_and_declarations():
    picture = f'{HEAD}\n<g id="a" class="b"><title>a&#45;b/c = d</title>\n<path d="M1,2C3,4"/></g>\n</svg>\n'
    begin = '<?xml version="1.0" standalone="no"?>\n<!DOCTYPE svg PUBLIC "a" "http://b">\n<!-- of a\n -->\n'

    kept = svg._as_it_is(begin + picture.replace("\n<path", "\n<!-- a&#45;b -->\n<path"))

    assert kept == '<?xml version="1.0" encoding="UTF-8"?>\n' + picture


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_that_is_to_be_left_out_stays(name):
    assert svg._as_it_is(f"{HEAD}{ATTACKS[name]}<text>kept</text></svg>") is None or name == "a comment"


def test_depth_is_bounded_without_parsing():
    def nested(depth):
        return f'{HEAD}{"<g>" * depth}<path d="M1"/>/{"</g>" * depth}</svg>'

    assert svg._as_it_is(nested(199)) is not None
    assert svg._as_it_is(nested(201)) is None


def test_what_stands_around_a_comment_stays_apart():
    kept = svg._as_it_is(f"{HEAD}<text>foo<!-- x -->\nbar</text>\n<!-- y -->\n<g id='a'></g></svg>".replace("'", '"'))

    assert kept is not None
    assert "<text>foo\nbar</text>\n<g" in kept


@pytest.mark.parametrize(
    "text", ["<svg" + " " * (1 << 21) + ">", "<svg>" + "&" * (1 << 21), "<!-- a -->" * 200_000 + "<svg></svg>"]
)
def test_what_is_long_and_not_plain_is_given_up_soon(text, monkeypatch):
    """An expression that looks at megabytes keeps all other sandboxes waiting; the parser does not."""
    looked = []

    class Counting:
        def __init__(self, pattern):
            self.pattern = pattern

        def __getattr__(self, name):
            def call(*args):
                looked.append(
                    max(len(each) for each in args if isinstance(each, str)) if len(args) < 3 else args[-1] - args[-2]
                )
                return getattr(self.pattern, name)(*args)

            return call

    for name in ("_PROLOGUE", "_ROOT", "_TOKEN"):
        monkeypatch.setattr(svg, name, Counting(getattr(svg, name)))

    assert svg._as_it_is(text) is None
    assert max(looked) <= 4 * svg._SLICE
