"""Reads an answer: the numbers, dates, quoted texts, code spans and file names that it states.

Each kind is looked for in what the kinds before it left. Every expression here takes time linear in the text.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from groundbox.check.answers import unspaced
from groundbox.check.answers.dates import Date, dates
from groundbox.check.answers.report import Kind
from groundbox.check.answers.text import blank
from groundbox.values.numbers import NUMERAL, Number, NumberWords, has_decimal_commas, number_words, numerals


@dataclasses.dataclass(kw_only=True, slots=True)
class Found:
    """A mention as it was read, before it is judged.

    Attributes:
        start: Position in the visible text.
        numbers: Each way to read a number; empty for other kinds and for versions such as 1.2.3.
        pair: The two numbers of a fraction such as 45/50.
        bound: `about`, `over` or `under` where the answer says so, `less` and `greater` where it writes `<` and `>`.
        unit: The word behind the number.
        verbatim: Whether it stands in a block that repeats an output.
        no_claim: Why it is no claim whatever was shown.
        excuse: Why it is no claim unless it was shown.
    """

    kind: Kind
    start: int
    end: int
    text: str
    numbers: Sequence[Number] = ()
    pair: tuple[Number, Number] | None = None
    percent: bool = False
    currency: bool = False
    ordinal: bool = False
    in_words: bool = False
    bound: str = ""
    unit: str = ""
    date: Date | None = None
    verbatim: bool = False
    no_claim: str = ""
    excuse: str = ""


_ATTACHED_NAMES: Final = """
k K M B T m bn mn s ms us µs ns min h d x X b kb KB MB GB TB KiB MiB GiB TiB kB g kg mg t km cm mm mi ft lb
oz px pt st nd rd th C F Hz kHz MHz GHz W kW V A dB
"""
_ONE: Final = Decimal(1)
_NEAR: Final = 40
_PERCENT: Final = re.compile(
    r"[ \u00a0\u202f]?(?:[%٪]|(?:percent|per cent|percentage points?|pp|Prozent|pct)(?!\w)"
    rf"|(?P<unspaced>{unspaced.PERCENT}))"
)
# In `10–12 %` the sign belongs to both.
_RANGE_PERCENT: Final = re.compile(r" ?(?:-|–|—|to|and) ?\d[\d.,]{0,20} ?(?:%|percent)")
_SCALE: Final = re.compile(
    r"[ \u00a0\u202f-]?(?:(?P<word>hundred|thousand|million|billion|trillion|mn|bn|Mio\.?|Mrd\.?|Millionen"
    r"|Milliarden|lakh|crore)s?(?!\w))"
    r"|(?P<letter>[kKMBT](?!\w))",
)
# Powers of ten. `m` and `b` count only behind a currency: `5 m` is five metres.
_SCALES: Final = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "mn": 6, "bn": 9, "mio": 6, "mrd": 9,
    "millionen": 6, "milliarden": 9, "lakh": 5, "crore": 7, "k": 3, "K": 3, "M": 6, "B": 9, "T": 12, "m": 6, "b": 9,
}  # fmt: skip
_UNIT: Final = re.compile(r"[ \u00a0\u202f-]?([^\W\d_]{1,24}|[°µ][A-Za-z]{1,3})")
_CURRENCY_BEFORE: Final = re.compile(r"(?:[$€£¥₹]|\b(?:US\$|USD|EUR|GBP|JPY|CHF|INR)) ?\Z")
_CURRENCY_AFTER: Final = re.compile(
    r"[ \u00a0\u202f]?(?:[$€£¥₹]|(?:USD|EUR|GBP|JPY|CHF|INR|dollars?|euros?|pounds?|Euro)(?!\w)"
    rf"|{unspaced.CURRENCY})"
)
_ATTACHED: Final = re.compile(r"[A-Za-zµ_][\w]*")
# Letters at the digits make a name (`4x4`, `B12a`) unless they are one of these.
_ATTACHED_UNITS: Final = frozenset(_ATTACHED_NAMES.split())
_BOUND: Final = re.compile(
    r"(?:(?P<about>\b(?:about|around|roughly|approximately|approx\.?|circa|ca\.|close to|rund|etwa|an estimated)|[~≈]"
    rf"|{unspaced.ABOUT})"
    r"|(?P<over>\b(?:over|more than|above|at least|exceed(?:s|ed|ing)?|upwards of|greater than|just past)|[≥]"
    rf"|{unspaced.OVER})"
    r"|(?P<under>\b(?:under|less than|below|at most|fewer than|up to|nearly|almost|just short of)|[≤]"
    rf"|{unspaced.UNDER})"
    r"|(?P<less><)|(?P<greater>>))\s?(?:\*\*|US)?[$€£]?\s?\Z",
    re.IGNORECASE,
)
# As they stand in Unicode, to four digits; `parts` reads them as percentages.
_VULGAR: Final = {"½": "0.5", "¼": "0.25", "¾": "0.75", "⅓": "0.3333", "⅔": "0.6667", "⅕": "0.2", "⅛": "0.125"}
_PARTS: Final = {
    "half of": "0.5", "a third of": "0.3333", "one third of": "0.3333", "one-third of": "0.3333",
    "two thirds": "0.6667",
    "two-thirds": "0.6667", "three quarters": "0.75", "three-quarters": "0.75", "a quarter of": "0.25",
    "one quarter of": "0.25", "one-quarter of": "0.25", "three fifths": "0.6", "two fifths": "0.4",
}  # fmt: skip
_PART: Final = re.compile(rf"(?<!\w)(?:{'|'.join(_PARTS)})(?!\w)|[{''.join(_VULGAR)}]", re.IGNORECASE)


def numbers(text: str, *, comma: bool) -> list[Found]:
    """The numbers of the text that are written with digits."""
    found: list[Found] = []
    for match in NUMERAL.finditer(text):
        for one in numerals(match[0], match.start(), comma=comma):
            number = _found(text, one.start, one.end, list(one.readings))
            # `45/50` is one number.
            if found and text[found[-1].end : number.start] == "/" and _plain(found[-1]) and _plain(number):
                number = _fraction(text, found.pop(), number)
            # `1億2000万` is one number, too.
            elif found and _goes_on(text, found[-1], number):
                number = _joined(text, found.pop(), number)
            found.append(number)
    return found


def number_at(text: str, word: NumberWords) -> Found:
    """A number word as a mention."""
    found = _found(text, word.start, word.end, [Number(Decimal(word.value), _ONE)])
    found.in_words, found.ordinal = True, word.ordinal
    return found


def parts(text: str) -> Iterator[Found]:
    """Parts in words and in one character: two thirds, half of, ¾."""
    for match in _PART.finditer(text):
        value = Decimal(_VULGAR.get(match[0]) or _PARTS[match[0].casefold()])
        found = Found(kind=Kind.NUMBER, start=match.start(), end=match.end(), text=match[0])
        # A quantum of 2: `two thirds` is said of 66 % and of 67 %.
        found.numbers = [Number(value * 100, Decimal(2))]
        found.percent = found.in_words = True
        found.bound = _bound(text[max(0, match.start() - _NEAR) : match.start()]) or "about"
        yield found


def _plain(found: Found) -> bool:
    return bool(found.numbers) and found.pair is None and not (found.percent or found.currency or found.no_claim)


def _goes_on(text: str, one: Found, other: Found) -> bool:
    return (
        one.end == other.start
        and unspaced.is_unspaced(text[one.end - 1])
        and bool(one.numbers and other.numbers)
        and not (one.percent or one.currency)
        and one.numbers[0].quantum > other.numbers[0].value
    )


def _joined(text: str, one: Found, other: Found) -> Found:
    value = one.numbers[0].value + other.numbers[0].value
    text = text[one.start : other.end]
    numbers = [Number(value, other.numbers[0].quantum)]
    return dataclasses.replace(other, start=one.start, text=text, numbers=numbers, bound=one.bound or other.bound)


def _fraction(text: str, over: Found, under: Found) -> Found:
    one, other = over.numbers[0], under.numbers[0]
    found = Found(kind=Kind.NUMBER, start=over.start, end=under.end, text=text[over.start : under.end])
    found.pair = (one, other)
    if other.value:
        found.numbers = [Number(one.value / other.value, Decimal("0.0001"))]
    found.bound = over.bound
    return found


def _found(text: str, start: int, end: int, readings: list[Number]) -> Found:
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    found = Found(kind=Kind.NUMBER, start=start, end=end, text=text[start:end])
    found.no_claim = _name(before, after)
    if not readings and not found.no_claim:
        found.excuse = "a version or a label, not a number"
    sign, before = _sign(before)
    currency = _CURRENCY_BEFORE.search(before)
    if currency:
        found.currency, before = True, before[: currency.start()]
        # `-$5` and `$-5`.
        if not sign:
            sign, before = _sign(before)
    # The scale stands before what follows it: `2.5 million %` has none, `$2.5 million` has both.
    readings, after = _scaled(found, readings, after)
    percent = _PERCENT.match(after)
    if unspaced.ORDINAL.search(before) or unspaced.label_after(after):
        found.excuse = found.excuse or "a label, not a number"
    if percent or _RANGE_PERCENT.match(after):
        found.percent = True
        found.end += percent.end() if percent else 0
        if percent and percent["unspaced"] == unspaced.TENTHS:
            readings = [number.times(Decimal(10)) for number in readings]
    elif unspaced.PERCENT_BEFORE.search(before):
        found.percent = True
    elif _CURRENCY_AFTER.match(after):
        found.currency = True
    elif unit := _UNIT.match(after):
        found.unit = unit[1]
        found.ordinal = unit[1] in ("st", "nd", "rd", "th") and unit[0] == unit[1]
    if sign:
        readings = [Number(-n.value, n.quantum) for n in readings]
        found.start -= sign
    # Accountants write losses in parentheses; everybody else means the number as it is, so both are tried.
    elif before.endswith("(") and after.startswith(")"):
        readings = [*readings, *(Number(-n.value, n.quantum) for n in readings)]
    if found.currency and currency:
        found.start -= len(currency[0])
    found.numbers, found.text = readings, text[found.start : found.end]
    after_it = unspaced.BOUND_AFTER.match(after)
    found.bound = (
        _bound(before)
        or (after_it.lastgroup if after_it and after_it.lastgroup else "")
        or ("over" if after.startswith("+") else "about" if after.startswith(" or so") else "")
    )
    return found


def _scaled(found: Found, readings: list[Number], after: str) -> tuple[list[Number], str]:
    match = _SCALE.match(after)
    if match is None and (scale := unspaced.scale_after(after)) is not None:
        factor, length = scale
        found.end += length
        return [number.times(factor) for number in readings], after[length:]
    if match is None and found.currency:
        match = re.match(r"(?P<letter>[mb])(?P<word>)(?!\w)", after)
    if match is None:
        return readings, after
    word = match["letter"] or match["word"].casefold().rstrip(".").rstrip("s")
    factor = _ONE.scaleb(_SCALES[word])
    found.end += match.end()
    return [number.times(factor) for number in readings], after[match.end() :]


def _sign(before: str) -> tuple[int, str]:
    """How many characters the minus takes, and what stands before it."""
    # A hyphen behind a letter or a digit joins (`A-5`, `3-5`).
    joined = len(before) > 1 and (before[-2].isalnum() or before[-2] in ")]%_.-–")
    if before[-1:] in ("-", "−", "–") and not (joined and not unspaced.is_unspaced(before[-2])):
        return 1, before[:-1]
    return 0, before


def _bound(before: str) -> str:
    match = _BOUND.search(before)
    return (match.lastgroup or "") if match else ""


def _name(before: str, after: str) -> str:
    """Why the digits are part of a name, or an empty string."""
    last = before[-1:]
    if (last.isalpha() and not unspaced.is_unspaced(last)) or (last == "_" and before[-2:-1].isalnum()):
        return "part of a name"
    if last in "-–" and before[-2:-1].isalpha() and last and not unspaced.is_unspaced(before[-2:-1]):
        return "part of a name"
    attached = _ATTACHED.match(after)
    # `the 1990s`, `5s`: an s makes no name.
    if attached and attached[0].rstrip("_") == "s" and before[-1:] not in "$€":
        return ""
    if attached and attached[0].strip("_") and attached[0].rstrip("_") not in _ATTACHED_UNITS:
        return "part of a name"
    return ""


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
    text = blank(text, [*blocks.blank, *((m.start(), m.end()) for m in _URL.finditer(text))])
    found: list[Found] = []
    # In this order: `` `report.csv` `` is a file and no code, "see a.csv" a quote without a second file in it, and what
    # a quote holds is no number of the answer's own. What was read is blanked with NULs, which keep all places.
    for step in (_code_spans, _files, _quoted, _dated):
        more = list(step(text))
        found += more
        text = blank(text, ((one.start, one.end) for one in more))
        # A span that holds a number alone is left to `numbers`, without its signs.
        if step is _code_spans:
            text = text.replace("`", " ")
    counted = numbers(text, comma=comma)
    found += counted
    spared = blank(text, ((one.start, one.end) for one in counted))
    # After the digits: `2 million` is read once, with its scale.
    found += (number_at(spared, word) for word in number_words(spared))
    found += parts(spared)
    _mark_verbatim(found, blocks.outputs)
    found.sort(key=lambda one: (one.start, one.end))
    return Reading(text, found, programs)


def _mark_verbatim(found: list[Found], outputs: list[tuple[int, int]]) -> None:
    starts = [start for start, _ in outputs]
    for one in found:
        at = bisect.bisect_right(starts, one.start)
        one.verbatim = at > 0 and one.end <= outputs[at - 1][1]


class _Blocks(NamedTuple):
    """Fenced blocks: what is blanked (programs, and the fences themselves), programs, and repeated outputs."""

    blank: list[tuple[int, int]]
    programs: list[tuple[int, int]]
    outputs: list[tuple[int, int]]


def _fenced(text: str) -> _Blocks:
    blocks = _Blocks([], [], [])
    at, opened, inside, program = 0, -1, 0, False
    for line in text.splitlines(keepends=True):
        # By lines and not by one expression: a fence that is never closed would have it look to the end from each
        # opening.
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
    # An answer that was cut ends within a fence.
    if opened >= 0:
        blocks.blank.append((opened, at if program else inside))
        (blocks.programs if program else blocks.outputs).append((inside, at))
    return blocks


def _code_spans(text: str) -> Iterator[Found]:
    for match in _CODE.finditer(text):
        kind = Kind.FILE if is_file(match[1]) else Kind.CODE
        # A code span that holds nothing but a number is read as a number, not as code.
        if kind is Kind.FILE or not _NUMERIC.match(match[1].strip()):
            yield Found(kind=kind, start=match.start(), end=match.end(), text=match[0])


def _files(text: str) -> Iterator[Found]:
    for match in _PATH.finditer(text):
        # `结果在report.csv和other.csv中`: names stand among letters of the sentence, or have such letters themselves.
        among = [] if match[0].isascii() else list(_names(unspaced.spaced(match[0])))
        for at, name in among or _names(match[0]):
            start = match.start() + at
            yield Found(kind=Kind.FILE, start=start, end=start + len(name), text=name)


def _names(text: str) -> Iterator[tuple[int, str]]:
    for match in _PATH.finditer(text):
        # The point behind `see report.csv.` ends the sentence.
        name = match[0].rstrip(".-/\\")
        if is_file(name):
            yield match.start(), name


def is_file(name: str) -> bool:
    """Tell whether the name reads like that of a file."""
    stem, dot, ending = name.rpartition(".")
    if not dot or ending.casefold() not in _ENDINGS or " " in stem.strip():
        return False
    # `Node.js` and `Vue.js` have an ending of files and are none.
    return bool(stem.strip("./~\\")) and stem[-1] not in "/\\" and _NO_FILES.fullmatch(name) is None


def _quoted(text: str) -> Iterator[Found]:
    for match in _QUOTES.finditer(text):
        inner = match[match.lastindex or 0]
        if inner.strip() and any(c.isalnum() for c in inner):
            yield Found(kind=Kind.TEXT, start=match.start(), end=match.end(), text=match[0])


def _dated(text: str) -> Iterator[Found]:
    for date in dates(text):
        yield Found(kind=Kind.DATE, start=date.start, end=date.end, text=date.text, date=date)
