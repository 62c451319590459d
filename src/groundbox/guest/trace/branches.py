"""Branches of a program: its conditional jumps, and what each of their ways says of tests and iterations.

`Tests` finds in the syntax tree the *operands* that are tested: the parts between `and`, `or` and `not` of the
condition of an `if`, `while`, `assert`, conditional expression, `case` guard or generator expression's `if`; the
operands of an `and` or `or` whose value is used, but the last; and the types of `except` clauses. `branches_of` finds
for each conditional jump of a code object which operand it tests, by columns.

**Which operand.** From 3.12 on, the jump of a condition has the operand's columns. On 3.11 it has those of the
statement, and the jump of an `and` or `or` whose value is used has those of the whole on every version: there the
instruction before the jump, which made the value, has the operand's columns. That instruction is not the only one that
may have come before if the operand is an `and`, `or` or conditional expression of its own, whose ways meet in front of
the jump: then the operand is the one of the outer `and` or `or` that the instruction is in. Of a chained comparison,
all jumps but the last can only say that it is false. `not a in b` and `a not in b` are one instruction: whether it was
turned round is seen by its argument.

**Iterations.** A `for` begins one when FOR_ITER goes on to the next instruction; a `while`, when an operand decides
that its condition holds: which operand and outcome decide is known beforehand. A `while` whose condition is constant
has no jump at its head: an iteration begins at each line event of the head, the instruction that its jumps backward go
to. If an inner loop begins there, too, the jump says whose iteration it is (`Branches.sources`).

A loop can be entered once in an iteration of the loop around it, so an iteration sets the counts of inner loops to 0.

Left out: jumps that go to the next instruction either way; comprehensions, `match` patterns, `async for`.
"""

from __future__ import annotations

import ast
import dis
import sys
import types
from collections.abc import Set
from typing import Any, NamedTuple

from .bytecode import Instruction, Position, Scope, scope_of
from .own import protect
from .tree import first_line, walk

protect(globals())

MOST_TARGETS = 32
"""Of an item that is assigned to more names, none is told."""
NOTHING, TAKES, BEGINS, ENDS = range(4)
"""Meanings of a way for its loop: nothing; an item was taken, and its iteration begins with the body's first line; an
iteration begins; the loop is over."""

_JUMPS = frozenset(dis.opname[op] for op in dis.hasjrel)
# POP_JUMP_IF_…, on 3.11 with FORWARD or BACKWARD in it, and JUMP_IF_…_OR_POP there.
_CONDITIONAL = frozenset(name for name in _JUMPS if "JUMP_" in name and "_IF_" in name)
_BETWEEN = ("TO_BOOL", "COPY", "EXTENDED_ARG")  # between a value and its jump
_MERGED = ("STORE_FAST_LOAD_FAST", "LOAD_FAST_LOAD_FAST")
"""Loads that were made one with the instruction before them, and have its columns (3.13). No jump ends at the load, so
that it is of the first operand."""
_TELLS_OPERAND = sys.version_info >= (3, 12)
"""The columns of a jump that tests a condition are those of the operand."""
_NEGATED = (ast.NotIn, ast.IsNot)


class Way(NamedTuple):
    """Meaning of one of the two ways of a jump."""

    truth: bool | None
    """Of the operand; None if nothing is said."""
    does: int
    """To the branch's loop: NOTHING, TAKES, BEGINS or ENDS."""


class Branch(NamedTuple):
    """Conditional jump."""

    falls_to: int
    """The offset behind it: where it goes when it does not jump."""
    at: str
    """The operand's range, as in JSON; empty for FOR_ITER."""
    loop: int
    """Number of the code's loop that it is about, or -1."""
    falls: Way
    jumps: Way


class CountedLoop(NamedTuple):
    """A loop whose iterations are counted."""

    line: int
    header_last: int
    """The last line of its header."""
    inner: int
    """Number of loops inside it, in the same code: those that follow it."""
    targets: tuple[str, ...]
    """The names that an item is assigned to, if it is to nothing else."""


class Branches(NamedTuple):
    """All of one code object."""

    jumps: dict[int, Branch]
    """By the offset of the instruction."""
    loops: tuple[CountedLoop, ...]
    """Outer loops before inner ones."""
    heads: dict[int, tuple[int, ...]]
    """By offset: the loops without a test of which an iteration begins there, the outer one first."""
    back: dict[int, int]
    """By offset of a jump backward to a head: that head."""
    sources: dict[int, int]
    """Of these, those after which some of the head's loops go on within their iteration: how many."""


