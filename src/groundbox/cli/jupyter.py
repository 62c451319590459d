"""`groundbox jupyter`: a kernel for notebooks, whose cells run in a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from groundbox.cli import own as own_options
from groundbox.cli import program as programs
from groundbox.cli.ending import ends_tidily, say
from groundbox.cli.options import Asked, check_host, naming_options, takes_sandbox
from groundbox.cli.own import takes_own
from groundbox.cli.program import Handed, takes_files
from groundbox.cli.results import check_folder, write
from groundbox.cli.terminal import one_line
from groundbox.errors import GroundboxError, GuestFileError, InvalidArgument
from groundbox.execution import Execution
from groundbox.sandbox import languages

_CELL_S: Final = "600"
"""Of a notebook's cell, as `groundbox.jupyter.kernel.WALL_S` says."""
_WHERE: Final = {"name": "--name", "file": "--connection-file"}
_OWN: Final = frozenset({"prefix", "sys_prefix", "user", "name", "display_name"})
"""Options of `install` that are not the kernel's."""


@click.group(name="jupyter")
def jupyter() -> None:
    """A kernel for JupyterLab, VS Code, nbclient and papermill, whose cells run in one sandbox.

    `install` tells Jupyter of it; from then on the launcher has it. The kernel itself needs the extra `jupyter`.
    """


class _Install(click.Command):
    """Keeps what was written, to write it into the kernelspec."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and keep texts as they are before they are converted."""
        ctx.meta["written"] = self.make_parser(ctx).parse_args(list(args))[0]
        return super().parse_args(ctx, args)


