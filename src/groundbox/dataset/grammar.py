"""Small programs from a grammar: as many as asked for, of chosen size and depth; each of them runs and ends.

They are meant for curricula and for experiments in which every program has to be new. What they hold is drawn from a
seed, so the same options give the same programs.
"""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Final

from groundbox.errors import InvalidArgument

CONSTRUCTS: Final = ("branch", "for", "while", "list", "dict", "string", "helper")
"""Kinds of statements besides assignments, which every program has."""
ENTRY: Final = "f"
_PARAMETERS: Final = ("a", "b")
_NUMBERS: Final = ("c", "d", "e", "g", "h", "k", "m", "n", "p", "q")
_HELPERS: Final = ("double", "step")
_INDENT: Final = "    "
_FILE: Final = "<grammar>"
"""Name of the file that programs seem to stand in while they run here."""
_DEEPEST: Final = 6
_MOST_CASES: Final = 20
_MOST_LINES: Final = 400
"""Lines that a run may take. By the grammar none is endless; loops in loops may be long."""
# Small grammars run out: one statement over two names and few constants makes few programs.
_MOST_REFUSED: Final = 2000
"""Programs refused one after the other, after which the options are taken as impossible."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grammar:
    """Sizes of programs, and the kinds of statements in them.

    Attributes:
        statements: Least and most statements at the top level of the function, without its `return`.
        depth: How deep branches and loops stand in each other; 0: there are none.
        rounds: Most rounds of a `for` over a range.
        values: Largest constant and largest number among the arguments; the least is 0.
        bound: Largest absolute value that any number of a run may take.
        constructs: Which of `CONSTRUCTS` may be used.
        cases: Inputs of a program. Not all of them have the same result.
    """

    statements: tuple[int, int] = (2, 4)
    depth: int = 1
    rounds: int = 3
    values: int = 9
    bound: int = 99
    constructs: frozenset[str] = frozenset(CONSTRUCTS)
    cases: int = 3

    def __post_init__(self) -> None:
        if unknown := self.constructs - set(CONSTRUCTS):
            raise InvalidArgument("constructs", f"there is no {min(unknown)!r}; there are {', '.join(CONSTRUCTS)}")
        if not 1 <= self.statements[0] <= self.statements[1] <= len(_NUMBERS):
            raise InvalidArgument("statements", f"they must be two rising numbers from 1 to {len(_NUMBERS)}")
        for name, least, most in (("depth", 0, _DEEPEST), ("cases", 1, _MOST_CASES)):
            if not least <= getattr(self, name) <= most:
                raise InvalidArgument(name, f"it must be from {least} to {most}")
        for name, least in (("rounds", 1), ("values", 2), ("bound", self.values)):
            if getattr(self, name) < least:
                raise InvalidArgument(name, f"it must be {least} or more{', as values are' if name == 'bound' else ''}")


def problems(count: int, *, grammar: Grammar, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield `count` different programs as lines of the format `plain`.

    Raises:
        InvalidArgument: The options leave fewer programs than that, or hardly any within the bound.
    """
    seen: set[str] = set()
    refused = 0
    number = 0
    while len(seen) < count:
        # A generator for each program: how much one draws does not change those after it.
        random_ = random.Random(f"{seed}:{number}")
        number += 1
        source, arguments = _Writer(grammar, random_).program()
        # Equal sources, equal inputs and runs out of bound are refused and not mended, so that what is kept is drawn
        # evenly.
        if source in seen or len(set(map(repr, arguments))) < grammar.cases or not _fits(source, arguments, grammar):
            refused += 1
            if refused > _MOST_REFUSED:
                raise InvalidArgument(
                    "count", f"after {len(seen)} programs no new ones fit: allow more statements or a larger bound"
                )
            continue
        refused = 0
        seen.add(source)
        yield {
            "id": f"grammar-{seed}-{len(seen)}",
            "source": source,
            "entry": ENTRY,
            "cases": [{"args": each} for each in arguments],
            "licence": "Apache-2.0",
        }


def _fits(source: str, arguments: Sequence[list[Any]], grammar: Grammar) -> bool:
    """Tell whether all runs stay within the bound and their results differ."""
    results = results_within(source, arguments, grammar.bound)
    return results is not None and (len(set(results)) > 1 or len(arguments) == 1)


