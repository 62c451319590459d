"""Claims as data: sentences with what each of them claims, as a writer of any kind hands them over in JSON.

`SCHEMA_FILE` is the JSON Schema of it, as servers of models enforce it. Nothing in a document is believed: it is
decoded strictly and within bounds, and then held against the record (`verifying.py`), and its text against it
(`holding.py`).
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from groundbox.trace.claims.model import PUBLISHED, Kind

SCHEMA: Final = "groundbox.claims/1"
SCHEMA_FILE: Final = "claims.schema.json"
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of a document; a longer one is refused."""
MOST_SENTENCES: Final = 20_000
MOST_CLAIMS: Final = 50_000
"""Claims of a document that are held against the record; those after them are not found."""
MOST_CODE: Final = 20_000
"""Characters of a subject or a value that are read; a claim with a longer one is not found."""


class BadClaims(ValueError):
    """A document is none of claims; the message says where it is not."""


class ClaimData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Claim, as `claims.schema.json` describes it.

    Attributes:
        subject: Code: what is spoken of.
        value: A Python literal as text: what is said of it.
        step: The record that shows it, counted from 0; None where the writer does not know the record.
        quote: The words of the sentence that say it; the whole sentence where it is empty.
        at: The character of the sentence at which the quote begins, for writers that know it.
    """

    kind: Kind
    subject: str = ""
    value: str = ""
    step: int | None = None
    quote: str = ""
    at: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in PUBLISHED:
            raise ValueError(f"Invalid enum value {str(self.kind)!r}: it is read from words alone")

    def to_dict(self) -> dict[str, Any]:
        """The claim as JSON values; `subject` and `value` always stand there."""
        made: dict[str, Any] = {"kind": str(self.kind), "subject": "", "value": ""} | msgspec.to_builtins(self)
        return made


class SentenceData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sentence with its claims."""

    text: str
    claims: Sequence[ClaimData] = ()

    def to_dict(self) -> dict[str, Any]:
        """The sentence as JSON values."""
        return {"text": self.text, "claims": [claim.to_dict() for claim in self.claims]}


class ClaimsData(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, sentence by sentence.

    Attributes:
        order: `forward` for a text that says that it tells what happened in its order; then it is held to that, too.
    """

    sentences: Sequence[SentenceData]
    schema: str = SCHEMA
    order: Literal["forward", "free"] = "free"

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON values."""
        order = {} if self.order == "free" else {"order": self.order}
        return order | {"schema": self.schema, "sentences": [sentence.to_dict() for sentence in self.sentences]}

    @property
    def text(self) -> str:
        """The sentences with a space between them."""
        return " ".join(sentence.text for sentence in self.sentences)


def decode(document: ClaimsData | bytes | str | Mapping[str, Any]) -> ClaimsData:
    """A document of claims.

    Args:
        document: JSON text, or what is decoded from it.

    Raises:
        BadClaims: It is larger than `MOST_BYTES`, has more than `MOST_SENTENCES`, or is not of the schema.
    """
    if isinstance(document, ClaimsData):
        return document
    try:
        if isinstance(document, bytes | str):
            if len(document) > MOST_BYTES:
                raise BadClaims(f"claims of more than {MOST_BYTES:,} bytes are not read")
            found = msgspec.json.decode(document, type=ClaimsData)
        else:
            found = msgspec.convert(document, type=ClaimsData)
    except msgspec.MsgspecError as error:
        raise BadClaims(f"not a document of claims: {str(error)[:300]}") from None
    except (RecursionError, UnicodeError) as error:
        raise BadClaims(f"not a document of claims: {type(error).__name__}") from None
    if found.schema != SCHEMA:
        raise BadClaims(f"the schema is {found.schema[:60]!r}, and {SCHEMA!r} is read")
    if len(found.sentences) > MOST_SENTENCES:
        raise BadClaims(f"claims of more than {MOST_SENTENCES:,} sentences are not read")
    return found


@functools.cache
def schema_text() -> str:
    """The JSON Schema of a document of claims, as text."""
    return (importlib.resources.files(__package__) / SCHEMA_FILE).read_text("utf-8")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a document of claims."""
    made: dict[str, Any] = json.loads(schema_text())
    return made
