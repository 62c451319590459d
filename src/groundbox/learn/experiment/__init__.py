"""An experiment: does a model that learns from proven narrations reason better than one that learns from other texts?

`python -m groundbox.learn.experiment --out DIR` makes programs (`data.py`), tells each run as every arm tells it
(`arms.py`), trains a transformer from scratch on each arm's texts (`groundbox.learn.transformer`), scores what it says
of programs that it never saw (`scoring.py`), and writes a table and a page of charts (`report.py`). Settings
stand in `plan.py`, hypotheses in `hypotheses.py`, figures in docs/experiment.md. Needs torch.
"""

from __future__ import annotations

import sys

import click

from groundbox.errors import GroundboxError


def carry_out(command: click.Command) -> None:
    """Run a command of this package, and leave Python with 3 where groundbox failed and 130 by Ctrl-C."""
    try:
        command(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except GroundboxError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(3)
    except click.Abort:
        click.echo("ended; call it again to go on", err=True)
        sys.exit(130)