NONE = Branches({}, (), {}, {}, {})


class _Operand(NamedTuple):
    node: ast.expr
    is_handler: bool
    loop: int
    """The `while` whose condition it is part of, or -1."""
    if_true: bool | None
    if_false: bool | None
    """Outcome of that condition then, if that is decided."""
    around: int
    """The innermost loop that it is in the body or header of, or -1."""
    used: bool
    """Of an `and` or `or` whose value is used."""


class _LoopNode:
    def __init__(self, node: ast.For | ast.While, number: int, around: int, scope: Scope) -> None:
        self.node = node
        self.scope = scope
        self.number = number
        self.last = number
        """Number of the last loop inside it."""
        self.around = around
        header: ast.expr = node.test if isinstance(node, ast.While) else node.iter
        self.header_last = max(header.end_lineno or 0, node.lineno)
        self.tested = isinstance(node, ast.For)
        """It has a jump of its own, and not a constant condition."""


class Tests:
    """The operands and loops of a whole source."""

    def __init__(self, tree: ast.Module) -> None:
        self.operands: dict[Position, _Operand] = {}
        self.values: dict[Position, list[Position]] = {}
        """Of each `and` and `or` whose value is used: its operands but the last."""
        self.aliases: dict[Position, Position] = {}
        """Columns that an operand's value may have instead: of the name in `:=`, of the whole `except` clause."""
        self.loops: list[_LoopNode] = []
        self.iterables: dict[Position, int] = {}
        self.back: dict[Position, int] = {}
        """By the range of a jump backward (of the condition, the statement, a `continue`) the loop that goes on."""
        self.continues: set[Position] = set()
        self._tested: set[int] = set()
        self._scope: Scope = ("<module>", 1)
        todo: list[tuple[ast.AST, int, Scope]] = [(tree, -1, self._scope)]
        while todo:
            node, loop, self._scope = todo.pop()
            inside = self._read(node, loop)
            scope = self._scope
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                scope = node.name, first_line(node)
            todo += [(part, around, scope) for part, around in reversed(inside)]
        # A loop has a lower number than those in it, so each knows its last one before the loop around it asks.
        for each in reversed(self.loops):
            if each.around >= 0:
                around = self.loops[each.around]
                around.last = max(around.last, each.last)
        if sys.version_info < (3, 12):
            self._leave_out_formatted(tree)

    def _read(self, node: ast.AST, loop: int) -> list[tuple[ast.AST, int]]:
        """Take note of one node, and return those in it, each with the innermost loop around it."""
        # Their bodies are codes of their own, in no loop of this one.
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return [(part, -1) for part in ast.iter_child_nodes(node)]
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node, loop)
        if isinstance(node, (ast.If, ast.Assert, ast.IfExp)):
            if id(node) not in self._tested:
                self._test(node.test, loop, -1)
        elif isinstance(node, ast.GeneratorExp):
            for generator in node.generators:
                for test in generator.ifs:
                    # A generator expression is a code of its own, too.
                    self._test(test, -1, -1)
        elif isinstance(node, ast.match_case):
            if node.guard is not None:
                self._test(node.guard, loop, -1)
        elif isinstance(node, ast.ExceptHandler):
            if node.type is not None:
                self.operands[_range(node.type)] = _Operand(node.type, True, -1, None, None, loop, False)
                self.aliases[_range(node)] = _range(node.type)
        elif isinstance(node, ast.BoolOp):
            if id(node) not in self._tested:
                self._used(node, loop)
        elif isinstance(node, ast.Continue) and loop >= 0:
            self.back[_range(node)] = loop
            self.continues.add(_range(node))
        return [(part, loop) for part in ast.iter_child_nodes(node)]

    def _loop(self, node: ast.For | ast.While, around: int) -> list[tuple[ast.AST, int]]:
        number = len(self.loops)
        found = _LoopNode(node, number, around, self._scope)
        self.loops.append(found)
        inside: list[tuple[ast.AST, int]] = []
        if isinstance(node, ast.For):
            # FOR_ITER has the columns of the one or of the other.
            self.iterables[_range(node.iter)] = self.iterables[_range(node)] = number
            inside = [(node.target, around), (node.iter, around)]
        else:
            found.tested = self._test(node.test, around, number)
            self.back[_range(node.test)] = self.back[_range(node)] = number
            inside = [(node.test, around)]
        return [*inside, *((part, number) for part in node.body), *((part, around) for part in node.orelse)]

    def _test(self, test: ast.expr, around: int, loop: int) -> bool:
        """Take note of the operands of a condition, and return whether there are any."""
        todo: list[tuple[ast.expr, Any, Any]] = [(test, True, False)]
        some = False
        while todo:
            node, true, false = todo.pop()
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                todo.append((node.operand, false, true))
            elif isinstance(node, ast.BoolOp):
                # Its parts are told as operands of this condition, and not once more as a value that is used.
                self._tested.add(id(node))
                is_and = isinstance(node.op, ast.And)
                # From the last operand to the first: where one leaves it undecided, the next one follows. `a and b`
                # goes on to `b` where `a` is true, and is false where `a` is.
                then = true if is_and else false
                for value in reversed(node.values):
                    part = (value, then, false) if is_and else (value, true, then)
                    todo.append(part)
                    then = part
            elif isinstance(node, ast.IfExp):
                self._tested.add(id(node))
                parts = (node.body, true, false), (node.orelse, true, false)
                todo += [(node.test, *parts), *parts]
            elif not isinstance(node, ast.Constant):  # of which the compiler leaves the jump out
                some = True
                self._operand(node, _Operand(node, False, loop, _decided(true), _decided(false), around, False))
        return some

    def _operand(self, node: ast.expr, operand: _Operand) -> None:
        self.operands[_range(node)] = operand
        if isinstance(node, ast.NamedExpr):
            # `if (n := f()):` tests what it has just stored, by an instruction with the columns of the name.
            self.aliases[_range(node.target)] = _range(node)

    def _used(self, node: ast.BoolOp, around: int) -> None:
        ranges = self.values[_range(node)] = []
        # The last operand is the value itself: nothing jumps on it.
        for value in node.values[:-1]:
            plain = value
            if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not) and _is_turned(value.operand):
                plain = value.operand
            ranges.append(_range(plain))
            self._operand(plain, _Operand(plain, False, -1, None, None, around, True))

    def _leave_out_formatted(self, tree: ast.Module) -> None:
        """Forget operands in f-strings, whose columns are not to be relied on before 3.12 (PEP 701)."""
        for node in walk(tree):
            if isinstance(node, ast.JoinedStr):
                for part in walk(node):
                    if isinstance(part, ast.expr):
                        self.operands.pop(_range(part), None)


