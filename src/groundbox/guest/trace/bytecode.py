"""Bytecode as the plan reads it: which instruction touches which name, and where inlined comprehensions are."""

from __future__ import annotations

import dis
import opcode
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from .own import protect

protect(globals())

LOCAL, FREE, SPACE, GLOBAL = range(4)
"""Places where a name may live."""

STORES = {
    "STORE_FAST": LOCAL, "DELETE_FAST": LOCAL, "STORE_FAST_LOAD_FAST": LOCAL, "STORE_FAST_STORE_FAST": LOCAL,
    "STORE_FAST_MAYBE_NULL": LOCAL, "STORE_DEREF": LOCAL, "DELETE_DEREF": LOCAL,
    "STORE_NAME": SPACE, "DELETE_NAME": SPACE, "STORE_GLOBAL": GLOBAL, "DELETE_GLOBAL": GLOBAL,
}  # fmt: skip
LOADS = {
    "LOAD_FAST": LOCAL, "LOAD_FAST_CHECK": LOCAL, "LOAD_FAST_LOAD_FAST": LOCAL, "STORE_FAST_LOAD_FAST": LOCAL,
    "LOAD_DEREF": LOCAL, "LOAD_CLASSDEREF": LOCAL, "LOAD_FROM_DICT_OR_DEREF": LOCAL, "LOAD_CLOSURE": LOCAL,
    "LOAD_NAME": SPACE, "LOAD_GLOBAL": GLOBAL, "LOAD_FROM_DICT_OR_GLOBALS": GLOBAL,
}  # fmt: skip


class Instruction(NamedTuple):
    """Instruction of those that matter here. `argval` is what `dis` says, or None where nobody asks."""

    opname: str
    arg: int
    argval: Any
    offset: int


