"""SVG made harmless: what a picture needs is kept, by name; everything else is left out.

Kept are shapes, text, gradients and groups with attributes of geometry and paint. Left out are scripts, handlers,
styles with references, foreign content, images and links (what a link shows stays), comments, instructions and
declarations. A reference stays when it is to a part of the picture itself. The picture is written anew from what was
understood, never cut out of the text, so that no parser reads something else in it than this one did.

Most pictures of Graphviz hold nothing but what is kept, in so plain a form that there is one way only to read it: known
tags, known attributes whose values are plain, and text. Such a picture stays as it is, without being written anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_ELEMENTS: Final = 60_000
_MOST_DEPTH: Final = 200
_MOST_PATTERNS: Final = 1000
_MOST_BEGINNING: Final = 16 * 1024
_SLICE: Final = 64 * 1024
_NAMESPACES: Final = {"xmlns": "http://www.w3.org/2000/svg", "xmlns:xlink": "http://www.w3.org/1999/xlink"}
_ELEMENTS: Final = """
    circle clipPath defs desc ellipse g line linearGradient path polygon polyline radialGradient rect stop svg text
    textPath title tspan
"""
_KNOWN: Final = frozenset(_ELEMENTS.split()) | {"a"}
_ATTRIBUTE_NAMES: Final = """
    baseline-shift class clip-path clip-rule clipPathUnits cx cy d dominant-baseline dx dy fill fill-opacity
    fill-rule font-family font-size font-style font-weight fx fy gradientTransform gradientUnits height id
    lengthAdjust offset opacity points preserveAspectRatio r rx ry spreadMethod startOffset stop-color stop-opacity
    stroke stroke-dasharray stroke-linecap stroke-linejoin stroke-opacity stroke-width style text-anchor
    text-decoration textLength transform version viewBox width x x1 x2 xlink:title xml:space y y1 y2
"""
_ATTRIBUTES: Final = frozenset(_ATTRIBUTE_NAMES.split())
_REFERENCES: Final = frozenset({"href", "xlink:href"})
_PART: Final = re.compile(r"#[\w.:-]+")
_PAINT: Final = re.compile(r"url\(#[\w.:-]+\)", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[\w .,#%+-]*").fullmatch
"""Needs no quoting and can name nothing."""
_STYLE: Final = re.compile(r"[\w\s:;#.,%-]*|[a-z-]+:url\(#[\w.:-]+\);?", re.IGNORECASE)

_TAGS: Final = "|".join(sorted(_KNOWN - {"a"}))
_FREQUENT: Final = ("fill", "stroke", "points", "d", "class", "id", "cx", "cy", "rx", "ry", "text-anchor", "x", "y")
_NAMES: Final = "|".join([*_FREQUENT, *sorted(_ATTRIBUTES.difference(_FREQUENT, ("style", "transform")))])
_MOVE: Final = r"(?:matrix|rotate|scale|skewX|skewY|translate)\([\d ,.-]*\)"
_PLAIN_ATTRIBUTE: Final = rf'(?:(?:{_NAMES})="[\w .,#%+-]*"|transform="{_MOVE}(?: {_MOVE})*")'
_PROLOGUE: Final = re.compile(r"(?:[ \t\r\n]+|<\?xml [^<>?]*\?>|<!DOCTYPE svg [^<>\[\]]*>|<!-- [^<>-]* -->)*")
_ROOT: Final = re.compile(rf'<svg(?:[ \t\r\n]+(?:{_PLAIN_ATTRIBUTE}|xmlns(?::xlink)?="[\w:/.]*"))*>', re.ASCII)
_ATTRIBUTE: Final = re.compile(rf"(?<=[ \t\r\n]){_PLAIN_ATTRIBUTE}", re.ASCII)
_COMMENT: Final = re.compile(r"<!-- [^<>-]* -->")
_LINE_OF_COMMENT: Final = re.compile(r"\n<!-- [^<>-]* -->(?=\n)")
_TOKEN: Final = re.compile(
    rf"[^<>&]+|<(?:{_TAGS})(?: {_PLAIN_ATTRIBUTE})*/?>|</(?:{_TAGS})>|&(?:amp|lt|gt|quot|apos|#\d{{1,7}});", re.ASCII
)
_NO_MARK: Final = bytes(each for each in range(128) if each not in b"</=>")


class NotSvg(ValueError):
    """It is too large, not well-formed, declares something, or is no SVG. The message says which."""


def harmless(text: str) -> str:
    """The picture without anything that acts, refers elsewhere or is no picture.

    Raises:
        NotSvg: There is no picture to be had.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        raise NotSvg(f"the SVG has {len(data)} bytes, more than {MOST_BYTES}")
    return _as_it_is(data.decode("utf-8")) or _anew(data)


