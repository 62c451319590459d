"""A sentence as operands, words and signs, and how to look around in it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from groundbox.trace.proof.text.expressions import Parsed, parser
from groundbox.trace.proof.text.sentences import Sentence
from groundbox.trace.proof.text.tokens import NUMBER, SIGN, STRING, WORD, Token
from groundbox.trace.proof.text.vocabulary import vocabulary
from groundbox.trace.proof.values.code import parse_source
from groundbox.trace.proof.values.likeness import EMPTY
from groundbox.trace.proof.values.things import Opaque

OPERAND: Final = "operand"
NUMBERS: Final = {
    word: number for number, word in enumerate(
        (
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
        "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
    )
    )
}  # fmt: skip
ORDINALS: Final = {
    word: number for number, word in enumerate((
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    ), 1)
}  # fmt: skip
ABOUT: Final = frozenset(
    {"about", "approximately", "roughly", "around", "nearly", "almost", "≈", "~", "approx", "circa"}
)
ADVERBS: Final = vocabulary(
    """
    now then also again still therefore thus just simply only already both all finally initially itself each
    first next here currently immediately hence consequently correctly indeed once instead accordingly always
    even directly subsequently afterwards eventually later thereby
    """
)
_FILL: Final = ADVERBS | frozenset(
    (
        "the", "a", "an", "value", "of", "number", "string", "list", "tuple", "set", "dict", "dictionary", "result",
        "character", "char", "word", "index", "integer", "float", "key", "to", "be", "as", "with", "at", "exactly",
        "object", "node", "element", "item", "boolean", "array", "stack", "queue", "deque", "state", "following",
        "new",
    )
)  # fmt: skip
_EMPTY: Final = {
    "list": "[]", "stack": "[]", "queue": "[]", "array": "[]", "dict": "{}", "dictionary": "{}", "map": "{}",
    "mapping": "{}", "counter": "{}", "set": "set()", "string": "''", "str": "''", "tuple": "()",
}  # fmt: skip
_LITERALS: Final = {"true": True, "false": False, "none": None, "null": None}
_BINDING: Final = vocabulary(
    """
    in to from into of = is are was were < > <= >= == != → onto by than : except
    """
)
_ARTICLE_MAY_BE_A_NAME: Final = vocabulary(
    """
    = == != < > <= >= + - * / % // → , and is was becomes become gets equals takes to goes has holds stays
    starts :
    """
)
_PRONOUNS: Final = frozenset({"this", "that", "it", "which"})
_AFTER_BITS: Final = frozenset({"&", "|", "^", "<<", ">>", "<", ">", "="})
_DETERMINERS: Final = frozenset({"this", "these", "no", "each", "every", "such"})
_BEFORE_A_NAME: Final = frozenset(
    {"into", "to", "set", "of", "and", "make", "variable", "update", "name", "both", "(", ",", "%"}
)


_AUXILIARIES: Final = frozenset({"does", "do", "did", "has", "have", "had"})
_CONTRACTED: Final = frozenset({"doesn't", "don't", "didn't", "hasn't", "haven't", "never"})


_CLOSING: Final = {">": 1, ">,": 1, ">>": 2}
"""How many angle brackets a sign closes: `<function f.<locals>.<lambda>>`."""


class Item(NamedTuple):
    """An operand, a word, or a sign.

    Attributes:
        kind: OPERAND, WORD, NUMBER, STRING or SIGN.
        low: Its text in lower case.
        node: Of an operand.
        code: Whether it stands in a code span.
    """

    kind: str
    low: str
    start: int
    end: int
    node: ast.expr | None
    code: bool


class Value(NamedTuple):
    """A value that was found, and the index of the item after it."""

    node: ast.expr
    end: int
    about: bool


class Phrase:
    """A sentence to look around in."""

    def __init__(self, sentence: Sentence, items: Sequence[Item]) -> None:
        self.sentence = sentence
        self.items = items
        self.lows = [item.low for item in items]

    def low(self, at: int) -> str:
        """The word or sign at `at`; nothing for operands that are no bare words, and outside the sentence."""
        return self.lows[at] if 0 <= at < len(self.lows) else ""

    def node(self, at: int) -> ast.expr | None:
        """The operand at `at`."""
        return self.items[at].node if 0 <= at < len(self.items) else None

    def skip(self, at: int, words: Collection[str] = ADVERBS, most: int = 4) -> int:
        """The first index from `at` on that is none of these words."""
        last = at + most
        while at < last and self.low(at) in words and not (self.node(at) is not None and self.items[at].code):
            at += 1
        return at

    def left(self, at: int) -> int | None:
        """The index of the operand that ends before `at`, adverbs between set aside."""
        at -= 1
        for _ in range(3):
            if self.low(at) not in ADVERBS or (self.node(at) is not None and self.low(at - 1) not in ("", ",")):
                break
            at -= 1
        at -= negation(self, at + 1)
        if self.low(at) == ")" and at >= 2:  # an aside: `low (the left end) is 3`
            opened = at - 1
            while opened > max(0, at - 8) and self.low(opened) != "(":
                opened -= 1
            if self.low(opened) == "(" and opened:
                at = opened - 1
        return at if self.node(at) is not None else None

    def lefts(self, at: int) -> list[int]:
        """The operands before `at` that are joined by commas or `and`, in order."""
        found = self.left(at)
        if found is None:
            return []
        indexes = [found]
        while self.low(indexes[0] - 1) in (",", "and", "&") and len(indexes) < 8:
            before = indexes[0] - 2
            if self.low(before) == ",":
                before -= 1
                if self.low(before - 1) != ",":  # `..., and x is 5`: another clause
                    break
            if (
                not isinstance(self.node(before), ast.Name | ast.Attribute | ast.Subscript)
                or self.low(before - 1) in _BINDING
            ):
                break
            indexes.insert(0, before)
        return indexes

    def right(self, at: int, *, fill: Collection[str] = _FILL, bare: bool = True) -> Value | None:
        """The value that begins at `at`, after words that say nothing. `bare`: a word without quotes is a string."""
        about = False
        for step in range(7):
            low, node = self.low(at), self.node(at)
            if low in ABOUT:
                about = True
            elif low == "<" and (opaque := self._opaque(at)) is not None:
                return opaque
            elif (
                low == "not"
                and self.node(at + 1) is not None
                and (not bare or self.sentence_text(at + 1) == "(" or self.low(at + 2) == "=")
            ):
                return self._negated(at, about=about)
            elif low == "empty" and node is None:
                return self._empty(at)
            elif node is not None and not (low in fill and step < 4 and self._noun(at)):
                return Value(node, at + 1, about)
            elif low in _LITERALS and node is None:
                return Value(ast.Constant(_LITERALS[low]), at + 1, about)
            elif low in NUMBERS and node is None:
                return Value(ast.Constant(NUMBERS[low]), at + 1, about)
            elif low not in fill:
                break
            at += 1
        if bare and at < len(self.items) and self.items[at].kind == WORD and self._is_a_bare_string(at):
            return Value(ast.Constant(self.sentence_text(at)), at + 1, about)
        return None

    def _negated(self, at: int, *, about: bool) -> Value:
        inner = self.items[at + 1].node
        assert inner is not None
        return Value(ast.UnaryOp(ast.Not(), inner), at + 2, about)

    def is_opaque(self, at: int) -> bool:
        """Whether `<int of 20000 bits>` begins there, and not `< 5`."""
        if self.low(at) != "<" or at + 1 >= len(self.items) or self.items[at].end != self.items[at + 1].start:
            return False
        return self.sentence_text(at + 1).isalpha() and self._opaque(at) is not None

    def _opaque(self, at: int) -> Value | None:
        """`<generator>`, `<function outer.<locals>.f>`."""
        end, depth = at, 0
        while end < min(len(self.items), at + 16):
            depth += (self.low(end) == "<") - _CLOSING.get(self.low(end), 0)
            if depth <= 0:
                words = [self.sentence_text(index) for index in range(at + 1, end)]
                text = self._raw(at + 1, end) + ">" * (self.low(end) == ">>")
                return Value(ast.Constant(Opaque(text)), end + 1, False) if words else None  # type: ignore[arg-type]
            end += 1
        return None

    def _raw(self, begin: int, end: int) -> str:
        first, last = self.items[begin].start, self.items[end - 1].end
        return " ".join(token.text for token in self.sentence.tokens if first <= token.start < last).replace(" . ", ".")

    def sentence_text(self, at: int) -> str:
        """The word at `at` as it is written."""
        start = self.items[at].start
        for token in self.sentence.tokens:
            if token.start == start:
                return token.text
        return ""

    def _noun(self, at: int) -> bool:
        """Whether a name that is also an English word is meant as the word: an operand follows it."""
        return self.node(at + 1) is not None and not self.items[at].code

    def _empty(self, at: int) -> Value:
        literal = _EMPTY.get(self.low(at + 1))
        if literal is None:
            return Value(ast.Name(EMPTY), at + 1, False)
        return Value(ast.parse(literal, mode="eval").body, at + 2, False)

    def _is_a_bare_string(self, at: int) -> bool:
        text = self.sentence_text(at)
        return text[:1].isupper() and len(text) <= 12 and self.low(at + 1) in ("", ",", ".", ";", ":", ")", "→", "and")


def negation(found: Phrase, at: int) -> int:
    """How many words before the verb at `at` say that it is not so: `does not`, `doesn't`, `never`; else 0."""
    if found.node(at - 1) is not None:
        return 0
    if found.low(at - 1) == "not" and found.low(at - 2) in _AUXILIARIES:
        return 2
    return int(found.low(at - 1) in _CONTRACTED)


def phrase(sentence: Sentence, text: str, spans: Sequence[tuple[int, int]], names: Collection[str]) -> Phrase:
    """A sentence with its operands found.

    Args:
        text: The whole plain text.
        spans: The code spans of the text.
        names: Names of the program.
    """
    items: list[Item] = []
    tokens = sentence.tokens
    whole = _spans_by_start(spans, sentence)
    parse = parser(tokens, names)
    at = patterns = 0  # where the pattern ends of a `case`, whose names and values are no operands
    while at < len(tokens):
        token = tokens[at]
        pattern = whole.get(token.start, 0) if token.code and token.text == "case" else 0
        operand = _operand(tokens, at, text, whole, names, parse) if token.start >= patterns else None
        patterns = max(patterns, pattern)
        if operand is None or pattern:
            items.append(Item(token.kind, token.low, token.start, token.end, None, token.code))
            at += 1
            continue
        node, end = operand
        is_word = end == at + 1 and token.kind == WORD and not (token.code and token.text in names)
        low = token.low if is_word else ""
        items.append(Item(OPERAND, low, token.start, tokens[end - 1].end, node, token.code))
        at = end
    return Phrase(sentence, items)


def _spans_by_start(spans: Sequence[tuple[int, int]], sentence: Sentence) -> dict[int, int]:
    import bisect

    first = bisect.bisect_left(spans, (sentence.start - 2, 0))
    found = {}
    for start, end in spans[first:]:
        if start >= sentence.end:
            break
        found[start] = end
    return found


def _operand(
    tokens: Sequence[Token],
    at: int,
    text: str,
    spans: dict[int, int],
    names: Collection[str],
    parse: Callable[[int], Parsed | None],
) -> tuple[ast.expr, int] | None:
    token = tokens[at]
    best: tuple[ast.expr, int] | None = None
    if token.code and token.start in spans:
        best = _whole_span(tokens, at, text, spans[token.start])
    if not _may_begin(tokens, at, names):
        return best
    parsed = parse(at)
    if parsed is None or (best is not None and best[1] >= parsed.end):
        return best
    if isinstance(parsed.node, ast.Name | ast.Attribute) and parsed.end < len(tokens):
        following = tokens[parsed.end]
        if following.low in ("(", "[") and not following.spaced and not token.code:
            return best  # a display that cannot be read, such as one that was cut
        if (
            following.low == "."
            and not following.spaced
            and tokens[parsed.end + 1 : parsed.end + 2]
            and tokens[parsed.end + 1].low == "<"
        ):
            return best  # `outer.<locals>.Inner`
    return parsed.node, parsed.end


def _whole_span(tokens: Sequence[Token], at: int, text: str, end: int) -> tuple[ast.expr, int] | None:
    node = parse_source(text[tokens[at].start : end])
    if node is None:
        return None
    after = at
    while after < len(tokens) and tokens[after].start < end:
        after += 1
    return node, after


def _may_begin(tokens: Sequence[Token], at: int, names: Collection[str]) -> bool:
    token = tokens[at]
    if token.kind == WORD:
        if token.code or token.text in ("True", "False", "None", "inf", "nan"):
            return True
        if token.text == "a" or token.text == "A":
            return token.text in names and _a_is_a_name(tokens, at)
        if token.low in _PRONOUNS:
            return False
        if token.text in names and _is_a_word(tokens, at):
            return False
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        opens = following is not None and not following.spaced and following.low in ("(", "[", ".")
        return token.text in names or opens
    if token.kind == NUMBER or token.kind == STRING:
        return True
    return token.low in ("(", "[", "{") or _is_a_sign(tokens, at)


def _is_a_word(tokens: Sequence[Token], at: int) -> bool:
    """Whether a bare word means what it says, whatever the program calls so.

    `3 items`, `in this line`, `one such input`, `` `goes` goes from 1 to 2``, `are left out`, `earlier still`.
    """
    before = tokens[at - 1] if at else None
    after = tokens[at + 1].low if at + 1 < len(tokens) else ""
    if before is not None and (before.low in _DETERMINERS or before.kind == NUMBER):
        return True
    if before is not None and before.code and before.text == tokens[at].text:
        return True
    return (tokens[at].low, after) == ("left", "out") or (
        before is not None and (before.low, tokens[at].low) == ("earlier", "still")
    )


def _is_a_sign(tokens: Sequence[Token], at: int) -> bool:
    """Whether a minus or plus belongs to the number after it."""
    if tokens[at].low not in ("-", "+", "~") or at + 1 >= len(tokens) or tokens[at + 1].spaced:
        return False
    if tokens[at].low == "~":  # `~11 & 255`, `~11 = -12`, `~(1 << 2)`; but `~5.2` is about so much
        return tokens[at + 1].low == "(" or (
            at + 2 < len(tokens) and tokens[at + 1].text.isdigit() and tokens[at + 2].low in _AFTER_BITS
        )
    return tokens[at].spaced or at == 0 or tokens[at - 1].kind == SIGN


def _a_is_a_name(tokens: Sequence[Token], at: int) -> bool:
    after = tokens[at + 1].low if at + 1 < len(tokens) else "."
    before = tokens[at - 1].low if at else ""
    return after in _ARTICLE_MAY_BE_A_NAME or (
        before in _BEFORE_A_NAME and after in (".", ",", ";", ")", ":", "and", "from", "by")
    )
