"""One fault, as a program that has it and one that does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Both programs run without an error over the same files.

    Attributes:
        expects: The code of the warning that the wrong program is to get, and the right one not.
    """

    name: str
    expects: str
    wrong: str
    right: str
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
