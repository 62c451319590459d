"""The calls of a run by the names that a text may give to what is called."""

from __future__ import annotations

from collections.abc import Sequence

from groundbox.trace.proof.records.course import Course
from groundbox.trace.proof.records.memory import Memory
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.things import Thing
from groundbox.trace.structure import Activation, Structure


class Calls:
    """The calls of one run, each row made when it is asked for."""

    def __init__(self, structure: Structure, course: Course, memory: Memory) -> None:
        self._structure = structure
        self._course = course
        self._memory = memory
        self._of: dict[str, Sequence[Activation]] = {}
        self._returns_of: dict[str, Sequence[Activation]] = {}

    def of(self, name: str) -> Sequence[Activation]:
        """Calls of what a text calls `name`, in order."""
        if name not in self._of:
            self._of[name] = [each for each in self._course.activations if is_called(each, name)]
        return self._of[name]

    def returns_of(self, name: str) -> Sequence[Activation]:
        """Those that returned, by when they did; for a class also the calls that made its instances."""
        if name not in self._returns_of:
            self._returns_of[name] = [each for each in self._course.returns if self.is_of(each, name)]
        return self._returns_of[name]

    def is_of(self, activation: Activation, name: str) -> bool:
        """Whether an activation is of the function or class that a text calls `name`."""
        return is_called(activation, name) or self._makes_by_base(activation, name)

    def _makes_by_base(self, activation: Activation, name: str) -> bool:
        """Whether it made an instance of a class that has no `__init__` of its own."""
        own = next(iter(activation.args.values()), None) if activation.name.endswith("__init__") else None
        caller = self._structure.activations.get(activation.parent)
        if own is None or (caller is not None and own in caller.args.values()):  # `super().__init__()`
            return False
        made = self._memory.read(own, activation.last)
        return isinstance(made, Thing) and made.kind == "object" and f".{made.name}".endswith(f".{name}")
