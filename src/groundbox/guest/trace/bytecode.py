"""Bytecode as the plan reads it: which instruction touches which name, and where inlined comprehensions are."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from .own import protect

protect(globals())

LOCAL, FREE, SPACE, GLOBAL = range(4)
"""Places where a name may live."""

STORES = {
    "STORE_FAST": LOCAL, "DELETE_FAST": LOCAL, "STORE_FAST_MAYBE_NULL": LOCAL, "STORE_DEREF": LOCAL,
    "DELETE_DEREF": LOCAL, "STORE_NAME": SPACE, "DELETE_NAME": SPACE, "STORE_GLOBAL": GLOBAL, "DELETE_GLOBAL": GLOBAL,
}  # fmt: skip
LOADS = {
    "LOAD_FAST": LOCAL, "LOAD_FAST_CHECK": LOCAL, "LOAD_DEREF": LOCAL, "LOAD_CLASSDEREF": LOCAL,
    "LOAD_FROM_DICT_OR_DEREF": LOCAL, "LOAD_CLOSURE": LOCAL, "LOAD_NAME": SPACE, "LOAD_GLOBAL": GLOBAL,
    "LOAD_FROM_DICT_OR_GLOBALS": GLOBAL,
}  # fmt: skip
PAIRS = {
    "LOAD_FAST_LOAD_FAST": (False, False),
    "STORE_FAST_LOAD_FAST": (True, False),
    "STORE_FAST_STORE_FAST": (True, True),
}
"""Two instructions made one from 3.13 on (superinstructions), and which of the two stores."""
_CACHE, _EXTENDED_ARG = dis.opmap["CACHE"], dis.opmap["EXTENDED_ARG"]

Position = tuple[Any, Any, Any, Any]
"""First line, last line, first column, column behind the last; columns in bytes of UTF-8, from 0. Instructions that the
compiler adds have None for some of them."""


Scope = tuple[str, int]
"""Name and first line of a code object; of the module, the line 1."""


class Instruction(NamedTuple):
    """Instruction with its whole argument, which EXTENDED_ARGs before it are part of."""

    offset: int
    opname: str
    arg: int
    after: int
    """The offset behind it and its inline caches."""
    position: Position

    @property
    def target(self) -> int:
        """Offset to which a jump goes."""
        return self.after - 2 * self.arg if "BACKWARD" in self.opname else self.after + 2 * self.arg


class Use(NamedTuple):
    """Use of a name by an instruction."""

    name: str
    where: int
    """LOCAL for cells of outer functions, too."""
    stores: bool


def instructions(code: types.CodeType) -> list[Instruction]:
    """Return the instructions of a code object, without what else `dis` finds out."""
    content, positions = code.co_code, list(code.co_positions())
    # Inline caches stand behind their instruction, and are none themselves.
    offsets = [offset for offset in range(0, len(content), 2) if content[offset] != _CACHE]
    found = []
    more = 0
    for offset, after in zip(offsets, [*offsets[1:], len(content)], strict=True):
        op, arg = content[offset], content[offset + 1] | more
        found.append(Instruction(offset, dis.opname[op], arg, after, positions[offset // 2]))
        # EXTENDED_ARG holds the higher bytes of the argument of the instruction behind it; up to three may stand in a
        # row.
        more = arg << 8 if op == _EXTENDED_ARG else 0
    return found


def uses(code: types.CodeType, instruction: Instruction) -> list[Use]:
    """Return the uses of names by an instruction of `code`, in their order."""
    name, arg = instruction.opname, instruction.arg
    if name in PAIRS:
        first, second = PAIRS[name]  # a variable in each half byte of the argument
        return [Use(variable(code, arg >> 4), LOCAL, first), Use(variable(code, arg & 15), LOCAL, second)]
    stores = name in STORES
    where = STORES[name] if stores else LOADS.get(name)
    if where is None:
        return []
    if where == LOCAL:
        return [Use(variable(code, arg), LOCAL, stores)]
    # From 3.11 on the lowest bit says that a NULL is pushed, too.
    return [Use(code.co_names[arg >> 1 if name == "LOAD_GLOBAL" else arg], where, stores)]


def variable(code: types.CodeType, place: int) -> str:
    """Return the name of a local variable or cell by the argument of an instruction."""
    return code._varname_from_oparg(place)  # type: ignore[attr-defined,no-any-return]


def scope_of(code: types.CodeType) -> Scope:
    """Return the scope that a code object is known by."""
    # A module is kept under line 1, whatever line its code object says.
    return code.co_name, 1 if code.co_name == "<module>" else code.co_firstlineno


def inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code objects right inside one."""
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def lines_by_offset(code: types.CodeType) -> dict[int, int | None]:
    """Return the line of each instruction, None for those that the compiler added without one."""
    return {offset: line for start, end, line in code.co_lines() for offset in range(start, end, 2)}


