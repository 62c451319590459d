"""The variables of Python cells, as far as SQL reads and writes them: DataFrames."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from .result import Result

_MANY: Final = 200
"""Variables. A look at all would take longer than one at the tokens of a statement."""


class Variables:
    """Those of Python cells, as they are now. A DataFrame that nobody has looked at yet is made when somebody does."""

    def __init__(self, namespace: Callable[[], dict[str, Any]]) -> None:
        self._namespace = namespace
        self._owed: dict[str, Result] = {}

    def get(self, name: str) -> Any:
        """None where there is none."""
        if name in self._owed:
            self.settle()
        return self._namespace().get(name)

    def may_be_named(self, text: str) -> bool:
        """Whether one of the DataFrames could stand in a statement; True when it takes long to tell."""
        namespace = self._namespace()
        if len(namespace) > _MANY:
            return True
        frames = (name for name, value in list(namespace.items()) if is_frame(value))
        return any(not _is_plain(name) or name in text for name in (*self._owed, *frames))

    def frames_named(self, names: Sequence[str]) -> dict[str, Any]:
        """Those of these that mean a DataFrame."""
        values = ((name, self.get(name)) for name in names)
        return {name: value for name, value in values if is_frame(value)}

    def frames(self) -> dict[str, Any]:
        """The DataFrames that the program named itself, by their names."""
        self.settle()
        return {name: value for name, value in list(self._namespace().items()) if name[:1] != "_" and is_frame(value)}

    def is_free(self, name: str, given: Result | None) -> bool:
        """Whether the program has nothing of its own under a name, be it that it was `given` this."""
        namespace = self._namespace()
        if name in self._owed or name not in namespace:
            return True
        return given is not None and namespace[name] is given.frame

    def owe(self, names: Sequence[str], result: Result) -> None:
        """Let these names mean the frame of this from now on."""
        self._owed |= dict.fromkeys(names, result)

    def settle(self) -> None:
        """Make what is owed. Before a Python cell, which looks at its variables in ways of its own.

        Where that fails, as when a program has changed pandas, the names mean nothing, and the cell's stderr says so.
        """
        while self._owed:
            name, result = self._owed.popitem()
            self._namespace().pop(name, None)
            try:
                self._namespace()[name] = result.frame
            except Exception as error:
                print(f"{name}: the last SQL result could not be made a DataFrame: {error!r}", file=sys.stderr)


def is_frame(value: Any) -> bool:
    """Whether a query can read it as a table."""
    pandas: Any = sys.modules.get("pandas")
    return pandas is not None and issubclass(type(value), pandas.DataFrame)


def _is_plain(name: Any) -> bool:
    """Whether a name stands in statements as it is, with quotes or without."""
    return isinstance(name, str) and name.isidentifier()