def branches_of(code: types.CodeType, instructions: list[Instruction], tests: Tests, hidden: Set[int]) -> Branches:
    """Read the conditional jumps of one code object.

    Args:
        hidden: Offsets that belong to inlined comprehensions, or to no line.
    """
    if not (tests.operands or tests.loops) or not any(each.opname in _JUMPS for each in instructions):
        return NONE
    return _Reader(code, instructions, tests, hidden).read()


class _Reader:
    def __init__(self, code: types.CodeType, instructions: list[Instruction], tests: Tests, hidden: Set[int]) -> None:
        self._tests = tests
        self._hidden = hidden
        self._scope = scope_of(code)
        self._instructions = instructions
        self._targets = {each.target for each in instructions if each.opname in _JUMPS}

    def read(self) -> Branches:
        found: dict[int, tuple[Instruction, Position | None, Way, Way, int]] = {}
        for place, each in enumerate(self._instructions):
            # A jump to the next instruction says nothing: both its ways are one, as of `if x: pass`.
            if each.offset in self._hidden or each.target == each.after:
                continue
            if each.opname == "FOR_ITER":
                number = self._tests.iterables.get(each.position, -1)
                if number >= 0:
                    takes = BEGINS if self._is_inline(number) else TAKES
                    found[each.offset] = each, None, Way(None, takes), Way(None, ENDS), number
            elif each.opname in _CONDITIONAL:
                told = self._tested(place)
                if told is not None:
                    found[each.offset] = each, *told
        # `tests` has the loops of the whole source; those that jumps of this code are about get numbers of its own.
        heads, back, sources = self._heads()
        used = {number for *_, number in found.values() if number >= 0}
        used.update(number for numbers in heads.values() for number in numbers)
        order = {number: place for place, number in enumerate(sorted(used))}
        jumps = {
            offset: Branch(each.after, _text(at), order.get(number, -1), falls, goes)
            for offset, (each, at, falls, goes, number) in found.items()
        }
        self._extend(jumps)
        return Branches(
            jumps,
            tuple(self._counted(number, order) for number in order),
            {offset: tuple(order[number] for number in numbers) for offset, numbers in heads.items()},
            back,
            sources,
        )

    def _extend(self, jumps: dict[int, Branch]) -> None:
        """Let a jump begin at the EXTENDED_ARGs before it, for those who see single instructions."""
        for place in range(len(self._instructions) - 1, 0, -1):
            each, before = self._instructions[place], self._instructions[place - 1]
            if each.offset in jumps and before.opname == "EXTENDED_ARG":
                jumps[before.offset] = jumps[each.offset]

    def _is_inline(self, number: int) -> bool:
        loop = self._tests.loops[number]
        return loop.node.body[0].lineno <= loop.header_last

    def _counted(self, number: int, order: dict[int, int]) -> CountedLoop:
        loop = self._tests.loops[number]
        inner = sum(number < other <= loop.last for other in order)
        targets = _target_names(loop.node.target) if isinstance(loop.node, ast.For) else ()
        return CountedLoop(loop.node.lineno, loop.header_last, inner, targets)

    def _tested(self, place: int) -> tuple[Position, Way, Way, int] | None:
        """Return the operand that a conditional jump tests, what its ways say, and the loop that they say it of."""
        jump = self._instructions[place]
        name = jump.opname
        made = place - 1
        while made >= 0 and self._instructions[made].opname in _BETWEEN:
            made -= 1
        value = self._instructions[made]
        at = self._operand_at(jump, value) if made >= 0 else None
        operand = self._tests.operands.get(at) if at is not None else None
        if operand is None or at is None:
            return None
        node, last = operand.node, True
        # `x is None` is one POP_JUMP_IF_NONE with the columns of the comparison; `except* E` asks so for the group that
        # it takes.
        if name.endswith("NONE"):
            truth = name.endswith("NOT_NONE")
            if not operand.is_handler:
                if not isinstance(node, ast.Compare) or len(node.ops) != 1:
                    return None
                truth = truth == isinstance(node.ops[0], ast.IsNot)
        else:
            truth = "TRUE" in name
            if isinstance(node, ast.Compare) and len(node.ops) > 1:
                if operand.used and jump.position not in self._tests.values:
                    return None
                # Of `a < b < c` each comparison but the last copies its right side first, for the next one.
                last = made == 0 or self._instructions[made - 1].opname != "COPY"
            elif isinstance(node, ast.Compare) and value.opname in ("IS_OP", "CONTAINS_OP"):
                # Their argument turns them round: 1 for `not in` and `is not`, and for `in` and `is` behind a `not`.
                truth = truth == (isinstance(node.ops[0], _NEGATED) == bool(value.arg))
        goes, falls = _way(operand, truth), _way(operand, not truth)
        if not last:
            # Where it holds so far, the chain goes on, and nothing is decided.
            goes, falls = (goes, Way(None, NOTHING)) if not truth else (Way(None, NOTHING), falls)
        return at, falls, goes, operand.loop

    def _operand_at(self, jump: Instruction, value: Instruction) -> Position | None:
        if None in (*jump.position, *value.position):
            return None
        if jump.opname.endswith("NONE"):
            return self._tests.aliases.get(jump.position, jump.position)
        parts = self._tests.values.get(jump.position)
        if parts is None:
            at = jump.position if _TELLS_OPERAND and jump.position in self._tests.operands else value.position
        elif value.opname in _MERGED:
            return parts[0]
        # Ways of an inner `and`, `or` or `if` meet here, so that the instruction before is only one of those that may
        # have made the value.
        elif any(offset in self._targets for offset in range(value.offset + 2, jump.offset + 2, 2)):
            return next((part for part in parts if _is_within(value.position, part)), None)
        else:
            at = value.position
        return self._tests.aliases.get(at, at)

    def _heads(self) -> tuple[dict[int, list[int]], dict[int, int], dict[int, int]]:
        loops, back = self._tests.loops, self._tests.back
        heads: dict[int, set[int]] = {}
        others: dict[int, set[int]] = {}
        jumps: dict[int, list[Instruction]] = {}
        for each in self._instructions:
            if each.opname not in _JUMPS or "BACKWARD" not in each.opname or None in each.position:
                continue
            jumps.setdefault(each.target, []).append(each)
            number = back.get(each.position, -1)
            # `while True`: a jump back to its head begins an iteration, as no test does.
            if number >= 0 and not loops[number].tested:
                (others if each.position in self._tests.continues else heads).setdefault(each.target, set()).add(number)
        for target, going in others.items():
            # A `continue` goes to the NOP of the header, if there is one, and falls from there to where the end goes.
            alone = {number for number in going if number not in heads.get(target + 2, ())}
            if alone:
                heads.setdefault(target, set()).update(alone)
        self._add_unrepeated({number for known in heads.values() for number in known}, heads)
        sources: dict[int, int] = {}
        found: dict[int, list[int]] = {}
        for head, unordered in heads.items():
            # Outer loops have lower numbers. `while True: while True: …` have one head.
            numbers = found[head] = sorted(unordered)
            for jump in jumps.get(head, ()):
                within = self._goes_on_within(jump, numbers)
                if within is None:
                    numbers.clear()
                elif within:
                    sources[jump.offset] = within
        found = {head: numbers for head, numbers in found.items() if numbers}
        return found, {jump.offset: head for head in found for jump in jumps.get(head, ())}, sources

    def _goes_on_within(self, jump: Instruction, numbers: list[int]) -> int | None:
        """Return how many of the loops of a head a jump to it leaves in their iteration; None if that is unclear."""
        # On 3.11 alone a conditional jump may go backward: `while True: if x: continue` is one then, with the columns
        # of `x`.
        if jump.opname in _CONDITIONAL:
            operand = self._tests.operands.get(jump.position)
            owner = operand.around if operand is not None else -1
            return 0 if len(numbers) == 1 and owner in (-1, numbers[0]) else None
        owner = self._tests.back.get(jump.position, -1)
        if owner < 0:
            return 0 if len(numbers) == 1 else None
        if owner in numbers:
            return numbers.index(owner)
        return sum(number < owner <= self._tests.loops[number].last for number in numbers)

    def _add_unrepeated(self, known: set[int], heads: dict[int, set[int]]) -> None:
        """Add heads of loops without a test that never go back: their only iteration begins where their body does."""
        waiting = [
            loop
            for loop in self._tests.loops
            if not loop.tested and loop.number not in known and loop.scope == self._scope
        ]
        for loop in waiting:
            first, last = loop.node.body[0], loop.node.body[-1]
            body = (first.lineno, last.end_lineno, first.col_offset, last.end_col_offset)
            offsets = [i.offset for i in self._instructions if _is_within(i.position, body)]
            # A body on the header's line has no line event of its own, at which its iteration could be told.
            if offsets and loop.node.lineno < first.lineno:
                heads.setdefault(min(offsets), set()).add(loop.number)


