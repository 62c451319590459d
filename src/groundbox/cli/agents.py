"""What `ask` and `a2a` share: the model that answers, the files it is given, and the databases it may ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from groundbox.agent import transcript
from groundbox.agent.grounded import Content
from groundbox.agent.messages import Model
from groundbox.agent.scripted import RecordedModel
from groundbox.agent.transcript import Recording
from groundbox.agent.turn import Bounds
from groundbox.cli import program as programs
from groundbox.cli.endpoints import LOCAL, Repeated, takes_endpoint, takes_key
from groundbox.cli.options import Asked
from groundbox.databases.database import SCHEMES, Database, named
from groundbox.errors import ExtraMissing, InvalidArgument

_SUCH_AS: Final = "openai:gpt-5 or anthropic:claude-sonnet-4-5"
_KEY: Final = re.compile(r"\bSet the `([A-Z][A-Z0-9_]*)` environment variable")
_NO_MODEL: Final = (
    f"no model is named. Say --model PROVIDER:NAME, such as {_SUCH_AS}, or set "
    "GROUNDBOX_MODEL; the provider's key comes from its own variable, such as OPENAI_API_KEY or ANTHROPIC_API_KEY. "
    "Models need the provider's own package (pip install 'pydantic-ai-slim[openai]'). "
    f"A model on this machine needs no key: --endpoint {LOCAL} --model NAME. "
    "--replay FILE runs a recorded conversation and needs none of these."
)

takes_files: Final[Callable[..., Any]] = click.option(
    "--file", "files", multiple=True, metavar="HOST[:GUEST]", help="A file or folder to ask about; repeatable."
)
takes_databases: Final[Callable[..., Any]] = click.option(
    "--db",
    "databases",
    multiple=True,
    metavar="NAME|URL",
    help="A database to ask about: a name of databases.toml, or a URL, which is then called `db`; repeatable.",
)
_model = click.option(
    "--model",
    metavar="NAME",
    envvar="GROUNDBOX_MODEL",
    show_envvar=True,
    help="Who answers, such as openai:gpt-5, with its provider's key; with --endpoint, its name there.",
)


def takes_model(command: Any) -> Any:
    """The options that name a model: `--model`, `--endpoint`, `--api-key-env`."""
    return _model(takes_endpoint(takes_key(command)))


takes_turns: Final[Callable[..., Any]] = click.option(
    "--max-turns",
    type=click.IntRange(min=1),
    default=Bounds().max_turns,
    show_default=True,
    metavar="N",
    help="Replies of the model.",
)


def model_of(
    spec: str | None, recording: Recording | None, *, endpoint: str | None = None, api_key_env: str | None = None
) -> Model:
    """The model of a recording, otherwise that of `--model`.

    Raises:
        click.UsageError: There is none, or it lacks its package or its key.
    """
    if recording is not None:
        return RecordedModel(recording.replies, name=f"recorded:{recording.model}")
    if endpoint:
        return _served(endpoint, spec, api_key_env)
    if api_key_env is not None:
        raise programs.bad("--api-key-env", "is the key of an --endpoint, and none is named")
    if not spec:
        raise click.UsageError(_NO_MODEL)
    try:
        from groundbox.agent.pydantic_ai.model import PydanticModel
    except ModuleNotFoundError as error:
        raise click.UsageError(f"--model needs {error.name}: the extra `agent` of groundbox brings it") from None
    try:
        return PydanticModel(spec)
    except InvalidArgument as error:
        raise programs.bad("--model", _model_problem(spec, error.problem)) from None


def _served(endpoint: str, name: str | None, api_key_env: str | None) -> Model:
    from groundbox.agent.served import ServedModel
    from groundbox.endpoint.chat import key_in

    if not name:
        raise click.UsageError(f"--endpoint {endpoint} needs --model NAME, as that endpoint knows it.")
    try:
        return ServedModel(endpoint, name, api_key=key_in(api_key_env), told=Repeated())
    except ExtraMissing as error:
        raise click.UsageError(str(error)) from None
    except InvalidArgument as error:
        option = error.argument if error.argument.startswith("--") else f"--{error.argument}"
        raise programs.bad(option, error.problem) from None


def _model_problem(spec: str, problem: str) -> str:
    """What a user of the command line does about it; pydantic-ai's own words are for those who write Python."""
    if key := _KEY.search(problem):
        return f"the key of {spec.partition(':')[0]} is not set. Say `export {key[1]}=…` with the one you have"
    if problem.startswith("Unknown model"):
        why = "names no provider" if ":" not in spec else "is of no provider that is known here"
        return f"{spec!r} {why}. Say PROVIDER:NAME, such as {_SUCH_AS}"
    return problem


def recording_in(path: Path | None) -> Recording | None:
    """The recording of `--replay`.

    Raises:
        click.BadParameter: It is none.
    """
    if path is None:
        return None
    if path.is_dir():
        raise programs.bad("--replay", f"{str(path)!r} is a folder; name a file in it")
    try:
        return transcript.read(path)
    except InvalidArgument as error:
        problem = f"{error.problem}. A recording is what `groundbox ask --save FILE` writes"
        raise programs.bad("--replay", problem) from None


def files_given(files: tuple[str, ...], recording: Recording | None, asked: Asked) -> dict[str, Content]:
    """What goes into the workdir: that of the recording, and over it that of the options.

    Raises:
        click.BadParameter: A file is not there, or the recording needs one more.
    """
    given: dict[str, Content] = dict(recording.files) if recording else {}
    for each in files:
        handed = programs.hand_over(each, most_bytes=asked.limits.disk_bytes)
        given[handed.guest or handed.host.resolve().name] = handed.host
    if recording and (missing := [path for path in recording.missing if path not in given]):
        raise programs.bad("--file", f"the recording needs {missing[0]!r}, which is not in it; hand it over")
    return given


def databases_named(databases: tuple[str, ...]) -> Mapping[str, Any]:
    """The databases of `--db`, by the names that the model uses.

    Raises:
        click.BadParameter: One is not known.
    """
    return dict(map(_database, databases))


def _database(text: str) -> tuple[str, Any]:
    try:
        if "://" in text or text.partition(":")[0] in SCHEMES:
            return "db", Database(url=text)
        return text, named(text)
    except InvalidArgument as error:
        raise programs.bad("--db", error.problem if error.argument in ("name", "url") else str(error)) from None
