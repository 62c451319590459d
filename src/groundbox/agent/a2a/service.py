"""How much a served agent takes in, gives out and keeps, beside the bounds of each question."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from groundbox.errors import InvalidArgument

_MIB: Final = 1024 * 1024


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """Reached: what would go over it is refused or left out, and it is said.

    Attributes:
        max_at_once: Questions that are worked on at the same time, each in a sandbox of its own; one more is rejected.
        max_request_bytes: Of a request as it comes over HTTP; files in it are a third larger than on a disk.
        request_s: Seconds in which all of it has come.
        max_connections: From everyone together; one more is answered with status 503.
        max_question_bytes: Of its text.
        max_files: In one message.
        max_answer_bytes: Pictures and files of one answer together.
        max_kept_bytes: Tasks that have ended and can be asked for; the oldest go first.
    """

    max_at_once: int = 4
    max_request_bytes: int = 16 * _MIB
    request_s: float = 60.0
    max_connections: int = 32
    max_question_bytes: int = 64 * 1024
    max_files: int = 32
    max_answer_bytes: int = 8 * _MIB
    max_kept_bytes: int = 128 * _MIB

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_s"):
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                    raise InvalidArgument(field.name, f"must be a number of seconds above 0, not {value!r}")
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidArgument(field.name, f"must be a whole number above 0, not {value!r}")
