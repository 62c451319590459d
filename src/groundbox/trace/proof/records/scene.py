"""The names of one moment, as `evaluate` asks for them: variables, bare attributes, calls that were made there."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from groundbox.trace.proof.records.frames import MISSING, Frames
from groundbox.trace.proof.records.memory import Memory, equal
from groundbox.trace.proof.records.places import Place
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.things import Thing
from groundbox.trace.structure import Activation


class Scene:
    """The names of a moment, as `evaluate` asks for them."""

    def __init__(
        self, frames: Frames, memory: Memory, t: int, frame: int | None, calls: Sequence[Activation],
        places: Mapping[int, Place],
    ) -> None:  # fmt: skip
        self.frames = frames
        self.memory = memory
        self.t = t
        self.frame = frame
        self.calls = calls
        self.places = places

    def __call__(self, name: str) -> Any:
        value = self.frames.visible(name, self.t, self.frame)
        if value is MISSING:
            found = self._attribute(name)
            if found is MISSING and name in ("inf", "nan"):
                return float(name)
            if found is MISSING:
                raise Unknowable(f"{name} has no value")
            return found
        return self.memory.read(value, self.t)

    def _attribute(self, name: str) -> Any:
        """A bare attribute: `balance` for `self.balance`, where only one object can be meant."""
        label = self.frames.last_owner(name, self.t)
        if label is None:
            return MISSING
        owner = self.memory.read({"ref": label}, self.t)
        return owner.attrs.get(name, MISSING) if isinstance(owner, Thing) else MISSING

    def object(self, label: int) -> Any:
        """An object at this moment."""
        return self.memory.read({"ref": label}, self.t)

    def call(self, name: str, arguments: list[Any], receiver: Any = MISSING, *, node: ast.Call | None = None) -> Any:
        """What a call of the program's own function gave in this step.

        Args:
            receiver: The object whose method it is, where that is known.
            node: The call where the program writes it: its place tells which of several it is that gave other results.
        """
        of_name = [
            activation
            for activation in self.calls
            if is_called(activation, name)
            and activation.outcome == "return"
            and not activation.name.endswith("__init__")
        ]
        fitting = [activation for activation in of_name if self._is_given(activation, arguments, receiver)]
        given = [self.memory.read(activation.value, activation.last) for activation in fitting]
        if given and all(equal(given[0], other) for other in given[1:]):
            return given[0]
        place = self.places.get(id(node))
        if place is not None and place.total == len(of_name) and of_name[place.number] in fitting:
            return self.memory.read(of_name[place.number].value, of_name[place.number].last)
        raise Unknowable(f"a call of {name}")

    def _is_given(self, activation: Activation, arguments: list[Any], receiver: Any) -> bool:
        values = {key: self.memory.read(value, activation.first) for key, value in activation.args.items()}
        own = values.pop("self", MISSING)
        values.pop("cls", None)
        if isinstance(own, Thing) and isinstance(receiver, Thing) and own.label != receiver.label:
            return False
        return equal(list(values.values()), arguments)


def is_called(activation: Activation, name: str) -> bool:
    """Whether an activation is one of the function that a text calls `name`."""
    qualname = activation.short_name
    return qualname == name or qualname.endswith(("." + name, name + ".__init__"))
