"""Values of which not all is known, and the error that says so."""

from __future__ import annotations

from typing import Any


class Unknown(Exception):
    """Something that is not known, because a trace does not show it, say; the message says what."""


class Handle:
    """A value that is not plain: an instance of a program's class, or one of which parts are not known.

    It can be told apart from others by its `label`, and whoever knows more of it answers in a subclass. Whatever would
    run the program's code raises Unknown.
    """

    __slots__ = ("label",)

    def __init__(self, label: int | None = None) -> None:
        self.label = label

    def attribute(self, name: str) -> Any:
        """Return an attribute of the instance.

        Raises:
            Unknown: It is not known.
        """
        raise Unknown(f"attribute {name} is not known")

    def length(self) -> int:
        """Count its items.

        Raises:
            Unknown: It is no built-in container, or its items are not known.
        """
        raise Unknown("its length is not known")

    def __getitem__(self, index: Any) -> Any:
        raise Unknown("its items are not known")

    def __bool__(self) -> bool:
        return self.length() > 0

    def _unknown(self, other: object = None) -> Any:
        raise Unknown("what the program's own classes would answer is not known")

    # Comparing, looking up and hashing would run methods of the program.
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _unknown
    __hash__ = _unknown


class DefaultDict(dict[Any, Any]):
    """A `defaultdict` whose default is not known; a missing key stays missing."""
