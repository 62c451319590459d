"""Callbacks when a function starts and returns, on Python 3.11, which has no `sys.monitoring`.

A function gets a copy of its code with calls put in: one after its first RESUME, and one before each RETURN_VALUE.
The function object stays, and so do its name, signature, defaults and closure; the copy has the same names, lines,
columns and handlers of exceptions, so that tracebacks read as before. A callback is called without a frame of its own
between: it is a `functools.partial`, so that `sys._getframe(1)` in it is the function that started or returns.

`sys.settrace` and `sys.setprofile` would tell the same, and make every other line of the program slower.
Not covered: generators and coroutines, which return more than once; calls that run when the hooks are set or removed
finish with the code they began with.

Theory of operation. Instructions are two bytes, an opcode and an argument, with EXTENDED_ARG before an argument over
255 and inline caches behind some. Every jump of 3.11 is relative, so instructions are read into a list, jumps hold
the instruction they go to, and arguments are computed anew once all has its place. Lines and columns are a table of
runs of instructions (Objects/locations.md in CPython), handlers of exceptions a table of varints
(Objects/exception_handling_notes.txt); both are written anew for the new places.
"""

from __future__ import annotations

import dis
import functools
import importlib.util
import opcode
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

Started = Callable[[types.CodeType, int], None]
Returned = Callable[[types.CodeType, int, Any], None]

AVAILABLE: Final = importlib.util.MAGIC_NUMBER[:2] == (3495).to_bytes(2, "little")
"""Whether this interpreter has the bytecode of Python 3.11, which is all that this module can read."""

_SEVERAL_RETURNS: Final = 0x20 | 0x80 | 0x200  # flags of generators, coroutines and asynchronous generators
_STACK_OF_CALL: Final = 3
_MOST_UNITS: Final = 8  # of one entry in the table of locations
_NO_LOCATION: Final = 15
_LINE_ONLY: Final = 13
_LONG: Final = 14

Position = tuple[int | None, int | None, int | None, int | None]


class Hooks:
    """The functions that call back, until `remove`."""

    def __init__(self) -> None:
        self._changed: list[tuple[types.FunctionType, types.CodeType, types.CodeType]] = []

    def add(self, function: types.FunctionType, *, started: Started | None, returned: Returned) -> None:
        """Let calls of `function` from now on call back, with its own code, 0 and, at its end, what it returns.

        Raises:
            ValueError: It is a generator or a coroutine.
        """
        code = function.__code__
        on_start = None if started is None else functools.partial(started, code, 0)
        hooked = with_calls(code, on_start, functools.partial(returned, code, 0))
        function.__code__ = hooked
        self._changed.append((function, code, hooked))

    def remove(self) -> None:
        """Give every function its own code again, unless it has been given another one since."""
        for function, code, hooked in self._changed:
            if function.__code__ is hooked:
                function.__code__ = code
        self._changed.clear()


