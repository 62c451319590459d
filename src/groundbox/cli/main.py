"""`groundbox`: finds the module of a command when the command is called, and turns errors into exit codes.

0 done, 1 the guest failed, 2 bad usage, 3 we failed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from groundbox.errors import GroundboxError, InvalidArgument

# In the order of the help. A command's module and its object bear the command's name.
COMMANDS: Final = (
    "run",
    "repl",
    "ask",
    "trace",
    "dataset",
    "eval",
    "mcp",
    "a2a",
    "languages",
    "environment",
    "doctor",
    "bench",
)

BAD_USAGE: Final = 2
WE_FAILED: Final = 3
INTERRUPTED: Final = 130


class _Commands(click.Group):
    """Imports a command's module when it is needed, so that `groundbox run` pays for no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if importlib.util.find_spec(f"groundbox.cli.{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = getattr(importlib.import_module(f"groundbox.cli.{cmd_name}"), cmd_name)
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="groundbox")
def root() -> None:
    """Runs code that a language model wrote, in a process tree that can reach nothing it was not given."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits."""
    try:
        code = root.main(arguments, prog_name="groundbox", standalone_mode=False)
    except click.UsageError as error:
        from groundbox.cli.meaning import explained

        explained(error).show()
        sys.exit(BAD_USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_USAGE)
    except click.Abort:
        sys.exit(INTERRUPTED)
    except InvalidArgument as error:
        click.echo(f"groundbox: {error}", err=True)
        sys.exit(BAD_USAGE)
    except GroundboxError as error:
        click.echo(f"groundbox: {error}", err=True)
        sys.exit(WE_FAILED)
    except BrokenPipeError:
        # Whoever read our output has gone; without this, Python would fail once more on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(WE_FAILED)
    except Exception:
        # Python's own status for this is 1, which would say that the guest failed.
        traceback.print_exc()
        click.echo("groundbox: this is a fault of groundbox itself; please report it", err=True)
        sys.exit(WE_FAILED)
    sys.exit(code if isinstance(code, int) else 0)
