"""Names: which values they were last told to have, and what is new.

A name is told when the text of its value is not the text last told for it. The value is held together with its text
if it is an atom, or is labelled and may be kept alive, so that the same object need not be written again.

What is global is last told for the whole program. What is `nonlocal` is told by the frame that stores it, and from
then on is last told for the variable of its owner: the nearest frame outside, on the chain of parents, whose code
object has the variable. So the owner does not tell it again, and if the variable belonged to another activation, both
tell it when they look at it next. Namespaces that are no dict (of a class body with `__prepare__`) are not looked at.
"""

from __future__ import annotations

import types
from typing import Any

from .bytecode import FREE, GLOBAL, LOCAL, SPACE
from .classes import ATOMS, FROZENSET, LEAF, METHOD, TUPLE, json_text
from .effects import NO_VALUE, has_value, is_dictionary, value_of
from .frames import Rest, State
from .memory import Memory
from .own import protect
from .plan import MODULE, Name
from .values import Values

protect(globals())

_UNHELD = object()
_SMALL = 2**53
_MOST_KEPT, _DEEPEST = 32, 3
_int_text = int.__repr__
_SCOPES = {LOCAL: "", SPACE: "", GLOBAL: ',"scope":"global"', FREE: ',"scope":"nonlocal"'}


class Names:
    """Tells names."""

    def __init__(self, values: Values, memory: Memory, *, holds: bool) -> None:
        self._values = values
        self._kinds = values.kinds
        self._parts = memory.parts
        self._holds = holds
        self.globals_told: dict[str, tuple[Any, str]] = {}

    def told(self, state: State, name: Name) -> dict[str, tuple[Any, str]]:
        """Where the last told value of a name is kept."""
        if name.where == GLOBAL:
            return self.globals_told
        if name.where == FREE:
            owner = state.code.owners.get(name.name)
            outside = state.parent
            while outside is not None:
                if outside.code.code is owner:
                    return outside.told
                outside = outside.parent
        return state.told

    def look(self, state: State, frame: types.FrameType | Rest, names: tuple[Name, ...]) -> None:
        """Tell those of `names` that have a new value, or none any more."""
        # The inner loop of the tracer: fast locals, and small integers, without a further call.
        space = frame.f_globals if state.code.kind == MODULE else frame.f_locals
        for name, where in names:
            if where == LOCAL:
                told = state.told
                value = space.get(name, NO_VALUE)
            else:
                told, value = self._outer(state, Name(name, where), frame, space)
            before = told.get(name)
            if before is not None and before[0] is value:
                continue
            cls = type(value)
            if cls is int and -_SMALL < value < _SMALL:
                text = _int_text(value)
                told[name] = (value, text)
            elif value is NO_VALUE:
                if before is not None:
                    del told[name]
                    self._parts.append(f'{{"k":"del","f":{state.f},"name":{json_text(name)}{_SCOPES[where]}}}\n')
                continue
            else:
                text = self._values.text(value)
                held = id(cls) in ATOMS or (self._holds and text.startswith('{"ref":'))
                told[name] = (value if held else _UNHELD, text)
            if before is None or before[1] != text:
                self._parts.append(f'{{"k":"set","f":{state.f},"name":{json_text(name)},"v":{text}{_SCOPES[where]}}}\n')

    def keep(self, state: State, frame: types.FrameType) -> Rest | None:
        """The variables of a generator that begins to wait, or None if one of them may not be held."""
        rest, space = Rest(frame), frame.f_locals
        for name in state.code.variables:
            if name.where == GLOBAL:
                continue
            value = space.get(name.name, NO_VALUE)
            if value is NO_VALUE or self.is_kept(value):
                rest.names.append(name)
                if value is not NO_VALUE:
                    rest.f_locals[name.name] = value
                continue
            told = self.told(state, name).get(name.name)
            if told is None or self._kinds.of(type(value)).kind != LEAF or told[1] != self._values.text(value):
                return None
        return rest

    def is_kept(self, value: Any, depth: int = 0) -> bool:
        """Whether nothing waits for the end of a value but what the trace holds anyway."""
        cls = type(value)
        if id(cls) in ATOMS:
            return True
        if cls is tuple:
            return len(value) <= _MOST_KEPT and depth < _DEEPEST and all(self.is_kept(v, depth + 1) for v in value)
        return self._kinds.of(cls).kind not in (LEAF, TUPLE, FROZENSET, METHOD)

    def _outer(
        self, state: State, name: Name, frame: types.FrameType | Rest, space: Any
    ) -> tuple[dict[str, tuple[Any, str]], Any]:
        """Of a name that is no local variable of a function: where its last told value is kept, and its value."""
        told = self.told(state, name)
        if name.where != SPACE or state.code.kind == MODULE:
            return told, value_of(name, frame, space)
        if not is_dictionary(space):
            return told, NO_VALUE
        return told, dict.get(space, name.name, NO_VALUE)

    def arguments(self, state: State, frame: types.FrameType) -> str:
        """The parameters as fields of JSON; they count as told."""
        space = frame.f_locals
        written = []
        for parameter in state.code.parameters:
            value = space.get(parameter, NO_VALUE)
            if has_value(value):
                text = self._values.text(value)
                held = id(type(value)) in ATOMS or (self._holds and text.startswith('{"ref":'))
                state.told[parameter] = (value if held else _UNHELD, text)
                written.append(f"{json_text(parameter)}:{text}")
        return ",".join(written)
