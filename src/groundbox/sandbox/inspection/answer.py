"""What a reader may say of a file: everything else it says is no answer."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

_Name = Annotated[str, msgspec.Meta(max_length=80)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Part(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A sheet or a table."""

    name: _Name
    rows: _Count | None = None
    columns: _Count | None = None
    hidden: bool | None = None


class Facts(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Of a file; docs/artifacts.md tells which kinds have which."""

    pages: _Count | None = None
    slides: _Count | None = None
    paragraphs: _Count | None = None
    words: _Count | None = None
    encrypted: bool | None = None
    width: _Count | None = None
    height: _Count | None = None
    rows: _Count | None = None
    columns: _Count | None = None
    column_names: Annotated[list[_Name], msgspec.Meta(max_length=50)] | None = None
    encoding: _Name | None = None
    items: _Count | None = None
    keys: _Count | None = None
    sheets: Annotated[list[Part], msgspec.Meta(max_length=50)] | None = None
    tables: Annotated[list[Part], msgspec.Meta(max_length=50)] | None = None
    left_out: _Count | None = None


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Of one reader; `problem` says why the file is not what it should be."""

    facts: Facts
    problem: str = ""


DECODER: Final = msgspec.json.Decoder(Answer)