def _takes_kernel(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that a kernel is made with."""
    out = click.option("--out", type=Path, metavar="DIR", help="Where to write the files that cells made.")
    language = click.option("--language", default="python", show_default=True, metavar="L", help="Of every cell.")
    trust = click.option(
        "--trust-displays",
        is_flag=True,
        help="Hand HTML, JavaScript, SVG and widgets on as they are; scripts of cells then run in the notebook's page.",
    )
    for option in (takes_sandbox, takes_own, trust, out, takes_files, language):
        command = option(command)
    return command


def _takes_place(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where kernelspecs lie."""
    for option in (
        click.option("--name", metavar="NAME", help="Of the kernel; by default groundbox, or groundbox-LANGUAGE."),
        click.option("--prefix", type=Path, metavar="DIR", help="Below DIR/share/jupyter."),
        click.option("--sys-prefix", is_flag=True, help="Beside this Python, as in a venv with Jupyter."),
        click.option("--user", is_flag=True, help="For this user; the default."),
    ):
        command = option(command)
    return command


_DEFAULTS: Final = {"default_map": {"wall_s": _CELL_S, "cpu_s": _CELL_S}}


@jupyter.command(cls=_Install, context_settings=_DEFAULTS)
@_takes_place
@click.option("--display-name", metavar="TEXT", help="What launchers show.")
@_takes_kernel
@ends_tidily
def install(
    name: str | None,
    prefix: Path | None,
    language: str,
    files: tuple[str, ...],
    out: Path | None,
    own: tuple[str, ...],
    asked: Asked,
    display_name: str | None,
    *,
    trust_displays: bool,
    sys_prefix: bool,
    user: bool,
) -> int:
    """Writes a kernelspec: a file that tells Jupyter how to start this kernel.

    Options of the sandbox hold for every kernel that is started by it. Files of `--file` are copied into its sandbox
    at each start; the notebook's own folder is not there.
    """
    from groundbox.jupyter import kernelspec

    _check_installed()
    with naming_options():
        language = languages.named(language)
        own_options.databases(own_options.read(own, language))
        handed = [programs.hand_over(each, most_bytes=asked.limits.disk_bytes) for each in files]
    if out is not None and (problem := check_folder(out)):
        raise programs.bad("--out", problem)
    options = _written(click.get_current_context(), handed, out)
    spec = kernelspec.spec_of(language, kernelspec.command(options), display_name or kernelspec.title_of(language))
    folder = _folder(prefix, sys_prefix=sys_prefix, user=user)
    with _naming():
        path = kernelspec.install(folder, name or _name_of(language), spec)
    print(path)
    return 0


@jupyter.command()
@_takes_place
@click.option("--language", default="python", show_default=True, metavar="L", help="Whose kernel, without --name.")
@ends_tidily
def remove(name: str | None, prefix: Path | None, language: str, *, sys_prefix: bool, user: bool) -> int:
    """Removes a kernelspec that `install` wrote; kernels that run go on."""
    from groundbox.jupyter import kernelspec

    with naming_options():
        language = languages.named(language)
    with _naming():
        print(kernelspec.remove(_folder(prefix, sys_prefix=sys_prefix, user=user), name or _name_of(language)))
    return 0


@jupyter.command(context_settings=_DEFAULTS)
@click.option(
    "-f", "--connection-file", "connection", type=Path, required=True, metavar="FILE", help="Written by Jupyter."
)
@_takes_kernel
@ends_tidily
def kernel(
    connection: Path,
    language: str,
    files: tuple[str, ...],
    out: Path | None,
    own: tuple[str, ...],
    asked: Asked,
    *,
    trust_displays: bool,
) -> int:
    """Runs a kernel: Jupyter starts this by itself, with a file that holds ports and a key.

    SIGINT interrupts the cell. The kernel and its sandbox end by SIGTERM, by a client that asks for it, or with the
    process that started it.
    """
    _check_installed()
    language = languages.named(language)
    with naming_options():
        chosen = own_options.read(own, language)
        databases = own_options.databases(chosen)
        handed = [programs.hand_over(each, most_bytes=asked.limits.disk_bytes) for each in files]
    if out is not None and (problem := check_folder(out)):
        raise programs.bad("--out", problem)
    check_host(asked)
    _log()
    with _naming():
        asyncio.run(_serve(connection, language, handed, out, chosen, databases, asked, trusts_displays=trust_displays))
    return 0


async def _serve(
    path: Path,
    language: str,
    handed: Sequence[Handed],
    out: Path | None,
    chosen: dict[str, Any],
    databases: dict[str, Any],
    asked: Asked,
    *,
    trusts_displays: bool,
) -> None:
    from groundbox.jupyter.kernel import Stdin
    from groundbox.jupyter.zeromq import ASKING, OwnKernel, Sockets, ending_signals, read_connection
    from groundbox.sandbox import environments
    from groundbox.sandbox.sandbox import AsyncSandbox

    connection = read_connection(path)
    is_python = language == "python"
    stdin = Stdin(ASKING) if is_python else None
    version = ".".join(map(str, environments.get(asked.environment).python_version)) if is_python else ""
    options: dict[str, Any] = {"databases": databases, "restart": "auto", **vars(asked)}
    if stdin is not None:
        options |= {"tools": stdin.tools, "profile": "science"}
    async with AsyncSandbox(**options) as box:
        for each in handed:
            try:
                await box.files.put(each.host, each.guest)
            except GuestFileError as error:
                raise programs.bad("--file", str(error)) from None
        sockets = Sockets(connection)
        try:
            served = OwnKernel(
                box,
                sockets,
                language,
                version=version,
                stdin=stdin,
                options=chosen,
                after=None if out is None else _Keeper(out),
                trusts_displays=trusts_displays,
            )
            with ending_signals(served):
                await served.serve()
        finally:
            sockets.close()


class _Keeper:
    """Writes the files that each cell made into a folder; what could not be written is told in the log."""

    def __init__(self, out: Path) -> None:
        self._out = out

    async def __call__(self, execution: Execution) -> None:
        if not execution.artifacts:
            return
        try:
            written = await asyncio.to_thread(write, execution, self._out, shown=False)
        except GroundboxError as error:
            say(str(error))
            return
        for name, why in written.problems.items():
            say(f"{one_line(name)} is not written: {one_line(why)}")


def _written(ctx: click.Context, handed: Sequence[Handed], out: Path | None) -> list[str]:
    """The kernel's options as they were given to `install`, with paths that hold wherever a kernel is started."""
    given = {name: value for name, value in ctx.meta["written"].items() if name not in _OWN and value not in (None, ())}
    given.pop("help", None)
    words: list[str] = []
    for param in ctx.command.params:
        if param.name not in given or not isinstance(param, click.Option):
            continue
        value = given[param.name]
        if param.name == "files":
            value = [
                f"{each.host.resolve()}:{each.guest}" if each.guest else str(each.host.absolute()) for each in handed
            ]
        elif param.name == "out" and out is not None:
            value = str(out.absolute())
        if param.is_flag:
            words.append(param.opts[-1])
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            words += [param.opts[-1], str(each)]
    return words


def _folder(prefix: Path | None, *, sys_prefix: bool, user: bool) -> Path:
    from groundbox.jupyter import kernelspec

    if sum((prefix is not None, sys_prefix, user)) > 1:
        raise click.UsageError("--user, --sys-prefix and --prefix say different places; name one")
    return kernelspec.folder_of(Path(sys.prefix) if sys_prefix else prefix)


def _name_of(language: str) -> str:
    return "groundbox" if language == "python" else f"groundbox-{language}"


@contextlib.contextmanager
def _naming() -> Iterator[None]:
    """Turn complaints about a name or a connection file into those about the option."""
    try:
        yield
    except InvalidArgument as error:
        if error.argument not in _WHERE:
            raise
        raise programs.bad(_WHERE[error.argument], error.problem) from None


def _check_installed() -> None:
    try:
        importlib.import_module("zmq")
    except ModuleNotFoundError:
        raise click.UsageError("this command needs pyzmq: the extra `jupyter` of groundbox brings it") from None


def _log() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("groundbox: %(levelname)s: %(message)s"))
    logger = logging.getLogger("groundbox")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
