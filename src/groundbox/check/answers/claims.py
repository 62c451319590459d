"""Which numbers state nothing about the runs: numbering, steps, versions, standards, conventions.

A rule fills `Found.no_claim` where the number is no claim whatever was shown, and `Found.excuse` where it is none
unless it was shown.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from groundbox.check.answers.found import Found
from groundbox.check.answers.report import Kind

_NEAR: Final = 60
_LIST: Final = re.compile(r"(?:\A|\n)[ \t>*+#-]*\(?\Z")
_LIST_END: Final = re.compile(r"\.?[.):](?:\s|\*\*|__|\Z)")
_LABEL: Final = re.compile(
    r"(?<!\w)(?:steps?|tables?|figures?|fig\.|sections?|chapters?|parts?|options?|methods?|phases?|cells?|questions?|tasks?"
    r"|appendix|equations?|eq\.|notes?|approach(?:es)?|scenarios?|plots?|hypothes[ie]s|items?|points?|examples?) ?#?\Z",
    re.IGNORECASE,
)
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
_NAMED_YEAR: Final = re.compile(
    r"(?<!\w)(?:Cup|Olympics|Agenda|Studio|Expo|Vision|Server|et al\.,?|[A-Z][a-z]+,) ?\(?\Z"
)
_CONFIDENCE: Final = re.compile(r"\s*(?:confidence|credible|prediction|CI\b|significance)", re.IGNORECASE)
_SCALE_OF: Final = re.compile(r"(?:\bper|\bout of|scale (?:of|from)(?: \d+ to)?) \Z", re.IGNORECASE)
_FACTOR: Final = re.compile(r"[×*÷/] ?\Z")
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
_RANK: Final = re.compile(r"\b(?:ranks?|ranked|came|comes|placed?|finished|in|is|was) (?:the )?\Z", re.IGNORECASE)
_IDIOM: Final = re.compile(
    r"(?:\A|\W)(?:no|any|some|every|each|this|that|which|another|the|other|at) \Z", re.IGNORECASE
)
_SELECTION: Final = re.compile(r"\b(?:top|bottom|first|last|next|previous|best|worst)[ -]\Z", re.IGNORECASE)
_LINK: Final = re.compile(r"\[\^?\Z")
_HEADING: Final = re.compile(r"(?:\A|\n)#{1,6} [^\n]{0,80}\Z")


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
    if after.startswith("-") and after[1:2].isalpha():
        return "part of a compound"
    if word == "one" and not _ONLY.search(before):
        return "a pronoun"
    if one.ordinal and not (_RANK.search(before) and not re.match(r"[ ,:]*(?:step|,)", after)):
        return "an order of speech"
    if word in ("two", "three") and _IDIOM.search(before):
        return "a pronoun" if re.match(r"[ ]*(?:[,.;:]|are\b|were\b|have\b|of (?:them|these|those)\b)", after) else ""
    return ""
