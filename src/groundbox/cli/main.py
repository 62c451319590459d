"""`groundbox`: finds the module of a command when the command is called, and turns errors into exit codes.

0 done, 1 the guest failed, 2 bad usage, 3 we failed.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from groundbox.cli.ending import give_up_output, say, tidy_end
from groundbox.errors import GroundboxError, InvalidArgument

# In the order of the help. A command's module and its object bear the command's name.
COMMANDS: Final = (
    "run",
    "repl",
    "ask",
    "trace",
    "prove",
    "dataset",
    "train",
    "eval",
    "serve",
    "gateway",
    "fleet",
    "engine",
    "mcp",
    "a2a",
    "jupyter",
    "languages",
    "environment",
    "doctor",
    "bench",
)

BAD_USAGE: Final = 2
WE_FAILED: Final = 3
INTERRUPTED: Final = 130
_HOST_IS_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EROFS)


def _is_there(name: str) -> bool:
    return importlib.util.find_spec(f"groundbox.cli.{name}") is not None


class _Commands(click.Group):
    """Imports a command's module when it is needed, so that `groundbox run` pays for no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(filter(_is_there, COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS or not _is_there(cmd_name):
            return None
        command: click.Command = getattr(importlib.import_module(f"groundbox.cli.{cmd_name}"), cmd_name)
        return command

    # Around both, since click has an answer of its own to an interrupt and to a reader that has gone.

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with tidy_end():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with tidy_end():
            return super().invoke(ctx)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="groundbox")
def root() -> None:
    """Runs code that a language model wrote, in a process tree that can reach nothing it was not given."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits."""
    os.umask(os.umask(0o077) & ~0o700)  # its own files and folders have to be usable for their owner
    _open_closed_streams()
    try:
        code = root.main(arguments, prog_name="groundbox", standalone_mode=False)
    except click.UsageError as error:
        from groundbox.cli.meaning import explained

        explained(error).show()
        sys.exit(BAD_USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_USAGE)
    except click.Abort:  # a question of click's own that was left by Ctrl-C
        say("interrupted")
        sys.exit(INTERRUPTED)
    except InvalidArgument as error:
        click.echo(f"groundbox: {error}", err=True)
        sys.exit(BAD_USAGE)
    except GroundboxError as error:
        click.echo(f"groundbox: {error}", err=True)
        sys.exit(WE_FAILED)
    except OSError as error:
        if _current_folder_is_gone():
            say("the current folder was removed, and a path was given relative to it; go to another folder")
            sys.exit(WE_FAILED)
        if error.errno not in _HOST_IS_FULL:
            _report_fault()
        if error.filename:
            say(f"'{error.filename}': {error.strerror}")
        elif _output_is_full():
            say(f"stdout cannot be written: {error.strerror}")
        else:
            say(f"{error.strerror}, in the folder for temporary files (TMPDIR) or that of groundbox (GROUNDBOX_HOME)")
        sys.exit(WE_FAILED)
    except Exception:
        _report_fault()
    sys.exit(code if isinstance(code, int) else 0)


def _current_folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _open_closed_streams() -> None:
    """Give streams that were closed at the start (`2>&-`) nowhere to go, rather than None and the next descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as the process


def _output_is_full() -> bool:
    """Whether stdout takes not even the end of a line; what it holds is given up then."""
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        give_up_output()
        return True
    return False


def _report_fault() -> NoReturn:
    """Tell of the exception that is handled, which is nobody's fault but ours."""
    traceback.print_exc()
    click.echo("groundbox: this is a fault of groundbox itself; please report it", err=True)
    sys.exit(WE_FAILED)  # Python's own status for this is 1, which would say that the guest failed
