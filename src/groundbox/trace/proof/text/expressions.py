"""Python expressions in a run of tokens, also where prose writes `×`, `mod` or `divided by`.

The parser reads the longest expression that begins at a token. Whether a bare word is a name depends on the program:
only words that the program uses as names are names, except in code spans and before a bracket that follows at once.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from groundbox.trace.proof.text.tokens import NUMBER, SIGN, STRING, WORD, Token
from groundbox.trace.proof.values.code import parse_source
from groundbox.trace.proof.values.things import Gap, Opaque, Part

_DEEPEST: Final = 24

_BINARY: Final[dict[str, tuple[int, type[ast.operator]]]] = {
    "|": (1, ast.BitOr), "^": (2, ast.BitXor), "&": (3, ast.BitAnd), "<<": (4, ast.LShift), ">>": (4, ast.RShift),
    "+": (5, ast.Add), "-": (5, ast.Sub), "*": (6, ast.Mult), "/": (6, ast.Div), "//": (6, ast.FloorDiv),
    "%": (6, ast.Mod), "**": (8, ast.Pow), "plus": (5, ast.Add), "minus": (5, ast.Sub), "times": (6, ast.Mult),
    "mod": (6, ast.Mod), "modulo": (6, ast.Mod),
}  # fmt: skip
_COMPARISONS: Final[dict[str, type[ast.cmpop]]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq, "in": ast.In, "∈": ast.In,
}  # fmt: skip
_CONSTANTS: Final = {"True": True, "False": False, "None": None}
_NOT_FINITE: Final = {"inf": math.inf, "nan": math.nan}
_CONTAINERS: Final = frozenset({"frozenset", "set", "range", "list", "tuple", "dict", "deque"})
_FACTOR: Final = 7


class Parsed(NamedTuple):
    """An expression and the index of the token after it."""

    node: ast.expr
    end: int


def parser(tokens: Sequence[Token], names: Collection[str]) -> Callable[[int], Parsed | None]:
    """A function that gives the longest expression that begins at a token, or None."""
    made = _Parser(tokens, names)
    return lambda at: made.comparison(at, 0)


def number(text: str) -> ast.Constant | None:
    """A number as prose writes it; ordinals are none."""
    plain = text.replace(",", "").rstrip("_")
    try:
        return ast.Constant(int(plain, 0) if plain[:2].lower() in ("0x", "0b") else _decimal(plain))
    except ValueError:
        return None


def _decimal(plain: str) -> int | float | complex:
    if plain.endswith("j"):
        return complex(plain)
    return float(plain) if any(character in plain for character in ".eE") else int(plain)


class _Parser:
    def __init__(self, tokens: Sequence[Token], names: Collection[str]) -> None:
        self.tokens = tokens
        self.names = names
        self.brackets = 0
        self.hopeless: set[int] = set()  # brackets that do not close: each is tried once, so the time stays linear

    def sign(self, at: int) -> str:
        """The sign or word at `at`, or nothing at the end."""
        token = self.tokens[at] if at < len(self.tokens) else None
        return token.low if token is not None and token.kind in (SIGN, WORD) else ""

    def comparison(self, at: int, depth: int) -> Parsed | None:
        parsed = self.binary(at, 0, depth)
        if parsed is None:
            return None
        operators: list[ast.cmpop] = []
        operands: list[ast.expr] = []
        end = parsed.end
        while (
            right := self.compared(end, depth, bare=isinstance((operands or [parsed.node])[-1], ast.Name))
        ) is not None:
            operator, operand = right
            operators.append(operator)
            operands.append(operand.node)
            end = operand.end
        return Parsed(ast.Compare(parsed.node, operators, operands), end) if operators else parsed

    def boolean(self, at: int, depth: int) -> Parsed | None:
        """Between brackets `not`, `and` and `or` are operators."""
        if depth >= _DEEPEST:
            return None
        if self.sign(at) == "not":
            inner = self.comparison(at + 1, depth + 1)
            left = Parsed(ast.UnaryOp(ast.Not(), inner.node), inner.end) if inner is not None else None
        else:
            left = self.comparison(at, depth)
        if left is None or self.sign(left.end) not in ("and", "or"):
            return left
        operator = ast.And() if self.sign(left.end) == "and" else ast.Or()
        right = self.boolean(left.end + 1, depth + 1)
        return Parsed(ast.BoolOp(operator, [left.node, right.node]), right.end) if right is not None else left

    def choice(self, at: int, depth: int) -> Parsed | None:
        """Between brackets `a if b else c` is an expression."""
        body = self.boolean(at, depth)
        if body is None or self.sign(body.end) != "if":
            return body
        test = self.boolean(body.end + 1, depth + 1)
        if test is None or self.sign(test.end) != "else":
            return body
        other = self.choice(test.end + 1, depth + 1)
        return Parsed(ast.IfExp(test.node, body.node, other.node), other.end) if other is not None else body

    def compared(self, at: int, depth: int, *, bare: bool) -> tuple[ast.cmpop, Parsed] | None:
        """The operator at `at` and its right side. `bare`: a name is on the left, as in `for x in range(3)`."""
        sign, after = self.sign(at), at + 1
        if sign == "not" and self.sign(at + 1) == "in":
            operator: type[ast.cmpop] | None = ast.NotIn
            after = at + 2
        else:
            operator = _COMPARISONS.get(sign)
        if operator is None or (
            sign in ("in", "not") and not self.is_code(after) and (bare or not self.is_a_container(after))
        ):
            return None
        operand = self.binary(after, 0, depth)
        return (operator(), operand) if operand is not None else None

    def is_code(self, at: int) -> bool:
        """Whether what is at `at` can only be the right side of `in`."""
        if at >= len(self.tokens):
            return False
        token = self.tokens[at]
        return token.low in ("[", "{", "(") or token.kind == STRING or (token.kind == WORD and token.text in self.names)

    def is_a_container(self, at: int) -> bool:
        """Whether a container is made there by its type: `frozenset({1, 2})`."""
        return at < len(self.tokens) and self.tokens[at].text in _CONTAINERS and self.opens(at + 1)

    def binary(self, at: int, least: int, depth: int) -> Parsed | None:
        left = self.unary(at, depth)
        while left is not None:
            sign = self.sign(left.end)
            level, operator = _BINARY.get(sign, (-1, ast.Add))
            after = left.end + 1
            if sign == "divided" and self.sign(left.end + 1) == "by":
                level, operator, after = 6, ast.Div, left.end + 2
            if (
                level < least
                or level < 0
                or self.is_a_dash(left.end)
                or (sign == "|" and not self.tokens[left.end].code and self.is_spaced(left.end))
            ):
                return left
            right = self.binary(after, level + (operator is not ast.Pow), depth + 1) if depth < _DEEPEST else None
            if right is None:
                return left
            left = Parsed(ast.BinOp(left.node, operator(), right.node), right.end)
        return left

    def is_spaced(self, at: int) -> bool:
        """Whether there is space around a sign: `a | b` is two cells of a table, `Perm.R|X` one value."""
        return self.tokens[at].spaced or at + 1 >= len(self.tokens) or self.tokens[at + 1].spaced

    def is_a_dash(self, at: int) -> bool:
        """`x -3` is no subtraction, and neither is a hyphen in a word."""
        token = self.tokens[at]
        if token.low != "-" or at + 1 >= len(self.tokens):
            return False
        following = self.tokens[at + 1]
        if token.spaced:
            return not following.spaced
        return following.kind == WORD and not token.code and following.text not in self.names

    def unary(self, at: int, depth: int) -> Parsed | None:
        sign = self.sign(at)
        if depth >= _DEEPEST:
            return None
        if sign in ("-", "+", "~") and at + 1 < len(self.tokens) and not self.tokens[at + 1].spaced:
            inner = self.binary(at + 1, _FACTOR, depth + 1)
            if inner is None:
                return None
            return Parsed(_signed(sign, inner.node), inner.end)
        if sign == "not" and (self.tokens[at].code or self.brackets):
            negated = self.comparison(at + 1, depth + 1)
            return Parsed(ast.UnaryOp(ast.Not(), negated.node), negated.end) if negated is not None else None
        return self.postfix(self.atom(at, depth), depth)

    def postfix(self, parsed: Parsed | None, depth: int) -> Parsed | None:
        while parsed is not None and parsed.end < len(self.tokens):
            token = self.tokens[parsed.end]
            if token.kind != SIGN or token.spaced or token.low not in "([.":
                return parsed
            following = self.trailer(parsed, token.low, depth)
            if following is None:
                return parsed
            parsed = following
        return parsed

    def trailer(self, parsed: Parsed, sign: str, depth: int) -> Parsed | None:
        if sign == ".":
            return self.attribute(parsed)
        if isinstance(parsed.node, ast.Constant) and (sign == "(" or not isinstance(parsed.node.value, str)):
            return None
        items = self.items(parsed.end + 1, ")" if sign == "(" else "]", depth + 1)
        if items is None:
            return None
        nodes, end = items
        if sign == "(":
            return Parsed(_call(parsed.node, nodes), end)
        if len(nodes) != 1 or isinstance(nodes[0], ast.keyword):
            return None
        return Parsed(ast.Subscript(parsed.node, nodes[0]), end)

    def attribute(self, parsed: Parsed) -> Parsed | None:
        after = self.tokens[parsed.end + 1] if parsed.end + 1 < len(self.tokens) else None
        if after is None or after.spaced or after.kind != WORD or "'" in after.text:
            return None
        if isinstance(parsed.node, ast.Constant) and not isinstance(parsed.node.value, str):
            return None
        return Parsed(ast.Attribute(parsed.node, after.text), parsed.end + 2)

    def atom(self, at: int, depth: int) -> Parsed | None:
        if at >= len(self.tokens):
            return None
        token = self.tokens[at]
        if token.kind == NUMBER:
            constant = number(token.text)
            return self.elided_number(Parsed(constant, at + 1)) if constant is not None else None
        if token.kind == STRING:
            return self.elided_string(_string(token.text, at))
        if token.kind == WORD:
            return self.name(token, at)
        if token.low == "<":
            return self.opaque(at) if self.brackets else None
        opened: dict[str, Callable[[int, int], Parsed | None]] = {"(": self.group, "[": self.display, "{": self.braces}
        return opened[token.low](at, depth) if token.low in opened else None

    def opaque(self, at: int) -> Parsed | None:
        """`<function outer.<locals>.f>`, where a value can stand."""
        depth = 0
        for end in range(at, min(len(self.tokens), at + 16)):
            depth += (self.tokens[end].low == "<") - {">": 1, ">>": 2}.get(self.tokens[end].low, 0)
            if depth <= 0 and end > at + 1:
                text = " ".join(token.text for token in self.tokens[at + 1 : end]).replace(" . ", ".")
                text += ">" * (self.tokens[end].low == ">>")
                return Parsed(ast.Constant(Opaque(text)), end + 1)  # type: ignore[arg-type]
        return None

    def gap(self, at: int) -> tuple[Gap, int] | None:
        """`...` or `… 5 more …`."""
        if self.sign(at) != "...":
            return None
        if at + 3 < len(self.tokens) and self.tokens[at + 1].kind == NUMBER and self.sign(at + 3) == "...":
            count = number(self.tokens[at + 1].text)
            return Gap(count.value if count is not None and isinstance(count.value, int) else None), at + 4
        return Gap(None), at + 1

    def elided_number(self, parsed: Parsed) -> Parsed:
        """`933… 126 more digits …000`."""
        at = parsed.end
        if (
            self.sign(at) != "..."
            or self.sign(at + 3) != "digits"
            or self.sign(at + 4) != "..."
            or at + 5 >= len(self.tokens)
        ):
            return parsed
        head, left_out, tail = self.tokens[at - 1].text, number(self.tokens[at + 1].text), self.tokens[at + 5].text
        count = getattr(left_out, "value", 0)
        part = Part("int", head, tail, len(head) + len(tail) + (count if isinstance(count, int) else 0))
        return Parsed(ast.Constant(part), at + 6)  # type: ignore[arg-type]

    def elided_string(self, parsed: Parsed | None) -> Parsed | None:
        """`'abc' … 29 more … 'xyz'`."""
        if parsed is None or self.sign(parsed.end) != "...":
            return parsed
        gap = self.gap(parsed.end)
        tail = self.tokens[gap[1]] if gap is not None and gap[1] < len(self.tokens) else None
        if gap is None or tail is None or tail.kind != STRING or gap[0].count is None:
            return parsed
        last = _string(tail.text, gap[1])
        head = getattr(parsed.node, "value", "")
        end = getattr(last.node, "value", "") if last is not None else ""
        return Parsed(ast.Constant(Part("str", head, end, len(head) + len(end) + gap[0].count)), gap[1] + 1)  # type: ignore[arg-type]

    def name(self, token: Token, at: int) -> Parsed | None:
        if token.text in _CONSTANTS:
            return Parsed(ast.Constant(_CONSTANTS[token.text]), at + 1)
        if token.text in _NOT_FINITE and not token.code and token.text not in self.names:
            return Parsed(ast.Constant(_NOT_FINITE[token.text]), at + 1)
        if keyword.iskeyword(token.text) or "'" in token.text:
            return None
        if token.text in self.names or token.code or self.brackets or self.opens(at + 1):
            return Parsed(ast.Name(token.text), at + 1)
        return None

    def opens(self, at: int) -> bool:
        """Whether a bracket follows at once, or a dot and a name."""
        if at >= len(self.tokens) or self.tokens[at].spaced:
            return False
        if self.tokens[at].low == "." and at + 1 < len(self.tokens):
            return self.tokens[at + 1].kind == WORD and not self.tokens[at + 1].spaced
        return self.tokens[at].low in ("(", "[")

    def group(self, at: int, depth: int) -> Parsed | None:
        items = self.items(at + 1, ")", depth + 1)
        if items is None:
            return None
        nodes = [node for node in items[0] if isinstance(node, ast.expr)]
        single = len(nodes) == 1 and self.tokens[items[1] - 2].low != "," and not _is_gap(nodes[0])
        if len(nodes) != len(items[0]):
            return None
        return Parsed(nodes[0] if single else ast.Tuple(nodes), items[1])

    def display(self, at: int, depth: int) -> Parsed | None:
        items = self.items(at + 1, "]", depth + 1)
        if items is None:
            return None
        return Parsed(ast.List([node for node in items[0] if isinstance(node, ast.expr)]), items[1])

    def braces(self, at: int, depth: int) -> Parsed | None:
        items = self.items(at + 1, "}", depth + 1)
        if items is None:
            return None
        pairs = [(node.lower, node.upper) for node in items[0] if isinstance(node, ast.Slice)]
        gaps = [node for node in items[0] if _is_gap(node)]
        if gaps and len(pairs) + len(gaps) == len(items[0]):
            pairs.extend((gap, gap) for gap in gaps if isinstance(gap, ast.expr))
            items = (items[0][: len(pairs)], items[1])
        if len(pairs) == len(items[0]):
            keys = [key for key, _ in pairs]
            values = [value for _, value in pairs if value is not None]
            return Parsed(ast.Dict(keys, values), items[1]) if len(values) == len(keys) else None
        return Parsed(ast.Set([node for node in items[0] if isinstance(node, ast.expr)]), items[1])

    def items(self, at: int, close: str, depth: int) -> tuple[list[ast.expr | ast.keyword], int] | None:
        """What stands between brackets, commas between; a pair or slice is a `Slice`, `...` an `Ellipsis`."""
        if at in self.hopeless:
            return None
        first = at
        nodes: list[ast.expr | ast.keyword] = []
        self.brackets += 1
        try:
            while self.sign(at) != close:
                item = self.item(at, depth)
                if item is None:
                    self.hopeless.add(first)
                    return None
                node, at = item
                nodes.append(node)
                if self.sign(at) == ",":
                    at += 1
                elif self.sign(at) != close:
                    self.hopeless.add(first)
                    return None
            return nodes, at + 1
        finally:
            self.brackets -= 1

    def item(self, at: int, depth: int) -> tuple[ast.expr | ast.keyword, int] | None:
        gap = self.gap(at)
        if gap is not None:
            return ast.Constant(gap[0]), gap[1]  # type: ignore[arg-type]
        if self.sign(at + 1) == "=" and self.tokens[at].kind == WORD:
            value = self.comparison(at + 2, depth)
            return (ast.keyword(self.tokens[at].text, value.node), value.end) if value is not None else None
        first = self.choice(at, depth) if self.sign(at) != ":" else None
        end = first.end if first is not None else at
        if self.sign(end) != ":":
            return (first.node, end) if first is not None else None
        second = self.comparison(end + 1, depth) if self.sign(end + 1) != "]" else None
        lower, upper = first.node if first else None, second.node if second else None
        return ast.Slice(lower, upper), second.end if second is not None else end + 1


def _is_gap(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, Gap)


def _signed(sign: str, node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return (
            ast.Constant(-node.value if sign == "-" else node.value) if sign != "~" else ast.Constant(~int(node.value))
        )
    operator: ast.unaryop = ast.USub() if sign == "-" else ast.UAdd() if sign == "+" else ast.Invert()
    return ast.UnaryOp(operator, node)


def _call(function: ast.expr, nodes: list[ast.expr | ast.keyword]) -> ast.Call:
    arguments = [node for node in nodes if isinstance(node, ast.expr)]
    return ast.Call(function, arguments, [node for node in nodes if isinstance(node, ast.keyword)])


def _string(text: str, at: int) -> Parsed | None:
    is_plain = "\\" not in text and text[0] in "'\""
    constant = ast.Constant(text[1:-1]) if is_plain else parse_source(text, most=len(text))  # a token has its own bound
    return Parsed(constant, at + 1) if isinstance(constant, ast.Constant) else Parsed(ast.Constant(text[1:-1]), at + 1)
