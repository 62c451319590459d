"""Code and values in prose: names of the program, expressions over them, and literals, quoted or not."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from groundbox.values.numbers import GROUPED
from groundbox.values.parsing import expression_of, module_of
from groundbox.values.pure import FUNCTIONS

MOST_CODE: Final = 2000
"""Characters of one item; a longer one is prose."""
_CANDIDATES: Final = 12
_LOOKED_AT: Final = 20
"""Times that a character of a text is looked at, on the average; when they are used up, no more is found in it."""
_DEEPEST: Final = 60

_QUOTED: Final = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\"""")
_CODE: Final = re.compile(r"(`{1,3})(.+?)\1(?!`)", re.DOTALL)
_NUMBER: Final = re.compile(rf"{GROUPED}(?:[eE][-+]?\d+)?")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_OPERATOR: Final = re.compile(r"\*\*|//|==|!=|<=|>=|[-+*/%<>^≤≥≠]|mod(?=[ (])|\.(?=[A-Za-z_])")
_MATHS: Final = str.maketrans({"×": "*", "·": "*", "−": "-", "÷": "/"})
_IN_PYTHON: Final = str.maketrans({"≤": "<=", "≥": ">=", "≠": "!="})
_DESCRIBED: Final = re.compile(
    r"(?:the|this|our)\s(?:(?:input|given|original|resulting|final|new|updated|current|modified|entire|whole|same"
    r"|sorted|reversed)\s){0,2}(string|text|word|list|array|dictionary|dict|map|set|tuple)\b(?![-'’_])",
    re.I,
)
_MEANT: Final = {
    "string": "the string", "text": "the string", "word": "the string", "list": "the list", "array": "the list",
    "dictionary": "the dictionary", "dict": "the dictionary", "map": "the dictionary", "set": "the set",
    "tuple": "the tuple",
}  # fmt: skip
_APPOSED: Final = re.compile(r"\s?(?:(?:called|named|variable|parameter)\s)?(?:[`'\"(\[{\d]|(\w+))")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_WORDS_OF_PYTHON: Final = frozenset({"and", "or", "not", "in", "is", "if", "else", "for", "lambda", "await", "yield"})
_CONSTANTS: Final = frozenset({"True", "False", "None"})
_EMPTY: Final[tuple[tuple[re.Pattern[str], Any], ...]] = (
    (re.compile(r"(?:an )?empty (?:list|array)\b(?: \[\])?", re.I), []),
    (re.compile(r"(?:an )?empty (?:string|text)\b(?: (?:''|\"\"))?", re.I), ""),
    (re.compile(r"(?:an )?empty (?:dict(?:ionary)?|map)\b(?: \{\})?", re.I), {}),
)  # fmt: skip


class Item(NamedTuple):
    """A piece of code or a value in a text.

    Attributes:
        node: The expression.
        value: What it is, where it is a literal; the text of `code`.
        kind: `name`, `expression` or `value`; `code` for what is marked as code and is none of these.
        quoted: It is marked as code.
    """

    start: int
    end: int
    kind: str
    node: ast.expr | None
    value: Any = None
    quoted: bool = False


def find(text: str, names: Collection[str], *, uses_xor: bool = False) -> list[Item]:
    """The items of a text, in its order; none overlaps another.

    Args:
        names: What the program calls things.
        uses_xor: `^` is what it is in Python, and no power.
    """
    return list(_Finder(text, frozenset(names), uses_xor=uses_xor).items())


