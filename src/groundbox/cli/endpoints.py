"""How commands name a model that is served by an OpenAI-compatible API, and tell of trouble with it while they wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from groundbox.cli.terminal import one_line

LOCAL: Final = "http://localhost:11434/v1"
"""Where Ollama listens; llama.cpp's server does at port 8080."""

takes_endpoint: Final[Callable[..., Any]] = click.option(
    "--endpoint",
    metavar="URL",
    envvar="GROUNDBOX_ENDPOINT",
    show_envvar=True,
    help=f"An OpenAI-compatible API that serves the model, such as Ollama's {LOCAL}.",
)
takes_key: Final[Callable[..., Any]] = click.option(
    "--api-key-env", metavar="VAR", help="Environment variable that holds the endpoint's key; by default none is sent."
)


class Repeated:
    """Tells on stderr why an endpoint is asked again, each reason once until another one comes."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        """Args:
        before: Called first, such as to end a line of progress.
        """
        self._last, self._before = "", before

    def __call__(self, text: str) -> None:
        reason = text.rpartition(";")[0]
        if reason != self._last:
            self._last = reason
            self._before()
            click.echo(f"groundbox: {one_line(text)}", err=True)
