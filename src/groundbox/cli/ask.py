"""`groundbox ask`: a question, answered by running programs; or a recorded conversation, run again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import click

from groundbox.agent import page as pages
from groundbox.agent import transcript
from groundbox.agent.events import Ended, Ending, Event
from groundbox.agent.grounded import Content, GroundedAgent
from groundbox.agent.reply import MOST_BRANCHES
from groundbox.agent.turn import Bounds
from groundbox.cli import program as programs
from groundbox.cli.agents import (
    databases_named,
    files_given,
    model_of,
    recording_in,
    takes_databases,
    takes_files,
    takes_model,
    takes_turns,
)
from groundbox.cli.ending import ends_tidily
from groundbox.cli.interrupts import run_until_signal
from groundbox.cli.options import Asked, check_host, naming_options, takes_engine, takes_inputs, takes_sandbox
from groundbox.cli.results import check_folder, write_file
from groundbox.cli.telling import Telling
from groundbox.cli.terminal import one_line
from groundbox.cli.warm import makers
from groundbox.errors import GroundboxError, GuestFileError
from groundbox.sandbox.options import Rollback

_NO_ANSWER: Final = 1
_WE_FAILED: Final = 3
_NOT_SUPPORTED: Final = 4


@click.command()
@click.argument("question", required=False)
@takes_files
@takes_databases
@takes_model
@click.option(
    "--replay", type=Path, metavar="FILE", help="Take the model's turns from a recording; programs really run."
)
@click.option("--save", type=Path, metavar="FILE", help="Write the conversation with every receipt, as JSON Lines.")
@click.option("--html", "page", type=Path, metavar="FILE", help="Write the conversation as a page for people to read.")
@click.option("--out", type=Path, metavar="DIR", help="Where files and pictures go; by default a temporary folder.")
@takes_turns
@click.option(
    "--branches",
    type=click.IntRange(1, MOST_BRANCHES),
    metavar="N",
    help="Let the model try up to N programs side by side, each on a copy of variables and files.",
)
@click.option(
    "--rollback", is_flag=True, help="Go back to the state before a program that fails, its files too, at each failure."
)
@click.option("--strict", is_flag=True, help="Exit with 4 if the runs do not support the answer, and say so before it.")
@takes_sandbox
@takes_inputs
@takes_engine
@click.option(
    "--json", "as_json", is_flag=True, help="Each event as one JSON object on stdout, and nothing else there."
)
@ends_tidily
def ask(
    question: str | None,
    files: tuple[str, ...],
    databases: tuple[str, ...],
    model: str | None,
    endpoint: str | None,
    api_key_env: str | None,
    replay: Path | None,
    save: Path | None,
    page: Path | None,
    out: Path | None,
    max_turns: int,
    branches: int | None,
    rollback: bool,
    strict: bool,
    asked: Asked,
    *,
    no_engine: bool,
    as_json: bool,
) -> int:
    """Answers QUESTION by programs that a model writes and a sandbox runs, and shows every step.

    The answer goes to stdout, all else to stderr. What of the answer no run bears out is named below it.

    With --replay, the model's turns come from a recording, and its programs are run anew; where what they show differs
    from what was recorded, it says so. QUESTION and the files may then be left out, and --branches and --rollback are
    as they were then.

    Exits with 0 when there is an answer, 1 when there is none, 2 on bad usage, 3 when groundbox failed, and with
    --strict 4 when no run ended well, or a claim of the answer is not borne out by any run.
    """
    recording = recording_in(replay)
    if not (question or "").strip() and recording is None:
        raise click.UsageError("Missing argument 'QUESTION'; --replay FILE needs none.")
    for option, path in (("--save", save), ("--html", page), ("--out", out)):
        if path is not None and (problem := _problem(option, path)):
            raise programs.bad(option, problem)
    reached = databases_named(databases)
    given = files_given(files, recording, asked)
    speaker = model_of(model, recording, endpoint=endpoint, api_key_env=api_key_env)
    check_host(asked)
    if branches is None:
        branches = recording.branches if recording else 1
    back: Rollback | None = "on_error" if rollback else recording.rollback if recording else None
    made = makers(asked, {}, no_engine=no_engine or bool(reached))
    with naming_options():
        agent = GroundedAgent(
            speaker,
            bounds=Bounds(max_turns=max_turns),
            databases=reached,
            branches=branches,
            rollback=back,
            make_sandbox=made.asynchronous,
        )
    wanted = question if question and question.strip() else recording.question if recording else ""
    telling = Telling(out, recorded=recording.observations if recording else {}, as_json=as_json, strict=strict)
    first = transcript.header(
        wanted,
        recording.model if recording else speaker.name,
        _contents(given),
        sorted(reached),
        branches=branches,
        rollback=back,
    )
    who = f"a recording, whose model was: {recording.model}" if recording else speaker.name
    telling.question(wanted, who, given)
    events: list[Event] = []
    with _saving(save, first) as kept, _shown(page, lambda: pages.page(wanted, who, given, events)):
        try:
            with naming_options():
                ended = run_until_signal(_converse(agent.stream(wanted, files=given), telling, kept, events))
        except GuestFileError as error:
            raise programs.bad("--file", str(error)) from None
    if ended.ending in (Ending.MODEL, Ending.SANDBOX):
        return _WE_FAILED
    if ended.ending is not Ending.ANSWERED:
        return _NO_ANSWER
    return _NOT_SUPPORTED if strict and not ended.is_supported else 0


async def _converse(
    events: AsyncGenerator[Event, None], telling: Telling, kept: _Transcript | None, told: list[Event]
) -> Ended:
    last: Event | None = None
    async with contextlib.aclosing(events):
        async for event in events:
            last = event
            told.append(event)
            if kept is not None:
                kept.add(transcript.line(event))
            telling.event(event)
    assert isinstance(last, Ended)
    return last


def _contents(given: Mapping[str, Content]) -> dict[str, bytes]:
    """For the header of a transcript; a folder file by file."""
    contents: dict[str, bytes] = {}
    for path, content in given.items():
        if isinstance(content, Path) and content.is_dir():
            inside = [each for each in sorted(content.rglob("*")) if each.is_file() and not each.is_symlink()]
            contents.update({f"{path}/{each.relative_to(content).as_posix()}": each.read_bytes() for each in inside})
        elif isinstance(content, Path):
            contents[path] = content.read_bytes()
        elif isinstance(content, str):
            contents[path] = content.encode()
    return contents


def _problem(option: str, path: Path) -> str:
    if option == "--out":
        return check_folder(path)
    if path.is_dir():
        return f"{path} is a folder; give a file to write to"
    return "" if path.parent.is_dir() else f"there is no folder {path.parent}"


class _Transcript:
    """The conversation in a file, line by line as it goes; a line is there whole or not at all."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            GroundboxError: It cannot be written; the lines before it are kept.
        """
        whole, left = self._file.tell(), memoryview(json.dumps(line).encode() + b"\n")
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(whole)
            raise GroundboxError(f"--save: '{self._path}' cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def _saving(path: Path | None, first: Mapping[str, Any]) -> Iterator[_Transcript | None]:
    """The transcript with its first line, or None."""
    if path is None:
        yield None
        return
    try:
        file = cast("BinaryIO", path.open("wb", buffering=0))
    except OSError as error:
        raise programs.bad("--save", f"{path} cannot be written: {error.strerror}") from None
    with file:
        kept = _Transcript(path, file)
        kept.add(first)
        yield kept


@contextlib.contextmanager
def _shown(path: Path | None, made: Callable[[], str]) -> Iterator[None]:
    """The page, written however the conversation ends: one that is interrupted shows what there was."""
    if path is None:
        yield
        return
    there = path.exists()
    try:
        path.touch()
    except OSError as error:
        raise programs.bad("--html", f"{path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        try:
            write_file(path, made().encode(), "--html")
        except GroundboxError:
            if not there:
                path.unlink(missing_ok=True)  # what `touch` made
            raise
        click.echo(f"groundbox: wrote {one_line(str(path))}", err=True)
