"""Finds what an answer states: file names, code spans, quoted texts, dates, numbers and number words.

Each kind is looked for in what the kinds before it left. Every expression here takes time linear in the text.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from groundbox.check.answers.dates import dates
from groundbox.check.answers.found import Found
from groundbox.check.answers.numbers import number_at, numbers, parts
from groundbox.check.answers.report import Kind
from groundbox.check.english import has_decimal_commas, number_words

_FENCE_NAMES: Final = """
text txt output console plaintext csv json markdown md
"""
_ENDING_NAMES: Final = """
csv tsv txt json jsonl ndjson xlsx xls xlsm parquet arrow feather pdf png jpg jpeg svg gif webp bmp html htm
md py ipynb sql db sqlite duckdb zip tar gz xml yaml yml toml ini cfg log docx doc pptx odt ods pkl pickle
npy npz h5 hdf5 dot gv js ts sh tex rtf mp3 mp4 wav geojson
"""
MOST_QUOTE: Final = 200
_OUTPUT_FENCES: Final = frozenset(["", *_FENCE_NAMES.split()])
_URL: Final = re.compile(r"\b(?:https?|ftp)://[^\s<>\"'`]+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_CODE: Final = re.compile(r"`([^`\n]{1,300})`")
_PATH: Final = re.compile(r"[\w./~@+\\-]{3,255}")
_QUOTES: Final = re.compile(
    rf'"([^"\n]{{1,{MOST_QUOTE}}})"|“([^“”"\n]{{1,{MOST_QUOTE}}})[”“"]|„([^“”"\n]{{1,{MOST_QUOTE}}})[“”"]'
    rf"|«([^«»\n]{{1,{MOST_QUOTE}}})»|(?<!\w)'([^'\n]{{2,{MOST_QUOTE}}})'(?!\w)|(?<!\w)‘([^‘’\n]{{2,{MOST_QUOTE}}})’(?!\w)"
)
_ENDINGS: Final = frozenset(_ENDING_NAMES.split())
_NO_FILES: Final = re.compile(
    r"(?:Node|Vue|Next|React|D3|Three|Express|Chart|Plotly|Nuxt|Socket|Ember|Alpine)\.(?:js|ts)"
)
_NUMERIC: Final = re.compile(r"[-+−$€£(]{0,3}\d[\d.,'_ ]*[%)€]?\Z")


class Reading(NamedTuple):
    """An answer's visible text and what is in it.

    Attributes:
        text: With everything blanked that holds no number, of the same length.
        mentions: In the order of the text.
        programs: What stands in fenced blocks of code.
    """

    text: str
    mentions: list[Found]
    programs: str


def read(text: str) -> Reading:
    """Everything that `text` states."""
    comma = has_decimal_commas(text)
    blocks = _fenced(text)
    programs = "\n".join(text[start:end] for start, end in blocks.programs)
    text = _blank(text, [*blocks.blank, *((m.start(), m.end()) for m in _URL.finditer(text))])
    found: list[Found] = []
    for step in (_code_spans, _files, _quoted, _dated):
        more = list(step(text))
        found += more
        text = _blank(text, ((one.start, one.end) for one in more if not _is_number_span(one)))
        if step is _code_spans:
            text = text.replace("`", " ")
    counted = list(numbers(text, comma=comma))
    found += counted
    spared = _blank(text, ((one.start, one.end) for one in counted))
    found += (number_at(spared, word) for word in number_words(spared))
    found += parts(spared)
    found = [one for one in found if not _is_number_span(one)]
    _mark_verbatim(found, blocks.outputs)
    found.sort(key=lambda one: (one.start, one.end))
    return Reading(text, found, programs)


def _mark_verbatim(found: list[Found], outputs: list[tuple[int, int]]) -> None:
    starts = [start for start, _ in outputs]
    for one in found:
        at = bisect.bisect_right(starts, one.start)
        one.verbatim = at > 0 and one.end <= outputs[at - 1][1]


def _is_number_span(one: Found) -> bool:
    """A code span that holds nothing but a number is read as a number, not as code."""
    return one.kind is Kind.CODE and _NUMERIC.match(one.text.strip("`").strip()) is not None


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in sorted(spans):
        if start >= at:
            pieces += [text[at:start], "\0" * (end - start)]
            at = end
    return "".join([*pieces, text[at:]])


class _Blocks(NamedTuple):
    """Fenced blocks: what is blanked (programs, and the fences themselves), programs, and repeated outputs."""

    blank: list[tuple[int, int]]
    programs: list[tuple[int, int]]
    outputs: list[tuple[int, int]]


def _fenced(text: str) -> _Blocks:
    blocks = _Blocks([], [], [])
    at, opened, inside, program = 0, -1, 0, False
    for line in text.splitlines(keepends=True):
        end = at + len(line)
        if line.lstrip().startswith(("```", "~~~")):
            if opened < 0:
                opened, inside = at, end
                program = line.strip().strip("`~").strip().casefold() not in _OUTPUT_FENCES
            else:
                (blocks.programs if program else blocks.outputs).append((inside, at))
                blocks.blank.extend([(opened, end)] if program else [(opened, inside), (at, end)])
                opened = -1
        at = end
    if opened >= 0:
        blocks.blank.append((opened, at if program else inside))
        (blocks.programs if program else blocks.outputs).append((inside, at))
    return blocks


def _code_spans(text: str) -> Iterator[Found]:
    for match in _CODE.finditer(text):
        kind = Kind.FILE if is_file(match[1]) else Kind.CODE
        yield Found(kind=kind, start=match.start(), end=match.end(), text=match[0])


def _files(text: str) -> Iterator[Found]:
    for match in _PATH.finditer(text):
        name = match[0].rstrip(".-/\\")
        if is_file(name):
            yield Found(kind=Kind.FILE, start=match.start(), end=match.start() + len(name), text=name)


def is_file(name: str) -> bool:
    """Whether the name reads like that of a file."""
    stem, dot, ending = name.rpartition(".")
    if not dot or ending.casefold() not in _ENDINGS or " " in stem.strip():
        return False
    return bool(stem.strip("./~\\")) and stem[-1] not in "/\\" and _NO_FILES.fullmatch(name) is None


def _quoted(text: str) -> Iterator[Found]:
    for match in _QUOTES.finditer(text):
        inner = match[match.lastindex or 0]
        if inner.strip() and any(c.isalnum() for c in inner):
            yield Found(kind=Kind.TEXT, start=match.start(), end=match.end(), text=match[0])


def _dated(text: str) -> Iterator[Found]:
    for date in dates(text):
        yield Found(kind=Kind.DATE, start=date.start, end=date.end, text=date.text, date=date)
