"""Types of fields in requests, each with its largest length or count.

Lengths of texts are in characters, which is what JSON Schema counts too.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MiB: Final = 1024 * 1024
Word = Annotated[str, msgspec.Meta(max_length=200)]
"""A name of a language, a version, an id."""
Path = Annotated[str, msgspec.Meta(max_length=4096)]
"""A path in a sandbox, or the name of a file."""
Program = Annotated[str, msgspec.Meta(max_length=16 * MiB)]
"""A program, or its input."""
Content = Annotated[str, msgspec.Meta(max_length=128 * MiB)]
"""The content of a file, also in base64."""
Argument = Annotated[str, msgspec.Meta(max_length=131_071)]
"""An argument, or the value of a variable; Linux starts no program with a longer one."""
Arguments = Annotated[list[Argument], msgspec.Meta(max_length=1000)]
Variables = Annotated[dict[Word, Argument], msgspec.Meta(max_length=1000)]
"""Variables of the environment."""