def rebinds(code: types.CodeType, name: str) -> bool:
    """Return whether `code`, or code inside it, stores the outer variable `name`."""
    if name not in code.co_freevars:
        return False
    stores = ("STORE_DEREF", "DELETE_DEREF")
    if any(i.opname in stores and variable(code, i.arg) == name for i in instructions(code)):
        return True
    return any(rebinds(inner, name) for inner in inner_codes(code))


def comprehension_variables(code: types.CodeType, instructions: list[Instruction]) -> dict[int, set[str]]:
    """Return by offset the names that are variables of the inlined comprehension there, and not of the frame.

    The offsets are those of inlined comprehensions (3.12 and later), outermost ones only.
    """
    found: dict[int, set[str]] = {}
    rest = iter(instructions)
    for instruction in rest:
        # PEP 709: an inlined comprehension first saves what its variables' places hold, by this instruction for each of
        # them, which nothing else uses.
        if instruction.opname == "LOAD_FAST_AND_CLEAR":
            names = {variable(code, instruction.arg)}
            end = _end_of_region(code, rest, names)
            found |= dict.fromkeys(range(instruction.offset, end + 2, 2), names)
    return found


def _end_of_region(code: types.CodeType, rest: Iterator[Instruction], names: set[str]) -> int:
    """Read up to the instruction that ends the outermost loop, and return its offset."""
    end, waiting = -1, 0
    for instruction in rest:
        if instruction.opname == "LOAD_FAST_AND_CLEAR":
            names.add(variable(code, instruction.arg))
        # The first loop is the outermost, and is over where its FOR_ITER jumps to; an `async for` has no such jump, and
        # ends with END_ASYNC_FOR.
        elif instruction.opname == "FOR_ITER" and end < 0 and not waiting:
            end = instruction.target
        elif instruction.opname == "GET_ANEXT":
            waiting += 1
        elif instruction.opname == "END_ASYNC_FOR":
            waiting -= 1
            end = instruction.offset if end < 0 and not waiting else end
        if instruction.offset == end:
            break
    return end


def restored_variables(code: types.CodeType, instructions: list[Instruction]) -> set[tuple[str, Position]]:
    """Return the variables of inlined comprehensions, each with the place of the stores that restore it."""
    # They stand behind the comprehension's last instruction, or in its handler, and have its columns as nothing else
    # has.
    return {(variable(code, i.arg), i.position) for i in instructions if i.opname == "LOAD_FAST_AND_CLEAR"}


def expression_loop(instructions: list[Instruction], line_at: dict[int, int | None]) -> tuple[int, int, int] | None:
    """Return the line that a generator expression comes to once for each item, its first line and its last, or None.

    On one line that is this line, for all its `for`s. Else it is the line of the first target, if nothing else of the
    expression is on it: where `FOR_ITER` stands is another line in every version.
    """
    takes = next((place for place, i in enumerate(instructions) if i.opname == "FOR_ITER"), None)
    lines = [line for line in line_at.values() if line is not None]
    if takes is None:
        return None
    if min(lines) == max(lines):
        return lines[0], lines[0], lines[0]
    ends = instructions[takes].target
    # The instruction behind FOR_ITER stores the first target.
    header = line_at[instructions[takes + 1].offset]
    here = [place for place, i in enumerate(instructions) if i.offset < ends and line_at[i.offset] == header]
    # All on that line stands in one row behind FOR_ITER, so that each item comes to it once.
    together = here[0] >= takes and here[-1] - here[0] + 1 == len(here)
    waits = any(instructions[place].opname == "YIELD_VALUE" for place in here)
    return (header, min(lines), max(lines)) if header is not None and together and not waits else None
