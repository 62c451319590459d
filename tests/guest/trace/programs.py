"""Random programs that end: lines that make, share, change and drop objects of all kinds, in loops, calls and generators.

`program(seed)` is the same for the same seed. What a line tries may fail: each is inside a `try` somewhere, so exceptions
are common, and go through frames.
"""

from __future__ import annotations

import random

_HEAD = """
import collections, copy, functools, heapq, itertools
class Base:
    count = 0
    def __init__(self, value):
        self.value = value
        self.parts = []
        Base.count += 1
    def add(self, part):
        self.parts.append(part)
        return self
    def __hash__(self): return 3
    def __eq__(self, other): return self is other
class Slotted:
    __slots__ = ("left", "right")
class Bag(list):
    pass
class Table(dict):
    def put(self, key, value):
        self[key] = value
        self.last = key
Pair = collections.namedtuple("Pair", "one other")
total = 0
shared = []
"""

_MAKE = (
    "[{i}, {s}, {v}]", "[]", "{{{i}: {v}, {s}: {v}}}", "{{{i}, {s}}}", "({v}, {i})", "frozenset([{i}, {s}])", "Base({v})",
    "Slotted()", "Bag([{v}])", "Table(a={v})", "Pair({v}, {i})", "collections.deque([{i}, {v}], maxlen={n})",
    "collections.Counter({s})", "collections.defaultdict(list)", "collections.OrderedDict(a={i}, b={v})",
    "bytearray({s}.encode())", "[[{i}] * {n} for _ in range({n})]", "{{k: [k] for k in range({n})}}", "{i}", "{s}",
    "{i} * 1.5", "10 ** {n}0", "{s} * {n}", "list(range({n}7))", "dict.fromkeys(range({n}9), {v})", "set(range({n}8))",
    "(lambda q: q)({v})", "copy.copy({v})", "{v}", "{v}", "None", "[x for x in ({v}, {v})]", "iter([{i}])", "{v}.append",
    "[(k, [k]) for k in range({n}0)]",
)  # fmt: skip
_CHANGE = (
    "{v}.append({v})", "{v}[{i}] = {v}", "{v}[{s}] = {v}", "del {v}[{i}]", "{v}.pop()", "{v}.extend([{v}, {i}])",
    "{v}.insert({i}, {v})", "{v}.reverse()", "{v}.sort(key=id and str)", "{v}.clear()", "{v}.add({i})",
    "{v}.discard({i})", "{v}.update({v})", "{v}.update({{{s}: {v}}})", "{v}.value = {v}", "{v}.left = {v}",
    "{v}.right = {i}", "del {v}.left", "{v}.parts.append({v})", "{v}.add({v}).add({v})", "{v}.put({s}, {v})",
    "{v} += [{i}]", "{v} |= {{{i}}}", "{v}[{i}] += {i}", "{v}.value += {i}", "{v}[1:{n}] = [{v}]", "{v}[{i}].append({v})",
    "{v}.appendleft({v})", "{v}.rotate({i})", "{v}.setdefault({s}, []).append({v})", "heapq.heappush({v}, {i})",
    "shared.append({v})", "{v} = {v}", "{v}, {v} = {v}, {v}", "{v} = copy.deepcopy({v})", "{v}.extra = {v}",
    "Base.count = {v}", "Base.more = [{v}]", "del {v}", "{v} = ({v} + {v})[:40]", "{v}.move_to_end({s})", "{v} = {v}[::-1]",
    "for {v} in list({v})[:9]: shared.append({v})", "{v}.remove({i})", "{v}[0], {v}[-1] = {v}[-1], {v}[0]", "{v}.popitem()",
    "[w.append({i}) for w in {v}]", "print({v} if isinstance({v}, (int, str)) else {s})", "helper({v}, {i})",
    "recursive({n}, {v})", "list(generated({v}, {n}))", "{v} = closure({v})", "next({v})", "{v} = generated({v}, {n})",
    "sorted([3, 1, 2], key=lambda q: {v}.append(q))", "{v} = functools.reduce(lambda p, q: p + q, {v})", "raise KeyError({v})",
    "assert {v}", "global_change({v})", "{v}.__dict__[{s}] = {v}", "setattr({v}, {s}[:1], {v})", "{v}()", "({v} := [{v}])",
    "{v}.value.value = {v}", "{v}.value.value, {v}.value = {v}, {v}", "{v}[{i}][{i}] = {v}", "{v}[{s}] = {v}[{i}] = {v}",
    "{v}[{i}][0], {v}[{i}] = {i}, {v}", "{v}.value.parts.append({v})", "{v}.value += [{i}]", "{v}.value, {v}.extra = {v}, {v}",
)  # fmt: skip
_NAMES = ("a", "b", "c", "d", "e")