class _Finder:
    def __init__(self, text: str, names: frozenset[str], *, uses_xor: bool) -> None:
        self._text = text
        self._maths = text.translate(_MATHS)
        self._names = names
        self._uses_xor = uses_xor
        self._closing = 0
        # Brackets that open and never close would make each place look to the end: what all may look at is bounded
        # together.
        self._left = _LOOKED_AT * (len(text) + MOST_CODE)

    def items(self) -> Iterator[Item]:
        text, at = self._text, 0
        while at < len(text):
            item = self._item(at)
            if item is not None:
                yield item
                at = item.end
                continue
            # A word in which nothing was found is passed over whole: no item begins within it.
            word = _WORD.match(text, at) or _NUMBER.match(text, at)
            at = word.end() if word else at + 1

    def _item(self, at: int) -> Item | None:
        text, sign = self._text, self._text[at]
        before = text[at - 1] if at else " "
        if sign == "`":
            if at < self._closing:
                return None  # of code that is read as prose
            code = _CODE.match(text, at, at + MOST_CODE)
            return self._code(code) if code else None
        if sign in "eEaA" and not before.isalnum():
            for pattern, value in _EMPTY:
                if empty := pattern.match(text, at):
                    return Item(at, empty.end(), "value", parsed(repr(value)), value)
        if before.isalnum() or before == "_" or (before == "." and sign.isdigit()):
            return None
        if sign in "tToO" and (described := self._described(at)):
            return described
        if before in "'’" and at > 1 and text[at - 2].isalnum():
            return None  # the s of "it's"
        if sign.isalnum() or sign in "_([{'\"" or (sign == "-" and text[at + 1 : at + 2].isalnum()):
            return self._bare(at)
        return None

    def _described(self, at: int) -> Item | None:
        """ "The list" and the like, unless its name or value follows, or it is called so itself."""
        found = _DESCRIBED.match(self._text, at, at + 80)
        if found is None or found[1] in self._names:
            return None
        if (after := _APPOSED.match(self._text, found.end(), found.end() + 80)) and (
            after[1] is None or after[1] in self._names
        ):
            return None
        return Item(at, found.end(), "name", ast.Name(_MEANT[found[1].lower()], ast.Load()))

    def _code(self, found: re.Match[str]) -> Item | None:
        inner = found[2].strip()
        made = self._made(inner, found.start(), found.end(), quoted=True)
        if made or not any(map(str.isdigit, inner)) or any(literal_of(value)[0] for _, value in assignments(inner)):
            return made or Item(found.start(), found.end(), "code", None, inner, quoted=True)
        self._closing = found.end()
        return None  # "`3 + 4 = 7`" is read as it would be without its marks

    def _bare(self, at: int) -> Item | None:
        """The longest expression that begins here."""
        if self._left < 0:
            return None
        # From the longest to the shortest: the first that parses is the item.
        ends = list(self._ends(at))[-_CANDIDATES:]
        self._left -= ends[-1] - at if ends else 0
        for end in reversed(ends):
            self._left -= end - at
            if self._left < 0:
                return None
            if made := self._made(self._text[at:end], at, end, quoted=False):
                return made
        return None

    def _ends(self, at: int) -> Iterator[int]:
        """Yield where an expression that begins here may end: after each operand."""
        text, wants_operand = self._text, True
        last = min(len(text), at + MOST_CODE)
        is_attribute = False
        while at < last:
            if wants_operand:
                if text[at] == "-":
                    at += 1
                    continue
                end = self._operand(at, is_attribute=is_attribute)
                if end is None:
                    return
                at, wants_operand = end, False
                while at < len(text) and text[at] in "([" and (end := self._closed(at)):
                    yield at
                    at = end
                yield at
                continue
            spaces = len(text[at : at + 2]) - len(text[at : at + 2].lstrip(" "))
            operator = _OPERATOR.match(self._maths, at + spaces)
            if operator is None or (operator[0] == "." and spaces):
                return
            # `xs -1` lists two things; `xs - 1` takes one from the other.
            if operator[0] == "-" and spaces and text[operator.end() : operator.end() + 1] != " ":
                return
            is_attribute = operator[0] == "."
            at = operator.end()
            at += text[at : at + 1] == " "
            wants_operand = True

    def _operand(self, at: int, *, is_attribute: bool) -> int | None:
        text = self._text
        if text[at] in "'\"":
            quoted = _QUOTED.match(text, at, at + MOST_CODE)
            return quoted.end() if quoted and not text[quoted.end() : quoted.end() + 1].isalnum() else None
        if text[at] in _CLOSING:
            return self._closed(at)
        if number := _NUMBER.match(text, at):
            after = text[number.end() : number.end() + 1]
            return None if after.isalpha() or after == "_" else number.end()
        word = _WORD.match(text, at)
        if word is None or word[0] in _WORDS_OF_PYTHON:
            return None
        known = is_attribute or word[0] in self._names or word[0] in FUNCTIONS or word[0] in _CONSTANTS
        return word.end() if known else None

    def _closed(self, at: int) -> int | None:
        """Return where the bracket that opens here has its end."""
        text, open_ = self._text, []
        end = min(len(text), at + MOST_CODE)
        while at < end:
            sign = text[at]
            if sign in "'\"" and (quoted := _QUOTED.match(text, at, end)):
                at = quoted.end()
                continue
            if sign in _CLOSING:
                open_.append(_CLOSING[sign])
                if len(open_) > _DEEPEST:
                    return None
            elif sign in ")]}":
                if sign != open_.pop():
                    return None
                if not open_:
                    return at + 1
            at += 1
        return None

    def _made(self, code: str, start: int, end: int, *, quoted: bool) -> Item | None:
        # 1,000 is one number in English, and a tuple in Python.
        source = re.sub(r"(?<=\d),(?=\d{3}\b)", "", code) if _NUMBER.fullmatch(code) else code
        if not quoted and "'" not in source and '"' not in source:
            source = source.translate(_MATHS).translate(_IN_PYTHON)
            source = re.sub(r"\bmod\b", "%", source)
            source = source if self._uses_xor else source.replace("^", "**")
        node = parsed(source)
        if node is None:
            return None
        literal, value = literal_of(node)
        if literal:
            return Item(start, end, "value", node, value, quoted)
        if not self._is_of_the_program(node):
            return None
        return Item(start, end, "name" if isinstance(node, ast.Name) else "expression", node, None, quoted)

    def _is_of_the_program(self, node: ast.expr) -> bool:
        bound = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - bound
        if isinstance(node, ast.Tuple | ast.Set | ast.List):
            return False  # "(nums, target)" lists names, and says nothing of them
        return all(name in self._names or name in FUNCTIONS for name in used) and (
            not isinstance(node, ast.Name) or node.id in self._names
        )