def results_within(source: str, arguments: Sequence[list[Any]], bound: int) -> list[str] | None:
    """Run a program of this grammar, in this process, on each of its inputs; give the results as Python writes them.

    None where a run takes a number over the bound, goes on for over 400 lines, or raises. The program may differ from
    what `problems` yields in operators and constants; it reaches nothing but its arguments, so it needs no sandbox.
    """
    namespace: dict[str, Any] = {}
    exec(compile(source, _FILE, "exec"), namespace)  # noqa: S102 - of the grammar, which knows no import
    try:
        return [repr(_watched(namespace[ENTRY], each, bound)) for each in arguments]
    except (_TooLarge, ArithmeticError, LookupError):
        return None


class _TooLarge(Exception):
    """A run left the bound."""


def _watched(function: Callable[..., Any], arguments: Sequence[Any], bound: int) -> Any:
    lines = 0

    def look(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal lines
        # Only the program's own frames count.
        if frame.f_code.co_filename != _FILE:
            return None  # a finalizer of the host, say, which a collection runs in between
        lines += 1
        if lines > _MOST_LINES or not all(_small(each, bound) for each in (*frame.f_locals.values(), value)):
            raise _TooLarge
        return look

    # Coverage and debuggers trace by the same hook.
    before = sys.gettrace()
    sys.settrace(look)
    try:
        # A program may change its list; the caller's is one of the cases.
        result = function(*(list(each) if isinstance(each, list) else each for each in arguments))
    finally:
        sys.settrace(before)
    return result


def _small(value: Any, bound: int) -> bool:
    if isinstance(value, int):
        return abs(value) <= bound
    if isinstance(value, list):
        return len(value) <= 12 and all(_small(each, bound) for each in value)
    if isinstance(value, dict):
        return all(_small(each, bound) for each in value.values())
    return not isinstance(value, str) or len(value) <= 24


@dataclasses.dataclass
class _Scope:
    """Names that have a value wherever the next statement stands, by the type of it.

    Attributes:
        lists, dicts: With the number of items that a list has at least, and the keys of a dict.
        kept: Names that may not be assigned: the number that ends a loop, and what a loop goes over.
    """

    numbers: list[str]
    lists: dict[str, int]
    texts: list[str]
    dicts: dict[str, tuple[str, ...]]
    kept: frozenset[str] = frozenset()

    def inner(self, *kept: str) -> _Scope:
        """The scope of a block: names that are first assigned there are not known after it."""
        return _Scope(
            list(self.numbers), dict(self.lists), list(self.texts), dict(self.dicts), self.kept | frozenset(kept)
        )


class _Writer:
    """Writes one program, statement by statement."""

    def __init__(self, grammar: Grammar, random_: random.Random) -> None:
        self._grammar = grammar
        self._random = random_
        self._fresh = list(_NUMBERS)
        self._loops = 0
        self._helpers: list[str] = []
        self._changed = list(_PARAMETERS)

    def program(self) -> tuple[str, list[list[Any]]]:
        """The source and the arguments of its cases."""
        scope = _Scope(list(_PARAMETERS), {}, [], {})
        parameters = list(_PARAMETERS)
        makers: list[Callable[[], Any]] = [self._number, self._number]
        if self._has("list") and self._random.random() < 0.5:
            parameters.append("xs")
            scope.lists["xs"] = 2
            makers.append(lambda: [self._number() for _ in range(self._random.randint(2, 4))])
        if self._has("string") and self._random.random() < 0.5:
            parameters.append("s")
            scope.texts.append("s")
            makers.append(lambda: "".join(self._random.choices("abcdefgh", k=self._random.randint(2, 4))))
        helper = self._helper() if self._has("helper") and self._random.random() < 0.4 else []
        size = self._random.randint(*self._grammar.statements)
        body = self._block(scope, size, self._grammar.depth, _INDENT)
        head = f"def {ENTRY}({', '.join(parameters)}):"
        source = "\n".join([*helper, head, *body, f"{_INDENT}return {self._result(scope)}", ""])
        return source, [[make() for make in makers] for _ in range(self._grammar.cases)]

    def _has(self, construct: str) -> bool:
        return construct in self._grammar.constructs

    def _number(self) -> int:
        return self._random.randint(0, self._grammar.values)

    def _constant(self) -> str:
        return str(self._random.randint(1, self._grammar.values))

    def _block(self, scope: _Scope, size: int, depth: int, indent: str) -> list[str]:
        return [line for _ in range(size) for line in self._statement(scope, depth, indent)]

    def _statement(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        nested = [("branch", self._branch), ("for", self._for), ("while", self._while)]
        flat = [("list", self._list), ("dict", self._dict), ("string", self._string)]
        choices: list[Callable[[_Scope, int, str], list[str]]] = [self._assign, self._assign]
        choices += [make for name, make in nested if depth > 0 and self._has(name)]
        choices += [make for name, make in flat if self._has(name)]
        return self._random.choice(choices)(scope, depth, indent)

    def _target(self, scope: _Scope) -> str:
        """A number's name to assign: an old one, or the next that the program has not used, and never a kept one.

        Blocks stand in each other `_DEEPEST` deep and keep one of `_NUMBERS` each, so that some are always left.
        """
        old = [name for name in scope.numbers if name not in scope.kept]
        # Half of all assignments go to a new name, until names are used up.
        if not old or (self._fresh and self._random.random() < 0.5):
            return self._fresh.pop(0) if self._fresh else next(each for each in _NUMBERS if each not in scope.kept)
        return self._random.choice(old)

    def _bind(self, scope: _Scope, name: str) -> None:
        if name not in scope.numbers:
            scope.numbers.append(name)
        self._changed.append(name)

    def _read(self, scope: _Scope) -> str:
        """A number to go on with: most often what was changed last, so that few lines are idle."""
        latest = next((name for name in reversed(self._changed) if name in scope.numbers), scope.numbers[0])
        return latest if self._random.random() < 0.6 else self._random.choice(scope.numbers)

    def _assign(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        value = self._value(scope)
        name = self._target(scope)
        self._bind(scope, name)
        return [f"{indent}{name} = {value}"]

    def _value(self, scope: _Scope) -> str:
        left = self._read(scope)
        if self._helpers and self._random.random() < 0.3:
            return f"{self._helpers[0]}({left})"
        operator = self._random.choices(("+", "-", "*", "%", "//"), weights=(4, 4, 2, 1, 1))[0]
        if operator in "%//":
            return f"{left} {operator} {self._random.randint(2, self._grammar.values)}"
        if operator == "*":
            return f"{left} * {self._random.randint(2, 3)}"
        others = [name for name in scope.numbers if name != left]
        right = self._random.choice(others) if others and self._random.random() < 0.5 else self._constant()
        return f"{left} {operator} {right}"

    def _test(self, scope: _Scope) -> str:
        left = self._read(scope)
        if self._random.random() < 0.2:
            return f"{left} % 2 == {self._random.randint(0, 1)}"
        others = [name for name in scope.numbers if name != left]
        right = self._random.choice(others) if others and self._random.random() < 0.3 else self._constant()
        return f"{left} {self._random.choice(('>', '<', '>=', '<=', '==', '!='))} {right}"

    def _branch(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        lines = [f"{indent}if {self._test(scope)}:"]
        lines += self._block(scope.inner(), self._random.randint(1, 2), depth - 1, indent + _INDENT)
        if self._random.random() < 0.5:
            lines.append(f"{indent}else:")
            lines += self._block(scope.inner(), 1, depth - 1, indent + _INDENT)
        return lines

    def _for(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        self._loops += 1
        name = f"i{self._loops}" if self._loops > 1 else "i"
        over = list(scope.lists)
        if over and self._random.random() < 0.5:
            target = self._random.choice(over)
            inside = scope.inner(name, target)
        else:
            target = f"range({self._random.randint(2, max(2, self._grammar.rounds))})"
            inside = scope.inner(name)
        inside.numbers.append(name)
        return [
            f"{indent}for {name} in {target}:",
            *self._block(inside, self._random.randint(1, 2), depth - 1, indent + _INDENT),
        ]

    def _while(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        """A loop whose number falls in each round, by a line that nothing else in the loop undoes."""
        falling = [name for name in scope.numbers if name not in scope.kept]
        if not falling:
            return self._assign(scope, depth, indent)
        name = self._random.choice(falling)
        inside = scope.inner(name)
        lines = [f"{indent}while {name} > {self._random.randint(0, self._grammar.values)}:"]
        # At least 2 each round, and the name is kept, so that no statement of the body can raise it: the loop ends.
        lines.append(f"{indent}{_INDENT}{name} = {name} - {self._random.randint(2, max(2, self._grammar.values))}")
        return lines + self._block(inside, self._random.randint(0, 1), depth - 1, indent + _INDENT)

    def _list(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        free = [name for name in scope.lists if name not in scope.kept]
        if not scope.lists or (len(scope.lists) < 2 and self._random.random() < 0.2):
            return self._new_list(scope, depth, indent)
        name = self._random.choice(list(scope.lists))
        place = self._random.randrange(scope.lists[name])
        number = self._read(scope)
        if name in free and self._random.random() < 0.5:
            self._changed.append(name)
            if self._random.random() < 0.5:
                return [f"{indent}{name}.append({number})"]
            return [f"{indent}{name}[{place}] = {number}"]
        value = self._random.choice((f"{name}[{place}]", f"len({name})", f"sum({name})", f"max({name})"))
        target = self._target(scope)
        self._bind(scope, target)
        return [f"{indent}{target} = {value}"]

    def _new_list(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        name = "ys" if "ys" not in scope.lists else "xs"
        if name in scope.kept or name in scope.lists or indent != _INDENT:
            return self._assign(scope, depth, indent)  # made in each round, it would hardly be read
        items = [self._random.choice((*scope.numbers, self._constant())) for _ in range(self._random.randint(2, 3))]
        scope.lists[name] = len(items)
        self._changed.append(name)
        return [f"{indent}{name} = [{', '.join(items)}]"]

    def _dict(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        if not scope.dicts:
            if indent != _INDENT:
                return self._assign(scope, depth, indent)
            keys = tuple(self._random.sample(("x", "y", "z"), self._random.randint(1, 2)))
            scope.dicts["t"] = keys
            items = [f"'{key}': {self._random.choice((*scope.numbers, self._constant()))}" for key in keys]
            return [f"{indent}t = {{{', '.join(items)}}}"]
        key = self._random.choice(scope.dicts["t"])
        if self._random.random() < 0.5:
            self._changed.append("t")
            return [f"{indent}t['{key}'] = {self._value(scope)}"]
        target = self._target(scope)
        self._bind(scope, target)
        return [f"{indent}{target} = t['{key}'] {self._random.choice('+-')} {self._constant()}"]

    def _string(self, scope: _Scope, depth: int, indent: str) -> list[str]:
        if not scope.texts:
            if indent != _INDENT:
                return self._assign(scope, depth, indent)
            scope.texts.append("w")
            return [f"{indent}w = '{''.join(self._random.choices('abcdefgh', k=3))}'"]
        name = self._random.choice(scope.texts)
        if self._random.random() < 0.3:
            target = self._target(scope)
            self._bind(scope, target)
            return [f"{indent}{target} = len({name})"]
        letter = self._random.choice("abcdefgh")
        self._changed.append(name)
        values = (f"{name} + '{letter}'", f"{name}[::-1]", f"{name}.upper()", f"{name}[1:] + '{letter}'")
        value = self._random.choice(values)
        return [f"{indent}{name} = {value}"]

    def _helper(self) -> list[str]:
        name = self._random.choice(_HELPERS)
        self._helpers.append(name)
        first = f"x * {self._random.randint(2, 3)}"
        second = f"x {self._random.choice('+-')} {self._constant()}"
        if self._has("branch") and self._random.random() < 0.5:
            test = f"{_INDENT}if x > {self._constant()}:"
            return [f"def {name}(x):", test, f"{_INDENT}{_INDENT}return {second}", f"{_INDENT}return {first}", "", ""]
        return [f"def {name}(x):", f"{_INDENT}return {self._random.choice((first, second))}", "", ""]

    def _result(self, scope: _Scope) -> str:
        """The name that was changed last, of those that are known at the end."""
        for name in reversed(self._changed):
            if name in scope.numbers or name in scope.lists or name in scope.texts:
                return name
            if name in scope.dicts:
                return f"{name}['{scope.dicts[name][0]}']"
        raise AssertionError("the parameters are always known")