def _way(operand: _Operand, truth: bool) -> Way:
    decided = operand.if_true if truth else operand.if_false
    if operand.loop < 0 or decided is None:
        return Way(truth, NOTHING)
    return Way(truth, BEGINS if decided else ENDS)


def _decided(then: Any) -> bool | None:
    """Return what a condition is if it goes on there, or None where an operand comes next that is not constant."""
    while isinstance(then, tuple):
        node, true, false = then
        if not isinstance(node, ast.Constant):
            return None
        then = true if node.value else false
    return bool(then)


def _is_turned(node: ast.expr) -> bool:
    """Return whether the compiler makes a `not` before a comparison part of its operator."""
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.Is, *_NEGATED))


def _target_names(target: ast.expr) -> tuple[str, ...]:
    if isinstance(target, ast.Name):
        return (target.id,)
    if isinstance(target, (ast.Tuple, ast.List)):
        names = tuple(part.id for part in target.elts if isinstance(part, ast.Name))
        if len(names) == len(target.elts) <= MOST_TARGETS:
            return names
    return ()


def _range(node: ast.expr | ast.stmt | ast.ExceptHandler) -> Position:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _is_within(inner: Position, outer: Position) -> bool:
    return None not in inner and outer[::2] <= inner[::2] and inner[1::2] <= outer[1::2]


def _text(at: Position | None) -> str:
    return "" if at is None else ",".join(map(str, (*at[::2], *at[1::2])))
