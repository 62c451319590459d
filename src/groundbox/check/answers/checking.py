"""`check_answer`: reads the answer, reads the runs, and says of each mention where it comes from.

A rule fills `Found.no_claim` where the number is no claim whatever was shown, and `Found.excuse` where it is none
unless it was shown.
"""

from __future__ import annotations

import builtins
import dataclasses
import keyword
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from groundbox.check.answers.dates import Date, Span
from groundbox.check.answers.derivations import Operand
from groundbox.check.answers.judging import Judge, Scopes, search_whole
from groundbox.check.answers.mentions import Found, read
from groundbox.check.answers.report import AnswerReport, Kind, Mention, Support, Verdict
from groundbox.check.answers.shown import read_executions
from groundbox.check.answers.text import plain, visible
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Warning

_NEAR: Final = 60
# `1.` or `- 2)` at the beginning of a line numbers an item; `_LIST_END` asks that nothing but the sign follows, so that
# a line which begins with `1.5 million` keeps its number.
_LIST: Final = re.compile(r"(?:\A|\n)[ \t>*+#-]*\(?\Z")
_LIST_END: Final = re.compile(r"\.?[.):](?:\s|\*\*|__|\Z)")
_LABEL: Final = re.compile(
    r"(?<!\w)(?:steps?|tables?|figures?|fig\.|sections?|chapters?|parts?|options?|methods?|phases?|cells?|questions?|tasks?"
    r"|appendix|equations?|eq\.|notes?|approach(?:es)?|scenarios?|plots?|hypothes[ie]s|items?|points?|examples?) ?#?\Z",
    re.IGNORECASE,
)
# Names behind which digits are a release: `Python 3.12`, `HTTP/2`, `GPT-4`. Only an excuse, since a run may have
# printed a version, which then has to be the right one.
_VERSION: Final = re.compile(
    r"(?<!\w)(?:version|release|python|pandas|numpy|scipy|matplotlib|duckdb|sqlite|postgres(?:ql)?|mysql|mariadb|node(?:\.js)?"
    r"|java|ubuntu|debian|windows|macos|ios|android|excel|office|chrome|firefox|cuda|html|http|usb|gpt|claude|llama"
    r"|gemini|c\+\+|php|ruby|go|rust|django|react|tensorflow|pytorch|ipython|polars|pyarrow|plotly)"
    r"[ /-]?(?:v\.? ?)?(?:>=|==|~=|>)? ?\Z",
    re.IGNORECASE,
)
_STANDARD: Final = re.compile(
    r"(?<!\w)(?:ISO|RFC|IEEE|ANSI|DIN|PEP|CVE|IEC|NIST|RGB|CP|Latin|Section|Article|§)[ -]?\Z"
)
# `World Cup 2022`, `Agenda 2030`, `(Smith, 2019)`: the year is part of a name and was measured by nobody.
_NAMED_YEAR: Final = re.compile(
    r"(?<!\w)(?:Cup|Olympics|Agenda|Studio|Expo|Vision|Server|et al\.,?|[A-Z][a-z]+,) ?\(?\Z"
)
_CONFIDENCE: Final = re.compile(r"\s*(?:confidence|credible|prediction|CI\b|significance)", re.IGNORECASE)
# `8 out of 10`, `per 1000`: the number says in what is counted.
_SCALE_OF: Final = re.compile(r"(?:\bper|\bout of|scale (?:of|from)(?: \d+ to)?) \Z", re.IGNORECASE)
_FACTOR: Final = re.compile(r"[×*÷/] ?\Z")
# Days of a week and a year, months, hours, weeks, seconds, bytes: what conversions multiply and divide by.
_FACTORS: Final = frozenset(map(Decimal, (2, 7, 12, 24, 30, 52, 60, 100, 365, 1000, 1024, 3600)))
_LEVELS: Final = frozenset(map(Decimal, ("0.05", "0.01", "0.001", "0.1", "0.0001")))
_ALPHA: Final = re.compile(
    r"(?:\bp(?:-value)?|\balpha|α|significance level(?: of)?|\blevel(?: of)?) ?[<=>≤≥]? ?\Z", re.IGNORECASE
)
_NOUN: Final = re.compile(
    r"[ -](?:(?:main|key|simple|more|other|different|following|additional|possible|quick|small|big|separate|short|easy"
    r"|such|important|distinct|last|next|final|basic|common)\s){0,2}"
    r"(?:steps?|ways?|parts?|things?|points?|reasons?|options?|approach(?:es)?|sections?|sentences?|examples?|notes?"
    r"|caveats?|methods?|questions?|ideas?|possibilities|aspects?|kinds?|sorts?|types? of|sides?|words|stages?|passes)"
    r"(?!\w)",
    re.IGNORECASE,
)
_ONLY: Final = re.compile(r"\b(?:only|exactly|just|single) \Z", re.IGNORECASE)
# Only `ranked second` and its like claim a place among values; `First, we load the data` orders the speech.
_RANK: Final = re.compile(r"\b(?:ranks?|ranked|came|comes|placed?|finished|in|is|was) (?:the )?\Z", re.IGNORECASE)
# `the two are equal`, `any three of them`: who reads `two` as a number here finds it in no output.
_IDIOM: Final = re.compile(
    r"(?:\A|\W)(?:no|any|some|every|each|this|that|which|another|the|other|at) \Z", re.IGNORECASE
)
_SELECTION: Final = re.compile(r"\b(?:top|bottom|first|last|next|previous|best|worst)[ -]\Z", re.IGNORECASE)
_LINK: Final = re.compile(r"\[\^?\Z")


