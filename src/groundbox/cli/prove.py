"""`groundbox prove`: a text about a run, held against its record."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from groundbox.cli import program as programs
from groundbox.cli.ending import ends_tidily
from groundbox.cli.results import write_file
from groundbox.cli.terminal import screens
from groundbox.cli.trace import read_made
from groundbox.trace.claims.data import MOST_BYTES, BadClaims, schema_text
from groundbox.trace.claims.model import Proof, Status
from groundbox.trace.claims.page import page as page_of
from groundbox.trace.claims.proving import MOST_TEXT
from groundbox.trace.claims.proving import prove as proven

_DOES_NOT_PASS: Final = 1
_MOST_BYTES: Final = 4 * MOST_TEXT
_path = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("textfile", metavar="TEXTFILE")
@click.option("--trace", "made", required=True, metavar="F", help="The recorded run: what trace --json wrote.")
@click.option("--claims", "claimed", metavar="F", help="JSON with the text's sentences and what each of them claims.")
@click.option(
    "--claims-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda *given: _print_schema(*given),
    help="Print the JSON Schema of --claims.",
)
@click.option("--answer", metavar="VALUE", help="The result that the text has to tell; by default that of the run.")
@click.option("--strict", is_flag=True, help="With --claims: word by word, as our narrator's tellings are held.")
@click.option("--html", "page", type=_path, metavar="F", help="Write a page with each sentence and its records.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_tidily
def prove(
    textfile: str, made: str, claimed: str | None, answer: str | None, strict: bool, page: Path | None, as_json: bool
) -> int:
    """Holds a text about a run against its record.

    TEXTFILE is English in UTF-8, by whomever; - for stdin.
    A text passes when it tells the result, nothing in it is refuted by a record,
    and each of its numbers stands in something that is borne out.
    With --claims, nothing is read from words: the claims are held against the record,
    and the text against its claims.

    Exits with 0 when it passes, 1 when it does not, 2 on bad usage, 3 when
    groundbox failed.
    """
    if page is not None and not page.absolute().parent.is_dir():
        raise programs.bad("--html", f"there is no folder '{page.absolute().parent}'; make it first")
    if strict and claimed is None:
        raise programs.bad("--strict", "it needs --claims")
    trace = read_made(made, "--trace")
    text = _read(textfile)
    wanted = {} if answer is None else {"answer": _value(answer)}
    try:
        proof = proven(text, trace, claims=None if claimed is None else _document(claimed), strict=strict, **wanted)
    except BadClaims as error:
        raise programs.bad("--claims", f"{claimed!r} is {error}; see --claims-schema") from None
    if page is not None:
        write_file(
            page, page_of(proof, trace, title=f"{Path(textfile).name} against {Path(made).name}").encode(), "--html"
        )
        click.echo(f"groundbox: wrote {page}", err=True)
    if as_json:
        print(json.dumps(proof.to_dict()))
    else:
        _tell(proof)
    return 0 if proof.passes else _DOES_NOT_PASS


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read(_MOST_BYTES + 1) if name == "-" else _bytes(name)
        text = data.decode()
    except UnicodeDecodeError as error:
        raise programs.bad("TEXTFILE", f"{name!r} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise programs.bad("TEXTFILE", f"{name!r} cannot be read: {error.strerror}") from None
    if len(text) > MOST_TEXT:
        raise programs.bad("TEXTFILE", f"{name!r} has more than {MOST_TEXT:,} characters; prove it in parts")
    return text


def _bytes(name: str, most: int = _MOST_BYTES) -> bytes:
    with open(name, "rb") as file:
        return file.read(most + 1)


def _document(name: str) -> bytes:
    try:
        return _bytes(name, MOST_BYTES)
    except OSError as error:
        raise programs.bad("--claims", f"{name!r} cannot be read: {error.strerror}") from None


def _print_schema(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        print(schema_text(), end="")
        context.exit()


def _value(shown: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(shown)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    raise programs.bad(
        "--answer", f"{shown[:60]!r} is neither JSON nor a Python literal; quote a text, as in '\"abc\"'"
    )


def _tell(proof: Proof) -> None:
    stdout = screens()[0]
    for verdict in proof.verdicts:
        if verdict.status is not Status.SUPPORTED:
            quote = " ".join(proof.text[verdict.claim.start : verdict.claim.end].split())
            stdout.say(f"{str(verdict.status).replace('_', ' ')}: “{quote}”: {verdict.message}")
    parts = sorted((*proof.numbers, *proof.words), key=lambda part: part.start)
    uncovered = [proof.text[part.start : part.end] for part in parts if not part.covered]
    if uncovered:
        stdout.say(f"borne out by nothing: {', '.join(uncovered[:20])}{' …' if len(uncovered) > 20 else ''}")
    for place in proof.gaps:
        stdout.say(f"before sentence {place + 1}: an update is left out")
    told = {True: "tells the result", False: "tells another result than the run's", None: "tells no result"}
    counts = ", ".join(f"{proof.count(status)} {str(status).replace('_', ' ')}" for status in Status)
    stdout.say(f"{'passes' if proof.passes else 'does not pass'}: {told[proof.answer]}; claims: {counts}")