_NAMED = frozenset(
    ("LOAD_NAME", "STORE_NAME", "DELETE_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
)
# Two instructions made one from 3.13 on (superinstructions): the argument has a variable in each half byte.
_PAIRS = frozenset(("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"))
_OTHERS = (
    "LOAD_CONST", "RESUME", "RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "LOAD_FAST_AND_CLEAR", "FOR_ITER", "SEND",
    "END_FOR", "END_SEND", "CLEANUP_THROW", "GET_ANEXT", "END_ASYNC_FOR",
)  # fmt: skip
_MATTERS = [dis.opname[op] in {*STORES, *LOADS, *_OTHERS} for op in range(256)]
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
# By opcode until 3.12, by name from 3.13 on.
_entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
UNITS = [
    1 + (_entries.get(name, 0) if isinstance(_entries, dict) else _entries[op] if op < len(_entries) else 0)
    for op, name in enumerate(dis.opname)
]
"""By opcode: code units that an instruction has, with its caches."""
_FOR_ITER_BYTES = 2 * UNITS[dis.opmap["FOR_ITER"]]


def instructions(code: types.CodeType) -> list[Instruction]:
    """Return the instructions that touch names or end something, and constants, without what else `dis` finds out."""
    found = []
    more = 0
    content = code.co_code
    for offset in range(0, len(content), 2):
        op = content[offset]
        if _MATTERS[op]:
            arg = content[offset + 1] | more
            name = dis.opname[op]
            found.append(Instruction(name, arg, _argval(code, name, arg, offset), offset))
        # EXTENDED_ARG holds the higher bytes of the argument of the instruction behind it; up to three may stand in a
        # row.
        more = (content[offset + 1] | more) << 8 if op == _EXTENDED_ARG else 0
    return found


def _argval(code: types.CodeType, name: str, arg: int, offset: int) -> Any:
    if name == "LOAD_GLOBAL":
        return code.co_names[arg >> 1]  # from 3.11 on the lowest bit says that a NULL is pushed, too
    if name in _NAMED:
        return code.co_names[arg]
    if name in _PAIRS:
        return _variable(code, arg >> 4), _variable(code, arg & 15)
    if name in STORES or name in LOADS or name == "LOAD_FAST_AND_CLEAR":
        return _variable(code, arg)
    if name == "LOAD_CONST":
        return code.co_consts[arg]
    return offset + _FOR_ITER_BYTES + 2 * arg if name == "FOR_ITER" else None


def _variable(code: types.CodeType, place: int) -> str:
    return code._varname_from_oparg(place)  # type: ignore[attr-defined,no-any-return]


def inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code objects right inside one."""
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def lines_by_offset(code: types.CodeType) -> dict[int, int | None]:
    """Return the line of each instruction, None for those that the compiler added without one."""
    return {offset: line for start, end, line in code.co_lines() for offset in range(start, end, 2)}


def stores_at(opname: str, position: int) -> bool:
    """Return whether an instruction stores the name at this position of its argument; else it loads it."""
    if opname == "STORE_FAST_LOAD_FAST":
        return position == 0
    return opname in STORES


def rebinds(code: types.CodeType, name: str) -> bool:
    """Return whether `code`, or code inside it, stores the outer variable `name`."""
    if name not in code.co_freevars:
        return False
    stores = ("STORE_DEREF", "DELETE_DEREF")
    if any(i.opname in stores and i.argval == name for i in instructions(code)):
        return True
    return any(rebinds(inner, name) for inner in inner_codes(code))


def _regions(instructions: list[Instruction]) -> Iterator[tuple[int, int, set[str]]]:
    """Inlined comprehensions, outermost only: offsets of the first and last instruction, and their variables."""
    rest = iter(instructions)
    for instruction in rest:
        # PEP 709: an inlined comprehension first saves what its variables' places hold, by this instruction for each of
        # them, which nothing else uses.
        if instruction.opname == "LOAD_FAST_AND_CLEAR":
            names = {instruction.argval}
            yield instruction.offset, _end_of_region(rest, names), names


def _end_of_region(rest: Iterator[Instruction], names: set[str]) -> int:
    """Read up to the instruction that ends the outermost loop, and return its offset."""
    end, waiting = -1, 0
    for instruction in rest:
        if instruction.opname == "LOAD_FAST_AND_CLEAR":
            names.add(instruction.argval)
        # The first loop is the outermost, and is over where its FOR_ITER jumps to; an `async for` has no such jump, and
        # ends with END_ASYNC_FOR.
        elif instruction.opname == "FOR_ITER" and end < 0 and not waiting:
            end = instruction.argval
        elif instruction.opname == "GET_ANEXT":
            waiting += 1
        elif instruction.opname == "END_ASYNC_FOR":
            waiting -= 1
            end = instruction.offset if end < 0 and not waiting else end
        if instruction.offset == end:
            break
    return end


def inlined(instructions: list[Instruction]) -> frozenset[int]:
    """Return the offsets that belong to inlined comprehensions (3.12 and later)."""
    return frozenset(offset for start, end, _ in _regions(instructions) for offset in range(start, end + 2, 2))


def restored_variables(instructions: list[Instruction], positions: list[Any]) -> set[tuple[str, Any]]:
    """Return the variables of inlined comprehensions, each with the place of the stores that restore it."""
    # They stand behind the comprehension's last instruction, or in its handler, and have its columns as nothing else
    # has.
    return {(i.argval, positions[i.offset // 2]) for i in instructions if i.opname == "LOAD_FAST_AND_CLEAR"}


def comprehension_variables(instructions: list[Instruction]) -> dict[int, set[str]]:
    """Return by offset the names that are variables of the inlined comprehension there, and not of the frame."""
    return {offset: names for start, end, names in _regions(instructions) for offset in range(start, end + 2, 2)}


def expression_loop(code: types.CodeType, line_at: dict[int, int | None]) -> tuple[int, int, int] | None:
    """Return the line that a generator expression comes to once for each item, its first line and its last, or None.

    On one line that is this line, for all its `for`s. Else it is the line of the first target, if nothing else of the
    expression is on it: where `FOR_ITER` stands is another line in every version.
    """
    instructions = list(dis.get_instructions(code))
    takes = next((place for place, i in enumerate(instructions) if i.opname == "FOR_ITER"), None)
    lines = [line for line in line_at.values() if line is not None]
    if takes is None:
        return None
    if min(lines) == max(lines):
        return lines[0], lines[0], lines[0]
    ends = instructions[takes].argval
    # The instruction behind FOR_ITER stores the first target.
    header = line_at[instructions[takes + 1].offset]
    here = [place for place, i in enumerate(instructions) if i.offset < ends and line_at[i.offset] == header]
    # All on that line stands in one row behind FOR_ITER, so that each item comes to it once.
    together = here[0] >= takes and here[-1] - here[0] + 1 == len(here)
    waits = any(instructions[place].opname == "YIELD_VALUE" for place in here)
    return (header, min(lines), max(lines)) if header is not None and together and not waits else None
