"""`groundbox ask`: a question, answered by running programs; or a recorded conversation, run again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import click

from groundbox.agent import transcript
from groundbox.agent.events import Ended, Ending, Event
from groundbox.agent.grounded import Content, GroundedAgent
from groundbox.agent.messages import Model
from groundbox.agent.scripted import ScriptedModel
from groundbox.agent.transcript import Recording
from groundbox.agent.turn import Bounds
from groundbox.cli import program as programs
from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import Asked, naming_options, takes_sandbox
from groundbox.cli.results import check_folder
from groundbox.cli.telling import Telling
from groundbox.databases.database import SCHEMES, Database, named
from groundbox.errors import GuestFileError, InvalidArgument

_NO_ANSWER: Final = 1
_WE_FAILED: Final = 3
_NO_MODEL: Final = (
    "no model is named. Say --model PROVIDER:NAME, such as openai:gpt-5 or anthropic:claude-sonnet-4-5, or set "
    "GROUNDBOX_MODEL; the provider's key comes from its own variable, such as OPENAI_API_KEY or ANTHROPIC_API_KEY. "
    "Models need groundbox[agent] and the provider's own package (pip install 'groundbox[agent]' "
    "'pydantic-ai-slim[openai]'). --replay FILE runs a recorded conversation and needs none of these."
)


@click.command()
@click.argument("question", required=False)
@click.option(
    "--file", "files", multiple=True, metavar="HOST[:GUEST]", help="A file or folder to ask about; repeatable."
)
@click.option(
    "--db",
    "databases",
    multiple=True,
    metavar="NAME|URL",
    help="A database to ask about: a name of databases.toml, or a URL, which is then called `db`; repeatable.",
)
@click.option(
    "--model",
    metavar="PROVIDER:NAME",
    envvar="GROUNDBOX_MODEL",
    show_envvar=True,
    help="Who answers, such as openai:gpt-5; needs groundbox[agent] and the provider's key.",
)
@click.option(
    "--replay", type=Path, metavar="FILE", help="Take the model's turns from a recording; programs really run."
)
@click.option("--save", type=Path, metavar="FILE", help="Write the conversation with every receipt, as JSON Lines.")
@click.option("--out", type=Path, metavar="DIR", help="Where files and pictures go; by default a temporary folder.")
@click.option(
    "--max-turns",
    type=click.IntRange(min=1),
    default=Bounds().max_turns,
    show_default=True,
    metavar="N",
    help="Replies of the model.",
)
@takes_sandbox
@click.option(
    "--json", "as_json", is_flag=True, help="Each event as one JSON object on stdout, and nothing else there."
)
@ends_tidily
def ask(
    question: str | None,
    files: tuple[str, ...],
    databases: tuple[str, ...],
    model: str | None,
    replay: Path | None,
    save: Path | None,
    out: Path | None,
    max_turns: int,
    asked: Asked,
    *,
    as_json: bool,
) -> int:
    """Answers QUESTION by programs that a model writes and a sandbox runs, and shows every step.

    The answer goes to stdout, all else to stderr. What of the answer no run bears out is named below it.

    With --replay, the model's turns come from a recording, and its programs are run anew; where what they show differs
    from what was recorded, it says so. QUESTION and the files may then be left out.

    Exits with 0 when there is an answer, 1 when there is none, 2 on bad usage, 3 when groundbox failed.
    """
    recording = _recording(replay)
    if question is None and recording is None:
        raise click.UsageError("Missing argument 'QUESTION'; --replay FILE needs none.")
    for option, path in (("--save", save), ("--out", out)):
        if path is not None and (problem := _problem(option, path)):
            raise programs.bad(option, problem)
    reached = dict(_database(each) for each in databases)
    given = _files(files, recording, asked)
    speaker = _model(model, recording)
    with naming_options():
        agent = GroundedAgent(speaker, bounds=Bounds(max_turns=max_turns), databases=reached, **vars(asked))
    wanted = question or (recording.question if recording else "")
    telling = Telling(out, recorded=recording.observations if recording else {}, as_json=as_json)
    first = transcript.header(wanted, recording.model if recording else speaker.name, _contents(given), sorted(reached))
    telling.question(wanted, speaker.name, given)
    with _saving(save, first) as kept:
        try:
            ended = asyncio.run(_converse(agent.stream(wanted, files=given), telling, kept))
        except GuestFileError as error:
            raise programs.bad("--file", str(error)) from None
    if ended.ending in (Ending.MODEL, Ending.SANDBOX):
        return _WE_FAILED
    return 0 if ended.ending is Ending.ANSWERED else _NO_ANSWER


async def _converse(events: AsyncGenerator[Event, None], telling: Telling, kept: IO[str] | None) -> Ended:
    last: Event | None = None
    async with contextlib.aclosing(events):
        async for event in events:
            last = event
            if kept is not None:
                kept.write(json.dumps(transcript.line(event)) + "\n")
                kept.flush()
            telling.event(event)
    assert isinstance(last, Ended)
    return last


def _model(spec: str | None, recording: Recording | None) -> Model:
    if recording is not None:
        return ScriptedModel(recording.replies, name=f"recorded:{recording.model}")
    if not spec:
        raise click.UsageError(_NO_MODEL)
    try:
        from groundbox.agent.pydantic_ai.model import PydanticModel
    except ModuleNotFoundError as error:
        raise click.UsageError(f"--model needs {error.name}: pip install 'groundbox[agent]'") from None
    try:
        return PydanticModel(spec)
    except InvalidArgument as error:
        raise programs.bad("--model", error.problem) from None


def _recording(path: Path | None) -> Recording | None:
    if path is None:
        return None
    try:
        return transcript.read(path)
    except InvalidArgument as error:
        raise programs.bad("--replay", error.problem) from None


def _files(files: tuple[str, ...], recording: Recording | None, asked: Asked) -> dict[str, Content]:
    """What goes into the workdir: that of the recording, and over it that of the options."""
    given: dict[str, Content] = dict(recording.files) if recording else {}
    for each in files:
        handed = programs.hand_over(each, most_bytes=asked.limits.disk_bytes)
        given[handed.guest or handed.host.resolve().name] = handed.host
    if recording and (missing := [path for path in recording.missing if path not in given]):
        raise programs.bad("--file", f"the recording needs {missing[0]!r}, which is not in it; hand it over")
    return given


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


def _database(text: str) -> tuple[str, Any]:
    try:
        if "://" in text or text.partition(":")[0] in SCHEMES:
            return "db", Database(url=text)
        return text, named(text)
    except InvalidArgument as error:
        raise programs.bad("--db", error.problem if error.argument in ("name", "url") else str(error)) from None


def _problem(option: str, path: Path) -> str:
    if option == "--out":
        return check_folder(path)
    if path.is_dir():
        return f"{path} is a folder; give a file to write to"
    return "" if path.parent.is_dir() else f"there is no folder {path.parent}"


@contextlib.contextmanager
def _saving(path: Path | None, first: Mapping[str, Any]) -> Any:
    """The transcript, written line by line as the conversation goes."""
    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(first) + "\n")
        yield file
