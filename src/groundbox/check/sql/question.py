"""Questions in plain English: the shape of the answer that they ask for, found by patterns.

English only: of a question in another language, numbers and quoted texts are all that is found.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from groundbox.check.nouns import singular
from groundbox.values.numbers import CARDINAL, GROUPED, cardinal, number_words

_WORD: Final = re.compile(r"[^\W_]+(?:'[a-z]+)?")
_NUMBER: Final = re.compile(rf"(?<![\w.])-?{GROUPED}(?![\w.]*\w)")
_QUOTED: Final = re.compile(r"(?<![\w])(?:'([^']+?)'|\"([^\"]+?)\"|“([^”]+?)”|‘([^’]+?)’)(?![\w])")
_SUPERLATIVE: Final = re.compile(
    r"\b(?:the|with|has|have|had|is|are|by|of|in)\s+(?:\w+\s+)?"
    r"(?:most|least|fewest|largest|smallest|biggest|highest|lowest|oldest|youngest|longest|shortest|greatest|latest"
    r"|earliest|newest|best|worst|maximum|minimum|top|richest|cheapest|heaviest|lightest|fastest|slowest|tallest)\b"
    r"|\b(?:youngest|oldest|largest|smallest|highest|lowest|longest|shortest)\b|\bmost (?:common|popular|recent)"
    r"|\bthe (?:most|least|fewest)\b",
    re.IGNORECASE,
)
# `at least 3` is a bound and asks for no least.
_AT_LEAST: Final = re.compile(r"\bat (?:the )?(?:least|most)\b", re.IGNORECASE)
COUNT: Final = re.compile(
    r"\bhow many\b|\bnumbers? of\b|\bcount\b|\btotal number\b|\bamount of\b|\bhow often\b|\bnumber\b|\btimes\b",
    re.IGNORECASE,
)
_HOW_MANY: Final = re.compile(
    r"^\W*(?:please\s+)?(?:how many|count|find the (?:total )?number of|what is the (?:total )?number of|"
    r"what's the (?:total )?number of|return the (?:total )?number of|give the (?:total )?number of)\b",
    re.IGNORECASE,
)
DISTINCT: Final = re.compile(
    r"\b(?:distinct|different|unique|without (?:repetition|duplicates)|no duplicates)\b", re.IGNORECASE
)
DESCENDING: Final = re.compile(
    r"\bdescending\b|\bdescendingly\b|\bhigh(?:est)? to low|\bold(?:est)? to young|\blarge(?:st)? to small"
    r"|\bmost to least"
    r"|\bfrom (?:the )?(?:highest|largest|oldest|most|latest|newest|biggest)\b|\breverse\b|\bdecreasing\b|\bz to a\b",
    re.IGNORECASE,
)
ASCENDING: Final = re.compile(
    r"\bascending\b|\bascendingly\b|\blow(?:est)? to high|\byoung(?:est)? to old|\bsmall(?:est)? to large"
    r"|\bleast to most"
    r"|\bfrom (?:the )?(?:lowest|smallest|youngest|least|earliest|oldest date)\b|\bincreasing\b|\balphabetical"
    r"|\blexicograph"
    r"|\ba to z\b",
    re.IGNORECASE,
)
NEGATION: Final = re.compile(
    r"\b(?:not|no|never|without|except|neither|nor|none|cannot|excluding|other than)\b|n't\b", re.IGNORECASE
)
AVERAGE: Final = re.compile(r"\b(?:average|mean|avg)\b", re.IGNORECASE)
TOTAL: Final = re.compile(r"\b(?:total|sum|overall|altogether|combined|in all(?=\s*(?:[?.,;]|$)))(?!\w)", re.IGNORECASE)
EXTREME: Final = re.compile(r"\b(?:maximum|minimum|max|min)\b", re.IGNORECASE)
# `the number of singers by country` asks for each country, `sorted by age` for an order.
_EACH: Final = re.compile(
    r"\b(?:each|every|per|respective|respectively)\b|\bby (?:the )?different\b|\bfor all\b|\bin different\b"
    r"|(?<!ordered )(?<!sorted )(?<!order )(?<!sort )(?<!ranked )\bby \w+\W*$",
    re.IGNORECASE,
)
EITHER: Final = re.compile(r"\bor\b|\beither\b", re.IGNORECASE)
_COUNT_OF_ROWS: Final = rf"(\d+|(?!one\b){CARDINAL})"  # "the one most expensive" counts nothing
_TOP_N: Final = re.compile(
    rf"\b(?:top|first|last|bottom)\s+{_COUNT_OF_ROWS}(?!\w)|\b{_COUNT_OF_ROWS}\s+(?:\w+\s+)?"
    r"(?:most|least|largest|smallest|highest|lowest|oldest|youngest|longest|shortest|biggest|fewest|best|worst|cheapest)\b",
    re.IGNORECASE,
)
_HEAD: Final = re.compile(
    r"^\W*(?:please\s+)?(?:also\s+)?(?:what(?: is| are| was| were|'s)|show(?: me)?|list(?: out)?|find(?: out)?"
    r"|give(?: me)?|return|tell me|display|"
    r"state|select|get|report|provide|output|sort|order|rank)\s+(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_WHICH: Final = re.compile(r"^\W*(?:which|what|in which|in what)\s+(?!is\b|are\b|was\b|were\b)\w+", re.IGNORECASE)
# Behind these words a question says of what, and no longer what is asked for.
_HEAD_END: Final = re.compile(
    r"\b(?:of|for|by|from|in|with|who|whose|that|which|where|having|when|sorted|sort|ordered|order|to|on|at|used|using|shared|has"
    r"|have|had|is|are|did|do|does|there|among|between|as|owned|made|written|directed|located|whom|but|not|ranked|if|sharing|under"
    r"|above|below|older|younger|caused|belonging|associated|corresponding to|after|before|since|per|across"
    r"|during|within|named|called)\b|[?.;(]",
    re.IGNORECASE,
)
# `the number of singers and the country`: the thing behind `of` is none that is asked for.
_COUNTED: Final = re.compile(
    r"\b(number|amount|count|percentage|total|sum|average|date|year|place|country|city|type|level|name|code|title|length|size"
    r"|rate|start|end)s? of (?:the |all |each |every |different |such )*(?:\w+)",
    re.IGNORECASE,
)
_JOINED: Final = re.compile(
    r"\s*(?:,\s*and\b|,|\band\b|\bas well as\b|\balong with\b|\btogether with\b|&)\s*", re.IGNORECASE
)
# An order goes on to the end of its sentence, unless `and list …` asks for more.
_UP_TO_MORE: Final = r"(?:(?!,? and (?:their|its|his|her|also|show|list|give|return|find|what|how)\b)[^.?;])*"
_ORDERED_BY: Final = re.compile(
    r",?\s*(?:\band\s+)?\b(?:sort|order|rank|arrange)(?:ed|ing)?\s+(?:them\s+|it\s+|(?:the|these|all)\s+(?:\w+\s+)?)?"
    r"(?:(?:descending|ascending|alphabetical|chronological)(?:ly)?\s+|in (?:\w+\s+)?order\s+)*"
    rf"(?:by|of|according to)\b{_UP_TO_MORE}"
    r"|,?\s*(?:\band\s+)?\bin (?:the )?(?:descending|ascending|alphabetical|chronological|lexicographical) order\b"
    rf"{_UP_TO_MORE}",
    re.IGNORECASE,
)
_ORDER_IS_ALL: Final = re.compile(r"^\W*(?:please\s+)?(?:sort|order|rank)\b[^.?;]*?\bby\b", re.IGNORECASE)
_ORDER_FIRST: Final = re.compile(
    r"^\W*(?:please\s+)?(?:sort|order|rank)\b.*?\b(?=(?:show|list|find|give|return|display|tell me)\b)",
    re.IGNORECASE | re.DOTALL,
)
_ALONG: Final = re.compile(
    r",?\s*(?:along|together) with (?:its|their|his|her|the)?\s*(?:corresponding|respective)?|\bas well as\b",
    re.IGNORECASE,
)
EVERYTHING: Final = re.compile(
    r"\ball (?:the )?(?:information|info|details|data|columns|attributes|fields)\b|\b(?:details|information"
    r"|everything)\b",
    re.IGNORECASE,
)
_AMOUNT: Final = rf"(\d+(?:,\d{{3}})*(?:\.\d+)?|{CARDINAL})\b"
# The lookbehinds keep `less than` from the words of `no less than`, which says the opposite.
_BOUNDS: Final = tuple(
    (operator, re.compile(rf"\b(?:{words})\s+{_AMOUNT}", re.IGNORECASE))
    for operator, words in (
        (">=", "at least|no (?:less|fewer) than|not less than|minimum of"),
        ("<=", "at most|no more than|not more than|up to|maximum of"),
        (
            ">",
            "(?<!no )(?<!not )more than|greater than|larger than|higher than|over|above|older "
            "than|exceed(?:s|ing)?|bigger than",
        ),
        ("<", "(?<!no )(?<!not )less than|(?<!no )fewer than|smaller than|lower than|under|below|younger than"),
    )
)
# `SurfaceArea`, `release_year` and `HTTPStatus2` into their words.
_CAMEL: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


class Question:
    """A question with what its words ask for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = [word.casefold() for word in _WORD.findall(text)]
        self.stems = [singular(word) for word in self.words]
        self.stem_set = set(self.stems)

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Tell whether a pattern is found, texts in quotes left out."""
        return pattern.search(self.unquoted) is not None

    @cached_property
    def unquoted(self) -> str:
        """The text without what stands in quotes."""
        return _QUOTED.sub(" ", self.text)

    @cached_property
    def quoted(self) -> list[str]:
        """Return what stands in quotes."""
        return [next(part for part in found if part) for found in _QUOTED.findall(self.text)]

    @cached_property
    def numbers(self) -> set[float]:
        """Numbers in digits, outside of quotes."""
        return {float(text.replace(",", "")) for text in _NUMBER.findall(self.unquoted)}

    @cached_property
    def number_words(self) -> set[float]:
        """Numbers in words."""
        return {float(each.value) for each in number_words(self.text) if not each.ordinal}

    @cached_property
    def top_n(self) -> int | None:
        """How many rows are asked for, as in "the three oldest"."""
        found = _TOP_N.search(self.unquoted)
        return None if found is None else int(_amount(found[1] or found[2]))

    @property
    def superlative(self) -> bool:
        """Tell whether it asks for the most or the least of something."""
        # Removed rather than excluded by the pattern, whose words stand in many alternatives.
        return _SUPERLATIVE.search(_AT_LEAST.sub(" ", self.unquoted)) is not None

    @cached_property
    def bounds(self) -> list[tuple[str, float]]:
        """Comparisons with numbers, as in "at least 3": an operator and the number."""
        return [
            (operator, _amount(match[1])) for operator, pattern in _BOUNDS for match in pattern.finditer(self.unquoted)
        ]

    @property
    def how_many(self) -> bool:
        """Tell whether it begins by asking for a number of things."""
        return _HOW_MANY.search(self.text) is not None

    @property
    def each(self) -> bool:
        """Tell whether it asks for one row for each of something."""
        return _EACH.search(_ORDER_IS_ALL.sub(" ", self.unquoted)) is not None

    @cached_property
    def asked(self) -> tuple[list[str], bool] | None:
        """The things that it asks for, and whether these are all of them; None where that is not seen.

        "What are the names and ages of singers?" gives names and ages.
        """
        # Quotes become one letter: a title may hold `and`, a comma, or a verb.
        text = _ORDER_FIRST.sub("", _last_order(_QUOTED.sub(" x ", self.text).strip()))
        if self.how_many and not re.search(r"\band\b|,", text):
            # `How many X are there, and what is …` asks for more and is read below.
            return ["number"], True
        if which := _WHICH.match(text):
            rest = text[which.end() :]
            return ["which"], not re.search(r"\band (?:what|how|which|list|show|give|its|their)\b|,", rest)
        head = _HEAD.match(text)
        if head is None:
            return None
        rest = _ALONG.sub(" , ", _ORDERED_BY.sub(" ", head[1]))
        rest = _COUNTED.sub(r"\1", rest)
        end = _HEAD_END.search(rest)
        items = rest[: end.start()] if end else rest
        tail = rest[end.start() :] if end else ""
        found = [item for item in _JOINED.split(items.strip()) if item.strip(" ?.!")]
        # An item of many words is a sentence that was not understood, and no statement is better than a wrong one.
        if not found or any(len(item.split()) > _MOST_WORDS for item in found):
            return None
        return found, not _JOINED.search(tail)

    def mentions(self, name: str) -> bool:
        """Tell whether all words of a name from a schema are in it, in their order and side by side."""
        wanted = name_stems(name)
        count = len(wanted)
        if not wanted:
            return False
        return any(self.stems[i : i + count] == wanted for i in range(len(self.stems) - count + 1))

    def mentions_part(self, name: str) -> bool:
        """Tell whether any word of a name, but the commonest, is in it."""
        return any(word in self.stem_set for word in name_stems(name) if word not in _COMMON)


_MOST_WORDS: Final = 5
_SENTENCE: Final = re.compile(r"(?<=[.?!])\s+")


def _last_order(text: str) -> str:
    """The last sentence that tells what to give, as in "Who leads? List the name and the score."."""
    sentences = [sentence for sentence in _SENTENCE.split(text) if sentence]
    told = [sentence for sentence in sentences if _HEAD.match(sentence)]
    return told[-1] if len(sentences) > 1 and told else text


# Words that names in every schema have.
_COMMON: Final = frozenset({"id", "name", "code", "of", "the", "number", "num", "is", "type", "in"})


def _amount(text: str) -> float:
    return float(text.replace(",", "")) if text[0].isdigit() else float(cardinal(text))


def name_stems(name: str) -> list[str]:
    """The words of a name such as `Song_release_year` or `SurfaceArea`."""
    return [singular(part) for part in _CAMEL.findall(name)]