# Reasons of `no_claim` hold whatever was shown. Those of `excuse` yield to the runs: `Python 3.12` needs no support,
# but where a run printed 3.11, the number is looked for like any other.
def excuse(text: str, found: list[Found]) -> None:
    """Fills in why mentions are no claims."""
    for one in found:
        if one.kind is Kind.NUMBER and not one.no_claim:
            before, after = text[max(0, one.start - _NEAR) : one.start], text[one.end : one.end + _NEAR]
            one.no_claim = _in_words(one, before, after) if one.in_words else _never(one, before, after)
            one.excuse = one.excuse or _unless_shown(one, before, after)


def _never(one: Found, before: str, after: str) -> str:
    if _LIST.search(before) and len(one.text) <= 3 and _LIST_END.match(after):
        return "numbering of a list"
    if (
        one.text.isdigit()
        and len(one.text) <= 3
        and (_LABEL.search(before) or (_LIST.search(before) and before.endswith("(")))
    ):
        return "the number of a section, a table or a step"
    if _LINK.search(before) and after.startswith("]") and len(one.text) <= 3:
        return "a reference"
    if _STANDARD.search(before):
        return "the name of a standard"
    if one.percent and _CONFIDENCE.match(after):
        return "a level of confidence"
    return ""


def _unless_shown(one: Found, before: str, after: str) -> str:
    # A version such as 1.2.3 has no reading as a number; 0 is on none of the lists below.
    value = one.numbers[0].value if one.numbers else Decimal(0)
    if _VERSION.search(before) and not one.percent:
        return "a version"
    if one.text.isdigit() and len(one.text) == 4 and (_NAMED_YEAR.search(before) or after.startswith("s ")):
        return "a year in a name"
    if _ALPHA.search(before) and value in _LEVELS and one.numbers:
        return "a level of significance"
    if _SCALE_OF.search(before) and value in (1, 5, 10, 100, 1000, 10000, 100000, 1000000):
        return "a scale"
    if _FACTOR.search(before) and value in _FACTORS:
        return "a factor of a conversion"
    if _SELECTION.search(before) and value <= 1000 and not (one.percent or one.currency):
        return "says how many are told"
    if (
        value == value.to_integral_value()
        and 0 <= value <= 12
        and not (one.percent or one.currency)
        and _NOUN.match(after)
    ):
        return "counts parts of the answer"
    return ""