class Spans:
    """Parts of a text, asked whether one of them holds another part."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            self._starts.append(start)
            # The farthest end so far, so that one look finds whether any of those that begin before holds it.
            self._ends.append(max(end, self._ends[-1] if self._ends else 0))

    def hold(self, start: int, end: int) -> bool:
        at = bisect.bisect_right(self._starts, start) - 1
        return at >= 0 and self._ends[at] >= end


def pieces(text: str, ends: re.Pattern[str], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield where the parts of a text between matches stand, without white space around them; no empty ones."""
    for end in (*(found.end() for found in ends.finditer(text, start, stop)), stop):
        piece = text[start:end]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
        start = end


def parsed(source: str) -> ast.expr | None:
    """The expression of a piece of Python, or None; an assignment that is the whole condition has no parentheses."""
    try:
        node = expression_of(f"({source})" if ":=" in source else source.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return node if is_shallow(node) else None


def statements(source: str) -> list[ast.stmt] | None:
    """The statements of a piece of Python, or None."""
    try:
        return module_of(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def assignments(source: str) -> list[tuple[ast.expr, ast.expr]]:
    """Targets and values of an assignment, side by side; nothing for other code."""
    body = statements(source.strip()) if "=" in source else None
    if body is None or len(body) != 1 or not isinstance(statement := body[0], ast.Assign):
        return []
    found = []
    for target in statement.targets:
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts, strict=False))
        found += [(_loaded(left), right) for left, right in pairs if is_shallow(left) and is_shallow(right)]
    return found


def _loaded(target: ast.expr) -> ast.expr:
    """A target as an expression."""
    return parsed(ast.unparse(target)) or target


def is_shallow(node: ast.AST) -> bool:
    """Return whether whoever goes through it by recursion stays far from Python's limit."""
    level: list[ast.AST] = [node]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in ast.iter_child_nodes(outer)]
        if not level:
            return True
    return False


def decimals(shown: str) -> int | None:
    """Digits after the point of a number that is written out; None for other texts."""
    whole, point, digits = shown.partition(".")
    return len(digits) if point and digits.isdigit() and whole.lstrip("-").isdigit() else None


def literal_of(node: ast.expr) -> tuple[bool, Any]:
    """Return whether an expression is a literal, and its value."""
    try:
        return True, ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False, None
