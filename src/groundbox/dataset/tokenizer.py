"""Lengths in tokens of a named tokenizer, from its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from groundbox.dataset import files
from groundbox.dataset.extra import need
from groundbox.errors import InvalidArgument


class Tokenizer(NamedTuple):
    """Counts the tokens of a text; the name stands beside every number."""

    name: str
    count: Callable[[str], int]


def from_file(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, as the library `tokenizers` writes it, named by file and digest.

    Raises:
        InvalidArgument: It is no such file.
        ExtraMissing: The library is not installed.
    """
    library = need("tokenizers", "to count tokens", install="tokenizers")
    try:
        tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises bare exceptions for whatever is wrong with the file.
        raise InvalidArgument("tokenizer", f"{path} cannot be read: {error}") from None
    name = f"{path.name} {files.digest(path)[:12]}"
    return Tokenizer(name, lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids))
