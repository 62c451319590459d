# ruff: noqa: E501  one wording a line
"""How texts say things about a run: one table of wordings, and what makes claims of them.

A new wording is one line of `WORDINGS`. `{place}` is a name or an expression of the program, `{test}` an expression that
compares or asks, `{equation}` one with `==`, `{value}` a literal, `{call}` a call, `{x}` and `{y}` any of these; `(one|other)`, `(…)?` and the like are
those of `re`. Case and the amount of white space do not matter. Of two wordings that fit at the same place the longer one
counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.claims import items
from groundbox.trace.claims.items import Item
from groundbox.trace.claims.model import Claim, Kind

MOST_SENTENCES: Final = 10_000

_BE: Final = (
    r"(is|are|was|will be|would be|should be|becomes?|became|equals|remains?|stays|holds|contains|has the value)"
)
_IS: Final = r"(is|are|was) (?P<not>not|n't|never)? ?"
_NOW: Final = r"(now|then|initially|still|also|just|simply|thus|therefore|again|currently)?"
_TO: Final = r"(equal to|set to|updated to|initiali[sz]ed (to|as|with)|assigned( to)?|changed to|increased to|reduced to|reset to)?"
_GIVES: Final = r"(is|returns?|gives?|evaluates to|results in|yields|produces|becomes|equals|comes to)"
_WILL_BE: Final = r"(is|will be|would be|should be|was)"
_OF: Final = r"(of(?! (this|that|the|each|an?) (expression|condition|operation|comparison|check|test|division|loop|iteration))|for|when|after|from)"
_GAP: Final = r"([^.:,\n]|,(?=\s*(and\s)?[\ue000-\uffff]))"
_OUTPUT: Final = r"(output|result|return(ed)? value|final (output|result|value|answer)|answer|return)"


class Wording(NamedTuple):
    """A way to say something.

    Attributes:
        certain: It can only be meant of a moment of this run.
        subject: The expression that is spoken of, made of `{x}` and `{y}`, where it does not stand in the text as it is.
    """

    pattern: str
    kind: Kind
    certain: bool = False
    subject: str = ""


WORDINGS: Final = (
    Wording(r"{place} ?(=|:=|==|->|→|=>|⇒) ?{value}", Kind.VALUE, certain=True),
    Wording(rf"{{place}} {_BE} {_NOW} ?{_TO} ?(the (value|string|number|list|dictionary|character) )?{{value}}", Kind.VALUE),
    Wording(rf"{{place}} {_GIVES} (the (value|string|number|list) )?{{value}}", Kind.VALUE),
    Wording(r"{place} \(which {value}\)", Kind.VALUE),
    Wording(rf"{{place}},? \(?which {_BE} {{value}}", Kind.VALUE),
    Wording(rf"value of {{place}} {_BE} {_NOW} ?{_TO} ?{{value}}", Kind.VALUE, certain=True),
    Wording(r"(sets?|setting|initiali[sz]es?|initiali[sz]ing|updates?|updating) (the )?(variable )?{place} (to|as|with|=) {value}", Kind.VALUE),
    Wording(r"(set|initiali[sz]e|assign) {place} ?= ?{value}", Kind.VALUE),
    Wording(r"(assigns?|assigning) {value} to {place}", Kind.VALUE),
    Wording(r"{test} (is|evaluates to|returns|->|→|=>|:|=) ?{value}", Kind.TEST),
    Wording(r"{test} (is|evaluates to|returns|->|→|=>|:) ?(?P<truth>true|false)", Kind.TEST),
    Wording(r"{x} ?(=|==) ?{y}", Kind.TEST, certain=True, subject="x == y"),
    Wording(r"{x} ?= ?{y} ?= ?{z}", Kind.TEST, certain=True, subject="x == y == z"),
    Wording(rf"{{x}} {_IS} (evenly )?divisible by {{y}}", Kind.TEST, subject="x % y == 0"),
    Wording(rf"{{x}} {_IS} (greater|more|larger|bigger) than {{y}}", Kind.TEST, subject="x > y"),
    Wording(rf"{{x}} {_IS} (less|smaller|fewer) than {{y}}", Kind.TEST, subject="x < y"),
    Wording(rf"{{x}} {_IS} (greater|more|larger) than or equal to {{y}}", Kind.TEST, subject="x >= y"),
    Wording(rf"{{x}} {_IS} (less|smaller) than or equal to {{y}}", Kind.TEST, subject="x <= y"),
    Wording(rf"{{x}} {_IS} (equal to|the same as) {{y}}", Kind.TEST, subject="x == y"),
    Wording(rf"{{x}} {_IS} (in|present in|found in|a key (in|of)) {{y}}", Kind.TEST, subject="x in y"),
    Wording(rf"{{x}} {_IS} even", Kind.TEST, subject="x % 2 == 0"),
    Wording(rf"{{x}} {_IS} odd", Kind.TEST, subject="x % 2 == 1"),
    Wording(r"{x} (?P<not>does not|doesn't|do not)? ?(contains?|has|have) {y}", Kind.TEST, subject="y in x"),
    Wording(r"{x} (?P<not>does not|doesn't)? ?starts? with {y}", Kind.TEST, subject="x.startswith(y)"),
    Wording(r"{x} (?P<not>does not|doesn't)? ?ends? with {y}", Kind.TEST, subject="x.endswith(y)"),
    Wording(r"(length|size|len) of (the )?([\w-]+ ){0,3}?{x} (is|=|equals)( also)? {value}", Kind.VALUE, subject="len(x)"),
    Wording(r"{x} has (a length of|length) {value}", Kind.VALUE, subject="len(x)"),
    Wording(r"{x} (has|contains) {value} (elements|items|characters|entries|keys|letters|numbers|pairs)", Kind.VALUE, subject="len(x)"),
    Wording(r"sum of ([\w-]+ ){0,3}?{x} (is|=|equals) {value}", Kind.VALUE, subject="sum(x)"),
    Wording(r"{y} (appears|occurs) {value} times? in {x}", Kind.VALUE, subject="x.count(y)"),
    Wording(r"assert {test}", Kind.TEST, certain=True),
    Wording(r"{equation}(?= ?([.;,)]|$))", Kind.TEST),
    Wording(r"(since|because|as) {test}(?= ?[,.;)]|$)", Kind.TEST),
    Wording(rf"(the )?{_OUTPUT}( {_OF} {_GAP}{{0,160}}?)? {_WILL_BE}( therefore| thus| then)?:? {{value}}", Kind.RETURN, certain=True),
    Wording(rf"(the )?{_OUTPUT}( {_OF} {_GAP}{{0,160}}?)? {_WILL_BE} (a|an|the) ([\w-]+[: ] ?){{0,16}}?{{value}}", Kind.RETURN),
    Wording(rf"\W{{0,4}}{_OUTPUT}\W{{0,4}}: ?\W{{0,3}}{{value}}", Kind.RETURN, certain=True),
    Wording(r"(returns?|will return|returned|outputs?|will output) ([\w-]+ ){0,4}?{value}", Kind.RETURN),
    Wording(r"return(s|ed)?[^.:]{0,100}?,? which (is|will be) {value}", Kind.RETURN),
    Wording(rf"{{value}},? (is|are|will be) (then |finally |therefore )?(returned|the (final )?{_OUTPUT})", Kind.RETURN),
    Wording(rf"{{call}} ?(==|=|->|→|=>|{_GIVES}) ?{{value}}", Kind.RETURN, certain=True),
    Wording(r"input[^.:]{0,60}? {value}", Kind.INPUT),
    Wording(r"(called|invoked|executed) with (the )?(argument|input|value)?s? ?{value}", Kind.INPUT),
)  # fmt: skip

_GENERAL: Final = re.compile(
    r"\b(if|when(ever)?(?! called| given| invoked| executed| run)|whether|otherwise|for each|for every|until|unless|suppose"
    r"|in case|while|as long as|each time|either|would(?! be))\b",
    re.I,
)
_MARKER: Final = re.compile(r"(?m)^[ \t]*(?:#{1,6} |>+ ?|[-*•+] |(?:step )?\d{1,3}[.):](?= )|\(\d{1,2}\) )+", re.I)
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s|$)|\n+|;(?= )")
_FIRST_NAME, _FIRST_EXPRESSION, _FIRST_VALUE, _FIRST_CODE = 0xE000, 0xE800, 0xF000, 0xF800
_KINDS: Final = {"name": _FIRST_NAME, "expression": _FIRST_EXPRESSION, "value": _FIRST_VALUE, "code": _FIRST_CODE}
_MOST_ITEMS: Final = 0x700
_NAME, _EXPRESSION, _VALUE = "[\ue000-\ue7ff]", "[\ue800-\uefff]", "[\uf000-\uf7ff]"
_PLACES: Final = {
    "{place}": f"(?P<place>{_NAME}|{_EXPRESSION})",
    "{test}": f"(?P<test>{_NAME}|{_EXPRESSION})",
    "{call}": f"(?P<call>{_EXPRESSION})",
    "{equation}": f"(?P<equation>{_EXPRESSION})",
    "{value}": f"(?P<value>{_VALUE})",
    "{x}": f"(?P<x>{_NAME}|{_EXPRESSION}|{_VALUE})",
    "{y}": f"(?P<y>{_NAME}|{_EXPRESSION}|{_VALUE})",
    "{z}": f"(?P<z>{_NAME}|{_EXPRESSION}|{_VALUE})",
}


class Reading(NamedTuple):
    """A text as it was read."""

    items: Sequence[Item]
    sentences: Sequence[tuple[int, int]]
    claims: Sequence[Claim]


def compiled(pattern: str) -> re.Pattern[str]:
    """The expression over text with items replaced that a wording is."""
    for name, place in _PLACES.items():
        pattern = pattern.replace(name, place)
    return re.compile(r"(?<!\w)" + pattern.replace(" ?", r"\s*").replace(" ", r"\s+"), re.I)


_COMPILED: Final = [(compiled(wording.pattern), wording) for wording in WORDINGS]


def read(text: str, names: Collection[str], functions: Collection[str]) -> Reading:
    """The claims of a text, in its order.

    Args:
        names: What the program calls things.
        functions: Those of them that are functions.
    """
    found = _Text(without_markers(text), names)
    claims: list[Claim] = []
    for number, (start, end) in enumerate(found.sentences):
        claims += found.claims(number, start, end, functions)
    return Reading(found.items, [found.span(*each) for each in found.sentences], claims)


def without_markers(text: str) -> str:
    """The text with blanks for what makes lists, headings, emphasis and fences; as long as before."""
    text = re.sub("[\ue000-\uf8ff]", "\ufffd", text)  # these stand for items here
    text = _MARKER.sub(lambda marker: " " * len(marker[0]), text)
    text = re.sub(r"(?m)^[ \t]*```\w*[ \t]*$", lambda fence: " " * len(fence[0]), text)
    return re.sub(r"\*\*(?=\S)|(?<=\S)\*\*(?!\w)|\\[()\[\]]", lambda mark: " " * len(mark[0]), text)


class _Text:
    """A text with its items replaced by one character each, and the way back."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self.items = items.find(text, names)[:_MOST_ITEMS]
        signs: list[str] = []
        self._starts: list[int] = []
        self._item_at: dict[int, Item] = {}
        at = 0
        for number, item in enumerate(self.items):
            for place in range(at, item.start):
                signs.append(text[place])
                self._starts.append(place)
            self._item_at[len(signs)] = item
            signs.append(chr(_KINDS[item.kind] + number))
            self._starts.append(item.start)
            at = item.end
        for place in range(at, len(text)):
            signs.append(text[place])
            self._starts.append(place)
        self._starts.append(len(text))
        self._signs = "".join(signs)
        self.sentences = list(self._split())[:MOST_SENTENCES]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Characters of the text that signs stand for."""
        last = self._item_at.get(end - 1)
        return self._starts[start], last.end if last else self._starts[end]

    def _split(self) -> Iterator[tuple[int, int]]:
        start = 0
        for end in (*(found.end() for found in _SENTENCE_END.finditer(self._signs)), len(self._signs)):
            sentence = self._signs[start:end]
            if sentence.strip():
                yield start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())
            start = end

    def claims(self, number: int, start: int, end: int, functions: Collection[str]) -> Iterator[Claim]:
        """Of one sentence; of wordings that overlap the longest."""
        general = _GENERAL.search(self._signs, start, end) is not None
        found = [
            (match, wording)
            for pattern, wording in _COMPILED
            for match in pattern.finditer(self._signs, start, end)
        ]  # fmt: skip
        found.sort(key=lambda pair: (-(pair[0].end() - pair[0].start()), pair[0].start()))
        taken: list[tuple[int, int]] = []
        made = []
        for match, wording in found:
            begin, stop = match.span()
            if any(begin < other_stop - 1 and other_begin < stop - 1 for other_begin, other_stop in taken):
                continue
            claim = self._claim(match, wording, number, general, functions)
            if claim is not None:
                taken.append((begin, stop))
                made.append(claim)
        yield from sorted(made, key=lambda claim: claim.start)

    def _claim(
        self, match: re.Match[str], wording: Wording, number: int, general: bool, functions: Collection[str]
    ) -> Claim | None:
        groups = match.groupdict()
        spoken = {
            name: self._item(match, name)
            for name in ("place", "test", "equation", "call", "x", "y", "z")
            if groups.get(name)
        }
        value = self._item(match, "value") if groups.get("value") else None
        node: ast.expr | None
        if wording.subject:
            node = _filled(wording.subject, spoken)
        else:
            node = next((item.node for item in spoken.values()), None)
        kind, certain = wording.kind, wording.certain or any(item.quoted for item in spoken.values())
        is_call = _is_call(node, functions)
        if "call" in groups and not is_call:
            return None
        if kind is Kind.VALUE and is_call:
            kind = Kind.RETURN
        if kind is Kind.VALUE and isinstance(node, ast.Name) and node.id in functions:
            return None
        told = value.value if value else None
        if kind is Kind.TEST and value is None:
            told = groups.get("truth", "true").lower() != "false" and not groups.get("not")
        if kind is Kind.TEST and (not _asks(node) or not isinstance(told, bool)):
            return None
        equation = _equation(node)
        if "equation" in groups and equation is None:
            return None
        if kind is Kind.TEST and told and equation is not None and _is_call(equation[0], functions):
            kind, certain, node, told = Kind.RETURN, True, *equation
        start, end = self.span(*match.span())
        parts = [(item.start, item.end) for item in (*spoken.values(), value) if item is not None]
        return Claim(
            kind=kind, subject=node, value=told, shown=ast.unparse(node) if node else "",
            decimals=_decimals(self._text_of(value)) if value else None,
            start=start, end=end, parts=parts, sentence=number, certain=certain, general=general,
        )  # fmt: skip

    def _item(self, match: re.Match[str], name: str) -> Item:
        return self._item_at[match.start(name)]

    def _text_of(self, item: Item) -> str:
        return repr(item.value) if isinstance(item.value, float) else ""


def _filled(subject: str, spoken: Mapping[str, Item]) -> ast.expr:
    """A wording's expression with what the text has at its places."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return (spoken[node.id].node if node.id in spoken else None) or node

    filled: ast.expr = Fill().visit(ast.parse(subject, mode="eval").body)
    return ast.fix_missing_locations(filled)


def _is_call(node: ast.expr | None, functions: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions


def _equation(node: ast.expr | None) -> tuple[ast.expr, Any] | None:
    """Both sides of `expression == literal`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        literal, value = items.literal_of(node.comparators[0])
        return (node.left, value) if literal else None
    return None


def _asks(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Call)


def _decimals(shown: str) -> int | None:
    whole, point, digits = shown.partition(".")
    return len(digits) if point and digits.isdigit() and whole.lstrip("-").isdigit() else None