def _in_words(one: Found, before: str, after: str) -> str:
    word = one.text.casefold()
    # `two-sided`, `one-time`.
    if after.startswith("-") and after[1:2].isalpha():
        return "part of a compound"
    if word == "one" and not _ONLY.search(before):
        return "a pronoun"
    if one.ordinal and not (_RANK.search(before) and not re.match(r"[ ,:]*(?:step|,)", after)):
        return "an order of speech"
    if word in ("two", "three") and _IDIOM.search(before):
        return "a pronoun" if re.match(r"[ ]*(?:[,.;:]|are\b|were\b|have\b|of (?:them|these|those)\b)", after) else ""
    return ""


MOST_CHARS: Final = 2_000_000
MOST_MENTIONS: Final = 2_000
MOST_WARNINGS: Final = 200
_TELLING: Final = 10
"""A number up to this stands in so many programs that this says nothing."""
_TIERS: Final = {Kind.NUMBER: "error", Kind.DATE: "error", Kind.FILE: "error", Kind.TEXT: "warn", Kind.CODE: "note"}
# A hint is read by the model that wrote the answer; each names the shortest way to mend it.
_HINTS: Final = {
    Kind.NUMBER: "Print this number in a run, or leave it out.",
    Kind.DATE: "Print this date in a run, or leave it out.",
    Kind.FILE: "Name a file that a run made: {files}.",
    Kind.TEXT: "Quote what a run printed, letter by letter, or write it without quotation marks.",
    Kind.CODE: "Write names as a run showed them.",
}
_OPERATORS: Final = re.compile(r"[()=<>+*%\[\]{};:!\\|&@$]|\s|\w\.\w|^-|/")
_LIBRARIES: Final = "pandas numpy pd np plt df matplotlib scipy sklearn"
_BUILTINS: Final = [name for name in dir(builtins) if not name.endswith(("Error", "Exception", "Warning", "Interrupt"))]
_NAMES: Final = frozenset([*keyword.kwlist, *sys.stdlib_module_names, *_LIBRARIES.split(), *_BUILTINS])


def check_answer(
    text: str, executions: Sequence[Execution], *, question: str | None = None, programs: Sequence[str] = ()
) -> AnswerReport:
    """Says for each number, date, quoted text, code span and file name of an answer where it comes from.

    Args:
        executions: What the answer rests on, in order. Output that was cut is searched to its end.
        question: What was asked. What the answer repeats from it is `given`, unless it was shown.
        programs: The programs that ran; names of code are looked for in them, values are not.

    Raises:
        InvalidArgument: `text` is no text, or longer than `MOST_CHARS`.
    """
    if not isinstance(text, str):
        raise InvalidArgument("text", f"must be a str, not {type(text).__name__}")
    if len(text) > MOST_CHARS:
        raise InvalidArgument("text", f"has {len(text)} characters, and {MOST_CHARS} is the most; check it in parts")
    return _Check(text, executions, question or "", programs).report()