class _Writer:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: list[str] = []

    def program(self) -> str:
        self._function("helper(a, b, *c, d=None)", ends="    return a")
        self._function(
            "recursive(e, a, b=1, c=2, d=3)", starts="    if e <= 0: return a", ends="    return recursive(e - 1, b)"
        )
        self._function("generated(a, b, c=0, d=())", starts="    for e in range(b):", ends="        yield a", deeper=1)
        self._closure()
        self._function("global_change(a, b=1, c=2, d=3, e=4)", starts="    global total, shared", ends="    total = a")
        for name in _NAMES:
            self._line(0, f"{name} = {self._make()}")
        for _ in range(self._random.randint(3, 9)):
            self._block(0, 0)
        return _HEAD + "\n".join(self._lines) + "\n"

    def _function(self, head: str, *, starts: str = "", ends: str, deeper: int = 0) -> None:
        self._line(0, f"def {head}:")
        if starts:
            self._lines.append(starts)
        for _ in range(self._random.randint(1, 3)):
            self._block(1 + deeper, 1)
        self._lines.append(ends)

    def _closure(self) -> None:
        self._lines += ["def closure(a):", "    b = c = d = e = [a]", "    def inner():", "        nonlocal b, c"]
        self._block(2, 2)
        self._lines += ["        b = [b]", "        return b"]
        self._block(1, 2)
        self._lines += ["    inner()", "    return inner"]

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _value(self) -> str:
        return self._random.choice(_NAMES)

    def _filled(self, pattern: str) -> str:
        parts = pattern.split("{v}")
        text = parts[0] + "".join(self._value() + part for part in parts[1:])
        number, word = self._random.randint(-1, 4), self._random.choice(("'x'", "'yz'", "'value'", "''"))
        return text.format(i=number, s=word, n=self._random.randint(1, 4))

    def _make(self) -> str:
        return self._filled(self._random.choice(_MAKE))

    def _statement(self) -> str:
        if self._random.random() < 0.35:
            return f"{self._value()} = {self._make()}"
        return self._filled(self._random.choice(_CHANGE))

    def _block(self, depth: int, level: int) -> None:
        kind = self._random.choice(("try", "try", "for", "if", "while", "with", "class"))
        if level >= 3 or kind == "try":
            self._tried(depth, level)
        elif kind == "for":
            self._line(depth, f"for {self._value()} in range({self._random.randint(1, 6)}):")
            self._body(depth + 1, level + 1)
        elif kind == "while":
            self._line(depth, "for _ in range(3):")
            self._body(depth + 1, level + 1)
            self._line(depth + 1, f"if {self._value()}: {self._random.choice(('break', 'continue', 'pass'))}")
            self._line(depth, "else:")
            self._tried(depth + 1, level)
        elif kind == "class" and depth == 0:
            self._line(depth, "class Made(Base):")
            self._line(depth + 1, f"field = {self._make() if self._random.random() < 0.3 else '[1, 2]'}")
            self._line(depth + 1, "items = [i for i in range(3)]")
        else:
            self._line(depth, f"if {self._value()} != {self._value()}:")
            self._body(depth + 1, level + 1)
            self._line(depth, "else:")
            self._body(depth + 1, level + 1)

    def _body(self, depth: int, level: int) -> None:
        for _ in range(self._random.randint(1, 2)):
            self._block(depth, level)

    def _tried(self, depth: int, level: int) -> None:
        self._line(depth, "try:")
        for _ in range(self._random.randint(1, 4)):
            statements = [self._statement() for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
            are_simple = not any(each.startswith("for ") for each in statements)
            self._line(depth + 1, "; ".join(statements) if are_simple else statements[0])
        self._line(depth, "except Exception as fault:")
        self._line(depth + 1, self._random.choice(("pass", "last = fault", f"{self._value()} = str(fault)")))
        if self._random.random() < 0.2:
            self._line(depth, "finally:")
            self._line(depth + 1, f"{self._value()} = {self._make()}")


def program(seed: int) -> str:
    """A random program; it compiles, ends, and takes no input."""
    for attempt in _attempts(seed * 1000):
        text = _Writer(attempt).program()
        try:
            compile(text, "main.py", "exec")
        except SyntaxError:
            continue
        return text
    raise AssertionError


def _attempts(start: int) -> range:
    """Seeds to try: a few patterns make no sense together."""
    return range(start, start + 1000)
