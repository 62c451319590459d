"""A conversation in the terminal, as it happens: replies, programs, what they showed, pictures, cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from groundbox.agent import transcript
from groundbox.agent.events import Ended, Ending, Event, Noticed, Observed, Replied, Started
from groundbox.agent.observation import is_undone
from groundbox.agent.page import NOTICES, doubted
from groundbox.agent.transcript import difference
from groundbox.agent.turn import Verdict
from groundbox.cli.results import Written, write
from groundbox.cli.terminal import one_line, screens
from groundbox.errors import GroundboxError
from groundbox.sandbox import private

_MOST_LINES: Final = 24


class Telling:
    """Tells one conversation: the answer to stdout, all else to stderr; or JSON Lines to stdout."""

    def __init__(self, out: Path | None, *, recorded: Mapping[int, str], as_json: bool, strict: bool = False) -> None:
        """Args:
        out: Where pictures and files go; None for a temporary folder, made when there is a first one.
        recorded: Run to what was shown of it when the conversation was recorded.
        strict: Say before the answer that the runs do not support it, if they do not.
        """
        self._out, self._recorded, self._as_json, self._strict = out, recorded, as_json, strict
        self._stdout, self._stderr = screens()
        self._colour = sys.stderr.isatty()
        self.differences = 0

    def question(self, question: str, model: str, files: Iterable[str]) -> None:
        """Before anything has happened."""
        if not self._as_json:
            self._head(f"question, to {model}")
            self._say(question)
            for path in sorted(files):
                self._say(f"with {one_line(path)}")

    def event(self, event: Event) -> None:
        """What has just happened."""
        if self._as_json:
            print(json.dumps(transcript.line(event)), flush=True)
        elif isinstance(event, Replied):
            if event.reply.text.strip() and event.reply.calls:
                self._quote(event.reply.text.strip())
        elif isinstance(event, Started):
            beside = f", on a copy, beside {len(event.beside) - 1} more" if event.beside else ""
            self._head(f"run {event.run}, {event.language}{beside}")
            self._quote(event.source.strip("\n"))
        elif isinstance(event, Noticed):
            self._head(NOTICES.get(event.kind, event.kind))
            self._some(event.text)
        elif isinstance(event, Ended):
            self._ended(event)
        if isinstance(event, Observed):
            self._observed(event)

    def _observed(self, event: Observed) -> None:
        if not self._as_json:
            self._head(f"{_ended_how(event)}; the model is shown")
            self._some(event.observation.text)
        if event.execution.displays or event.execution.artifacts:
            self._write(event)
        recorded = self._recorded.get(event.run)
        if recorded is not None and (differs := difference(recorded, event.observation.text)):
            self.differences += 1
            click.echo(
                f"groundbox: run {event.run} shows something else than was recorded: {one_line(differs)}", err=True
            )

    def _write(self, event: Observed) -> None:
        if self._out is None:
            if self._as_json:
                return
            self._out = Path(private.make_kept("groundbox-ask-"))
        folder = self._out / f"run-{event.run}"
        try:
            written = write(event.execution, folder)
        except GroundboxError as error:
            click.echo(f"groundbox: {error}", err=True)
            return
        for name in _names(written):
            if not self._as_json:
                self._say(f"in {one_line(str(folder / name))}")
        for path, reason in written.problems.items():
            click.echo(f"groundbox: {one_line(path)} is not written: {one_line(reason)}", err=True)

    def _ended(self, ended: Ended) -> None:
        if self._strict and ended.ending is Ending.ANSWERED and not ended.is_supported:
            self._say(f"groundbox: the runs do not support this answer: {_lacking(ended)}")
        if ended.answer is not None:
            self._head("answer")
            self._stdout.say(ended.answer)
        else:
            click.echo(f"groundbox: no answer: {one_line(ended.why)}", err=True)
        for warning in ended.unsupported:
            self._say(f"no program showed this: {one_line(warning.message)}")
        if ended.ending is Ending.ANSWERED and ended.receipts is None:
            self._say("groundbox: the answer was not compared with what the programs showed")
        spent = ended.spent
        cost = "" if ended.dollars is None else f", ${ended.dollars:.4f}"
        tokens = f"about {spent.tokens} tokens" if ended.dollars is None else f"{spent.tokens} tokens"
        counted = f"{_count(spent.turns, 'reply', 'replies')}, {_count(spent.runs, 'program')}"
        self._say(f"groundbox: {counted}, {tokens}{cost}, {spent.wall_s:.1f} s")
        if self._recorded and not self.differences:
            self._say("groundbox: every run shows what was recorded")

    def _head(self, text: str) -> None:
        line = f"── {one_line(text)}"
        self._stderr.say("")
        click.echo(click.style(line, bold=True) if self._colour else line, err=True)

    def _say(self, text: str) -> None:
        self._stderr.say(text)

    def _quote(self, text: str) -> None:
        """Words of a model or a guest, set in, so that none of their lines reads as one of ours."""
        self._say("\n".join(f"    {line}" for line in text.splitlines()))

    def _some(self, text: str) -> None:
        lines = text.split("\n")
        if len(lines) <= _MOST_LINES:
            self._quote(text)
            return
        half = _MOST_LINES // 2
        left_out = f"… {len(lines) - 2 * half} lines more, which the model saw …"
        self._quote("\n".join([*lines[:half], left_out, *lines[-half:]]))


def _lacking(ended: Ended) -> str:
    """Return why an answer is not supported."""
    if not any(ended.executions):
        return "no run ended well"
    if ended.receipts is None:
        return "it was not compared with what they showed"
    return f"{_count(len(ended.unsupported), 'claim')} of it not shown by any"


def _names(written: Written) -> list[str]:
    return [*(name for names in written.displays for name in names), *written.artifacts]


def _ended_how(event: Observed) -> str:
    if not event.execution.ok:
        then = ", and is taken back" if is_undone(event.execution) else ""
        return f"run {event.run} failed ({event.execution.outcome}){then}"
    if event.decision.verdict is Verdict.RETRY:
        return f"run {event.run} is to be mended: {event.decision.why}"
    return f"run {event.run} went well" + (", but a check doubts its result" if doubted(event) else "")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