class _Check:
    def __init__(self, text: str, executions: Sequence[Execution], question: str, programs: Sequence[str]) -> None:
        self._original, self._visible = text, visible(text)
        reading = read(self._visible.text)
        self._dropped = {}
        if len(reading.mentions) > MOST_MENTIONS:
            self._dropped["mentions"] = len(reading.mentions) - MOST_MENTIONS
        # Before `excuse`, whose expressions look around each mention: an answer of nothing but digits is cut first.
        self._found = reading.mentions[:MOST_MENTIONS]
        excuse(reading.text, self._found)
        self._executions, self._sources = executions, read_executions(executions)
        self._scopes = Scopes(reading.text)
        self._judge = Judge(self._sources, self._scopes, reading.text)
        self._question, self._asked = plain(visible(question).text), _asked(question)
        self._in_programs = _asked("\n".join([reading.programs, *programs]))
        self._programs = [plain(program) for program in programs]
        self._held: dict[int, Operand] = {}

    def report(self) -> AnswerReport:
        # All numbers are held before any mention is judged, since a number may follow from others beside it
        # (`_beside`).
        numbers = [n for n, one in enumerate(self._found) if one.kind is Kind.NUMBER and not one.no_claim]
        self._hold_numbers(numbers)
        mentions = [self._mention(n, one) for n, one in enumerate(self._found)]
        dropped = {**self._dropped, **self._sources.dropped}
        if self._judge.work_left <= 0:
            dropped["derivations"] = 1
        unsupported = [one for one in mentions if one.verdict is Verdict.UNSUPPORTED]
        if len(unsupported) > MOST_WARNINGS:
            dropped["warnings"] = len(unsupported) - MOST_WARNINGS
        warnings = list(self._warnings(unsupported[:MOST_WARNINGS], dropped))
        return AnswerReport(mentions=mentions, warnings=warnings, dropped=dropped)

    def _hold_numbers(self, numbers: list[int]) -> None:
        for n in numbers:
            held = self._judge.exact(self._found[n]) or self._pair(self._found[n])
            if held is not None:
                self._held[n] = held
        # What stands itself in an output is preferred to a derivation, also where that output was cut and is read once
        # more.
        missing = [n for n in numbers if n not in self._held]
        self._held.update(
            search_whole(
                self._executions,
                {n: self._found[n] for n in missing},
                all_outputs="numbers shown" in self._sources.dropped,
            )
        )
        for n in missing:
            if n not in self._held:
                held = self._judge.derived(self._found[n], self._beside(n))
                if held is not None:
                    self._held[n] = held

    def _pair(self, found: Found) -> Operand | None:
        """45/50, where both stand somewhere; 80/20 as shares of a whole."""
        if found.pair is None:
            return None
        # `80/20` is said of shares, `45/50` of two counts; each part has to be shown then, since 0.9 alone is easily
        # met.
        shares = sum(number.value for number in found.pair) == 100
        parts = [dataclasses.replace(found, numbers=[number], pair=None, percent=shares) for number in found.pair]
        held = [self._judge.exact(part) or self._judge.derived(part, []) for part in parts]
        if None in held:
            return None
        return held[0]

    def _beside(self, n: int) -> list[Operand]:
        """Numbers that hold, of the same sentence and the one before, or of the same list item; the nearest first."""
        start, end = self._scopes.neighbourhood(self._found[n])
        # An answer may hold thousands of numbers in one list item; each looks at its neighbours alone.
        near = sorted(range(max(0, n - 30), min(len(self._found), n + 30)), key=lambda other: abs(other - n))
        return [
            self._held[other]
            for other in near
            if other != n and other in self._held and start <= self._found[other].start < end
        ]

    def _mention(self, n: int, found: Found) -> Mention:
        verdict, support, reason = self._verdict(n, found)
        start, end = self._visible.place(found.start), self._visible.place(found.end)
        return Mention(
            kind=found.kind, text=found.text, start=start, end=end, verdict=verdict, support=support, reason=reason
        )

    def _verdict(self, n: int, found: Found) -> tuple[Verdict, Support | None, str]:
        if found.no_claim:
            return Verdict.NO_CLAIM, None, found.no_claim
        if found.text.count(".") > 1 and self._sources.versions:
            found.excuse = ""  # versions were shown, so that one is a claim
        support = self._support(n, found)
        if support is not None:
            return (Verdict.DERIVABLE if support.derivation else Verdict.EXACT), support, ""
        # After the support: a number that the question names and a run shows is better told as shown.
        if self._given(found):
            return Verdict.GIVEN, None, "stands in the question"
        if found.kind is Kind.NUMBER and any(
            # `df.head(10)` puts a 10 into nearly every program; a large constant that the model wrote is known to it.
            number.value > _TELLING and number.value in self._in_programs
            for number in found.numbers
        ):
            return Verdict.GIVEN, None, "stands in a program"
        excuse = found.excuse or (_code_excuse(found, self._programs) if found.kind is Kind.CODE else "")
        if excuse:
            return Verdict.NO_CLAIM, None, excuse
        return Verdict.UNSUPPORTED, None, "stands in no output, and follows from none by one simple step"

    def _support(self, n: int, found: Found) -> Support | None:
        if found.kind is Kind.NUMBER:
            held = self._held.get(n)
            return None if held is None else held.place.support(held.derivation)
        if found.kind is Kind.DATE:
            assert found.date is not None
            return self._dated(found.date)
        inner = plain(_inner(found.text))
        if found.kind is Kind.FILE:
            return self._file(inner) or self._said(inner)
        return self._said(inner)

    def _said(self, inner: str) -> Support | None:
        # American quotes take the sentence's own comma or point inside: “North,” quotes North.
        for wanted in dict.fromkeys((inner, inner.rstrip(".,;:!?…"))):
            place = self._sources.text_with(wanted)
            if place is not None:
                return place.support()
        return None

    def _file(self, inner: str) -> Support | None:
        for path, place in self._sources.names:
            shown = plain(path)
            # A file is mostly named without its folder.
            if inner.removeprefix("./") in (shown, shown.rpartition("/")[2]):
                return place.support()
        return None

    def _dated(self, date: Date) -> Support | None:
        said = self._said(plain(date.text))
        if said is not None:
            return said
        days = {(reading.first, reading.last) for reading in date.readings}
        for other, place in self._sources.dates.values():
            if any((shown.first, shown.last) in days for shown in other.readings):
                return place.support()
        for other, place in self._sources.dates.values():
            if any(_follows(date, shown) for shown in other.readings):
                return place.support(f"from {other.text}")
        return None

    def _given(self, found: Found) -> bool:
        if not self._question:
            return False
        if found.kind is Kind.NUMBER:
            return any(number.value in self._asked for number in found.numbers)
        return plain(_inner(found.text)) in self._question

    def _warnings(self, unsupported: Sequence[Mention], dropped: Mapping[str, int]) -> Iterator[Warning]:
        files = ", ".join(path for path, _ in self._sources.names[:5]) or "none did"
        for one in unsupported:
            yield Warning(
                code=f"answer.unsupported_{one.kind.value}",
                tier=_TIERS[one.kind],
                message=f"{one.text!r} {one.reason}",
                evidence={"text": one.text, "start": one.start, "end": one.end, "context": self._context(one)},
                hint=_HINTS[one.kind].format(files=files),
            )
        for found in self._found:
            if found.date is not None and len({r.first for r in found.date.readings}) > 1:
                readings = [reading.first.isoformat() for reading in found.date.readings]
                yield Warning(
                    code="answer.ambiguous_date",
                    tier="note",
                    message=f"{found.text!r} is {' or '.join(readings)}",
                    evidence={"text": found.text, "readings": readings},
                    hint="Write dates as 2024-03-04.",
                )
        if self._visible.bidi:
            yield Warning(
                code="answer.hidden_characters",
                tier="warn",
                message="the answer holds characters that turn the direction of text, so that it may read "
                "otherwise than it was checked",
                evidence={"count": self._visible.hidden},
                hint="Leave them out.",
            )
        if dropped:
            told = ", ".join(f"{count} {what}" for what, count in dropped.items())
            yield Warning(
                code="answer.not_all_checked",
                tier="warn",
                message=f"not all was looked at: {told} over the limits",
                evidence=dict(dropped),
                hint="Check a shorter answer, or one that rests on fewer runs.",
            )

    def _context(self, one: Mention) -> str:
        return self._original[max(0, one.start - 40) : one.end + 40]


def _follows(date: Date, shown: Span) -> bool:
    """Tell whether a month, a quarter or a day without its year is that of a date that was shown."""
    first, last, any_year = shown
    if date.quarter:
        return not any_year and (first.month - 1) // 3 == date.quarter - 1 and (last - first).days < 93
    for reading in date.readings:
        if reading.any_year:
            if first == last and (reading.first.month, reading.first.day) == (first.month, first.day):
                return True
        elif reading.first != reading.last and reading.first <= first and last <= reading.last:
            return True
    return False


def _asked(question: str) -> frozenset[object]:
    return frozenset(number.value for one in read(visible(question).text).mentions for number in one.numbers)


def _inner(text: str) -> str:
    return text.strip("`").strip("\"'“”„«»‘’ ")


def _code_excuse(found: Found, programs: Sequence[str]) -> str:
    inner = _inner(found.text)
    # Code that ran is real, whether an output repeats it or not.
    if any(plain(inner) in program for program in programs):
        return "stands in a program that ran"
    if inner in _NAMES:
        return "a name of the language"
    return "code" if _OPERATORS.search(inner) else ""