def _as_it_is(text: str) -> str | None:
    """The picture without its declarations and comments, if all else of it is plain and well-formed."""
    begin = _PROLOGUE.match(text, 0, _MOST_BEGINNING)
    root = _ROOT.match(text, begin.end(), begin.end() + _MOST_BEGINNING) if begin else None
    if root is None:
        return None
    rest = _COMMENT.sub("", _LINE_OF_COMMENT.sub("", text[root.end() :]))
    if rest.count("<") > _MOST_ELEMENTS or not all(map(_is_plain, _slices(rest))) or _is_deep(rest):
        return None
    names = "".join(f' {name}="{value}"' for name, value in _NAMESPACES.items())
    attributes = "".join(f" {each}" for each in _ATTRIBUTE.findall(root[0]))
    picture = f'<?xml version="1.0" encoding="UTF-8"?>\n<svg{names}{attributes}>{rest}'
    try:
        expat.ParserCreate("utf-8").Parse(picture.encode("utf-8"), True)
    except expat.ExpatError:
        return None
    return picture


def _slices(text: str) -> Iterator[str]:
    """In parts that end with a tag: an expression holds all of the process as long as it looks at one."""
    at = 0
    while at < len(text):
        end = text.find(">", at + _SLICE) + 1 or len(text)
        yield text[at:end]
        at = end


def _is_plain(text: str) -> bool:
    return len(text) <= 4 * _SLICE and not _TOKEN.sub("", text)


def _is_deep(tokens: str) -> bool:
    """Whether elements are nested deeper than is allowed. Each turn takes the innermost ones away."""
    marks = tokens.encode("ascii", "ignore").translate(None, _NO_MARK).replace(b"</>", b"E").replace(b"/>", b"S")
    left = marks.translate(None, b"/=>").replace(b"<S", b"")
    for _ in range(_MOST_DEPTH):
        shorter = left.replace(b"<E", b"")
        if shorter == left:
            return left != b"E"  # the root's end
        left = shorter
    return True


def _anew(data: bytes) -> str:
    writer = _Writer()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.text
    parser.StartDoctypeDeclHandler = _refuse_declarations
    parser.EntityDeclHandler = _refuse_entity
    parser.ordered_attributes = True
    parser.specified_attributes = True
    parser.buffer_text = True
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise NotSvg(f"the SVG is not well-formed: {error}") from None
    if not writer.parts or not writer.parts[0].startswith("<svg"):
        raise NotSvg("what came is no SVG")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + "".join(writer.parts) + "\n"


class _Writer:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self._open: list[str] = []
        self._skipped = 0
        self._elements = 0
        self._patterns: dict[tuple[str, ...], str] = {}

    def start(self, name: str, attributes: list[str]) -> None:
        """`attributes` are names and values in turn."""
        self._elements += 1
        if self._elements > _MOST_ELEMENTS:
            raise NotSvg(f"the SVG has more than {_MOST_ELEMENTS} elements")
        if self._skipped or name not in _KNOWN or (not self._open and name != "svg"):
            self._skipped += 1
            return
        if len(self._open) >= _MOST_DEPTH:
            raise NotSvg(f"the SVG is nested deeper than {_MOST_DEPTH}")
        names, values = attributes[::2], attributes[1::2]
        pattern = self._pattern(name, names)
        if pattern and _PLAIN("".join(values)):
            self.parts.append(pattern % tuple(values))
        else:
            kept = map(_written, names, values)
            self.parts.append(f"{self._opened(name)}{''.join(kept)}>")
        self._open.append("g" if name == "a" else name)

    def _pattern(self, name: str, names: Sequence[str]) -> str:
        """What the element is written by when its values need no look; pictures repeat few of them many times."""
        key = (name, *names)
        pattern = self._patterns.get(key)
        if pattern is None:
            known = _ATTRIBUTES.issuperset(names)
            pattern = self._opened(name) + "".join(f' {each}="%s"' for each in names) + ">" if known else ""
            if self._open and len(self._patterns) < _MOST_PATTERNS:
                self._patterns[key] = pattern
        return pattern

    def _opened(self, name: str) -> str:
        """The first of all says which names these are."""
        namespaces = "" if self._open else "".join(f' {key}="{value}"' for key, value in _NAMESPACES.items())
        return f"<{'g' if name == 'a' else name}{namespaces}"

    def end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        else:
            self.parts.append(f"</{self._open.pop()}>")

    def text(self, data: str) -> None:
        if self._open and not self._skipped:
            self.parts.append(data if data == "\n" else escape(data))


def _written(name: str, value: str) -> str:
    """The attribute as it is written; nothing for one that is left out."""
    return f" {name}={quoteattr(value)}" if _is_harmless(name, value) else ""


def _is_harmless(name: str, value: str) -> bool:
    if name in _REFERENCES:
        return _PART.fullmatch(value) is not None
    if name not in _ATTRIBUTES:
        return False
    if name == "style":
        return _STYLE.fullmatch(value) is not None
    if name in ("id", "class", "xlink:title"):
        return True
    return ("url" not in value.lower() and "\\" not in value) or _PAINT.fullmatch(value) is not None


def _refuse_declarations(name: str, system: str | None, public: str | None, has_internal_subset: int) -> None:
    """Graphviz names its document type and declares nothing; a default attribute would be copied into each element."""
    if has_internal_subset:
        raise NotSvg("the SVG declares a document type of its own")


def _refuse_entity(*_: object) -> None:
    raise NotSvg("the SVG declares entities")