def with_calls(
    code: types.CodeType, on_start: Callable[[], Any] | None, on_return: Callable[[Any], Any]
) -> types.CodeType:
    """The same code, calling `on_start()` when it begins and `on_return(result)` before it returns."""
    if code.co_flags & _SEVERAL_RETURNS:
        raise ValueError(f"{code.co_name} is a generator or a coroutine")
    constants = [*code.co_consts, on_return, on_start]
    instructions, places = _read(code)
    begun = on_start is None
    laid: list[_Instruction] = []
    for instruction in instructions:
        if instruction.opcode == _RETURN_VALUE:
            # A jump to the return goes to the call before it.
            call = _call_with_top(len(code.co_consts), instruction.position)
            instruction.moved_to = call[0]
            laid += call
        laid.append(instruction)
        if not begun and instruction.opcode == _RESUME:
            laid += _call(len(code.co_consts) + 1, instruction.position)
            begun = True
    end = _place(laid)
    moved = {old: instruction.target.offset for old, instruction in places.items()}
    moved[len(code.co_code) // 2] = end
    return code.replace(
        co_code=b"".join(instruction.bytes() for instruction in laid),
        co_consts=tuple(constants),
        co_stacksize=code.co_stacksize + _STACK_OF_CALL,
        co_linetable=_locations(laid, code.co_firstlineno),
        co_exceptiontable=_handlers(code.co_exceptiontable, moved),
    )


_EXTENDED_ARG: Final = dis.opmap["EXTENDED_ARG"]
_RETURN_VALUE: Final = dis.opmap["RETURN_VALUE"]
_RESUME: Final = dis.opmap.get("RESUME", -1)
_CACHES: Final[Sequence[int]] = getattr(opcode, "_inline_cache_entries", ())
_BACKWARD: Final = {number for name, number in dis.opmap.items() if "JUMP_BACKWARD" in name}


class _Instruction:
    """One instruction with its EXTENDED_ARGs before it and its caches behind it; offsets are in units of two bytes."""

    def __init__(self, opcode: int, argument: int, position: Position) -> None:
        self.opcode, self.argument, self.position = opcode, argument, position
        self.offset = self._prefixes = 0
        self.jumps_to: _Instruction | None = None
        self.moved_to: _Instruction | None = None

    @property
    def target(self) -> _Instruction:
        """Where a jump to this one goes."""
        return self.moved_to or self

    @property
    def units(self) -> int:
        """How long it is; never less than it was before, so that placing comes to an end."""
        self._prefixes = max(self._prefixes, (self.argument.bit_length() - 1) // 8)
        return self._prefixes + 1 + _CACHES[self.opcode]

    def aim(self) -> None:
        """Compute a jump's argument from where both ends lie."""
        if self.jumps_to is not None:
            distance = self.jumps_to.target.offset - (self.offset + self.units)
            self.argument = -distance if self.opcode in _BACKWARD else distance

    def bytes(self) -> bytes:
        body = bytearray()
        for shift in range(8 * self._prefixes, 0, -8):
            body += bytes((_EXTENDED_ARG, self.argument >> shift & 0xFF))
        body += bytes((self.opcode, self.argument & 0xFF))
        return bytes(body) + bytes(2 * _CACHES[self.opcode])


def _read(code: types.CodeType) -> tuple[list[_Instruction], dict[int, _Instruction]]:
    """All instructions, and the same by their offset."""
    units, positions = code.co_code, list(code.co_positions())
    instructions: list[_Instruction] = []
    places: dict[int, _Instruction] = {}
    ends: dict[_Instruction, int] = {}
    at = begin = argument = 0
    while at < len(units) // 2:
        number, low = units[2 * at : 2 * at + 2]
        argument = argument << 8 | low
        at += 1
        if number == _EXTENDED_ARG:
            continue
        instruction = _Instruction(number, argument, positions[at - 1])
        at += _CACHES[number]
        instruction.offset = begin
        instructions.append(instruction)
        places[begin] = instruction
        ends[instruction] = at
        begin, argument = at, 0
    for instruction in instructions:
        if instruction.opcode in dis.hasjrel:
            distance = -instruction.argument if instruction.opcode in _BACKWARD else instruction.argument
            instruction.jumps_to = places[ends[instruction] + distance]
    return instructions, places


def _call(constant: int, position: Position) -> list[_Instruction]:
    """Call a constant, and drop what it gives."""
    return _assembled(position, ("PUSH_NULL", 0), ("LOAD_CONST", constant), ("PRECALL", 0), ("CALL", 0), ("POP_TOP", 0))


def _call_with_top(constant: int, position: Position) -> list[_Instruction]:
    """Call a constant with what lies on top of the stack, which stays there."""
    return _assembled(
        position,
        ("PUSH_NULL", 0),
        ("LOAD_CONST", constant),
        ("COPY", 3),
        ("PRECALL", 1),
        ("CALL", 1),
        ("POP_TOP", 0),
    )


def _assembled(position: Position, *words: tuple[str, int]) -> list[_Instruction]:
    return [_Instruction(dis.opmap[name], argument, position) for name, argument in words]


def _place(instructions: Sequence[_Instruction]) -> int:
    """Give every instruction its offset and every jump its argument; the length in units.

    A longer argument moves what is behind it, so that this is repeated until nothing moves.
    """
    while True:
        offset = 0
        for instruction in instructions:
            instruction.offset = offset
            offset += instruction.units
        before = [instruction.argument for instruction in instructions]
        for instruction in instructions:
            instruction.aim()
        if before == [instruction.argument for instruction in instructions]:
            return offset


def _locations(instructions: Iterable[_Instruction], first_line: int) -> bytes:
    """co_linetable, with an entry for each instruction, or more where it is longer than an entry can be."""
    table = bytearray()
    line = first_line
    for instruction in instructions:
        left = instruction.units
        while left:
            units = min(left, _MOST_UNITS)
            left -= units
            start, end, column, end_column = instruction.position
            if start is None:
                table.append(0x80 | _NO_LOCATION << 3 | units - 1)
                continue
            whole = end is not None and column is not None and end_column is not None
            table.append(0x80 | (_LONG if whole else _LINE_ONLY) << 3 | units - 1)
            delta, line = start - line, start
            table += _varint(-delta << 1 | 1 if delta < 0 else delta << 1)
            if end is not None and column is not None and end_column is not None:
                for number in (end - start, column + 1, end_column + 1):
                    table += _varint(number)
    return bytes(table)


def _varint(number: int) -> bytes:
    """Six bits a byte, the lowest first; 64 says that more follow."""
    out = bytearray()
    while number > 63:
        out.append(64 | number & 63)
        number >>= 6
    out.append(number)
    return bytes(out)


def _handlers(table: bytes, moved: Mapping[int, int]) -> bytes:
    """co_exceptiontable, for the new offsets."""
    out = bytearray()
    for start, length, target, depth in _entries(table):
        begin, end = moved[start], moved[start + length]
        for n, number in enumerate((begin, end - begin, moved[target], depth)):
            out += _big_endian(number, first=n == 0)
    return bytes(out)


def _entries(table: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Start, length, target, and depth with its flag; numbers of six bits a byte, the highest first."""
    numbers: list[int] = []
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:
            numbers.append(number)
            number = 0
    for n in range(0, len(numbers), 4):
        start, length, target, depth = numbers[n : n + 4]
        yield start, length, target, depth


def _big_endian(number: int, *, first: bool) -> bytes:
    """As the table of handlers has numbers; 128 marks the first of an entry."""
    digits = [number & 63]
    while number := number >> 6:
        digits.append(64 | number & 63)
    digits.reverse()
    digits[0] |= 128 if first else 0
    return bytes(digits)
