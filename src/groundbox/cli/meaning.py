"""Which option or command was meant by one that there is not: by what it means elsewhere, then by its spelling."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import click

from groundbox.cli.program import LANGUAGES as PROGRAMS

_OPTIONS: Final[Mapping[str, str]] = {
    "wall-s": "timeout timeout-s timeout-sec timeout-seconds time time-s time-limit max-time wall wall-time walltime "
    "wall-seconds seconds deadline duration max-seconds t",
    "cpu-s": "cpu cpus cpu-time cpu-limit cpu-seconds max-cpu",
    "memory-mib": "mem memory ram memory-mb memory-gb memory-bytes memory-limit mem-limit mem-mb max-memory max-mem",
    "processes": "process procs nproc pids pids-limit threads max-processes process-count process-limit max-threads",
    "disk-mib": "disk disk-mb disk-gb disk-bytes disk-size disk-limit storage tmpfs max-disk",
    "output-kib": "output-kb output-limit output-bytes max-output max-output-bytes",
    "allow-host": "allow allow-hosts allow-net allow-network allow-internet allowed-hosts network net internet "
    "online domain domains allow-domain hosts",
    "private-range": "private-ranges private cidr allow-private allow-range",
    "loopback": "localhost allow-localhost",
    "environment": "env venv virtualenv image container packages package conda requirement requirements pip with "
    "python python-version",
    "backend": "engine isolation driver runtime sandbox",
    "waive": "skip without disable ignore no-cgroup",
    "language": "lang kernel interpreter syntax l x",
    "c": "e eval exec execute command cmd code program",
    "stdin": "input input-file in",
    "file": "files upload copy mount volume v f add data data-file input-dir",
    "out": "output output-dir output-folder outdir out-dir o save dest destination artifacts download results",
    "trace": "tracing record",
    "json": "as-json format output-format jsonl",
    "option": "dialect database db",
    "args": "arguments argv params",
    "workers": "jobs j parallel concurrency",
    "help": "usage man ?",
    "version": "v ver",
    "endpoint": "url base-url api-base api-url api server openai-base-url ollama provider",
    "model": "llm m model-name",
    "api-key-env": "api-key key apikey token",
    "max-turns": "turns steps max-steps iterations max-iterations rounds max-rounds",
    "db": "database sql dsn",
    "replay": "recording recorded",
    "save": "record log transcript",
    "html": "page report web browser",
    "problems": "input in data source dataset file",
    "limit": "count n first max-items",
    "requirement": "requirements package packages pip r with",
    "from": "base extend extends parent",
    "delegate": "user fix cgroup cgroups",
    "host": "listen bind address interface",
}
"""Options, by their longest name, to what other programs call them."""
_ELSE: Final[Mapping[str, str]] = {"html": "out output o save", "json": "out output o save", "file": "in input csv"}
"""Meanings of the same words for commands that have none of the options above."""
_COMMANDS: Final[Mapping[str, str]] = {
    "run": "exec execute python python3 script start launch eval-code sandbox code sh bash node sql",
    "repl": "shell console interactive interpreter ipython prompt session notebook jupyter",
    "ask": "chat agent question query prompt llm",
    "trace": "debug step record tracer profile html page",
    "dataset": "data datasets generate train",
    "eval": "evaluate evaluation score grade humaneval",
    "serve": "server http api web listen daemon console",
    "engine": "background warm",
    "mcp": "stdio tools",
    "a2a": "agents agent2agent",
    "languages": "lang langs language runtimes kernels",
    "environment": "env envs environments venv packages package",
    "doctor": "check status health diagnose info probe test selftest self-test setup config",
    "bench": "benchmark benchmarks perf speed",
    "prove": "proof claims",
    "build": "make new init create generate",
    "create": "new init make build",
    "add": "install pip extend",
    "remove": "rm delete del uninstall drop",
    "list": "ls show all info",
    "verify": "check validate prove",
    "translate": "narrate rewrite",
    "update": "upgrade rebuild",
}
_LIKE: Final = 0.76
_MOST: Final = 3
_SHORT: Final = 3


def explained(error: click.UsageError) -> click.UsageError:
    """The same complaint with what was probably meant, where it is about an option or command that there is not."""
    if isinstance(error, click.NoSuchOption):
        named = error.option_name
        meant = _option(named, error.ctx)
        message = f"No such option: {named}"
    elif error.ctx is not None and isinstance(error.ctx.command, click.Group) and _is_unknown_command(error):
        named = error.message.split("'")[1]
        meant = _command(named, error.ctx)
        message = f"No such command: {named}"
    else:
        return error
    return click.UsageError(f"{message}{meant}", error.ctx)


def _is_unknown_command(error: click.UsageError) -> bool:
    return error.message.startswith("No such command '")


def _option(named: str, ctx: click.Context | None) -> str:
    if ctx is None:
        return ""
    known = {_bare(flag): _shown(flags) for flags in _flags(ctx) for flag in flags}
    word = _bare(named)
    found = [known[name] for name in _exactly(word, _OPTIONS, known) or _exactly(word, _ELSE, known)]
    if not found and word in ("args", "argv", "arguments") and "-- ARGS" in ctx.command.get_usage(ctx):
        return "; what the program is given comes last, after --"
    if not found and (elsewhere := _beside(word, ctx)):
        return elsewhere
    found = found or [known[name] for name in _meant(word, _OPTIONS, known)]
    if not found and isinstance(ctx.command, click.Group):
        return _below(word, ctx.command, ctx)
    return _question(found)


def _beside(word: str, ctx: click.Context) -> str:
    """An option of exactly this name that other commands have."""
    if ctx.parent is None or not isinstance(ctx.parent.command, click.Group):
        return ""
    group = ctx.parent.command
    commands = {name: group.get_command(ctx.parent, name) for name in group.list_commands(ctx.parent)}
    having = [
        f"`{ctx.parent.command_path} {name}`"
        for name, command in commands.items()
        if command is not None and any(f"--{word}" in each.opts for each in command.params)
    ]
    return f"; it belongs to {' or '.join(having[:_MOST])}" if having else ""


def _below(word: str, group: click.Group, ctx: click.Context) -> str:
    """An option that stands before the command that it belongs to."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        known = {} if command is None else {_bare(flag): flag for each in command.params for flag in each.opts}
        for own in (word, *_of_this_meaning(word, _OPTIONS)):
            if own in known:
                return f"; it belongs after the command, as in `{ctx.command_path} {name} {known[own]} …`"
    return ""


def _command(named: str, ctx: click.Context) -> str:
    group = ctx.command
    assert isinstance(group, click.Group)
    known = group.list_commands(ctx)
    if "run" in known and (os.path.isfile(named) or os.path.splitext(named)[1].lower() in PROGRAMS):
        return f"; did you mean `{ctx.command_path} run {named}`?"
    if f"--{named}" in (flag for flags in _flags(ctx) for flag in flags):
        return f"; write `{ctx.command_path} --{named}`"
    word = named.lower()
    found = [f"{ctx.command_path} {name}" for name in _meant(word, _COMMANDS, known)] or _within(word, group, ctx)
    return _question(found) or f"; there is: {', '.join(known)}"


def _within(word: str, group: click.Group, ctx: click.Context) -> list[str]:
    """Commands of the groups in this one that the word names or means."""
    found = []
    for name in group.list_commands(ctx):
        inner = group.get_command(ctx, name)
        known = inner.list_commands(ctx) if isinstance(inner, click.Group) else []
        found += [f"{ctx.command_path} {name} {each}" for each in _exactly(word, _COMMANDS, known)]
    return found[:_MOST]


def _exactly(word: str, meanings: Mapping[str, str], known: Collection[str]) -> list[str]:
    return [word] if word in known else [name for name in _of_this_meaning(word, meanings) if name in known]


def _meant(word: str, meanings: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Those of `known` that the word means, or else is spelt like, or else is spelt like a word of this meaning."""
    alike = _exactly(word, meanings, known) or _alike(word, known)
    if alike:
        return alike
    for part in reversed(word.split("-") if "-" in word else ()):
        if len(part) > 2 and (of_part := _exactly(part, meanings, known)):
            return of_part
    words = {other: name for name in known for other in meanings.get(name, "").split() if len(other) > _SHORT}
    return [words[other] for other in _alike(word, words)[:1]]


def _of_this_meaning(word: str, meanings: Mapping[str, str]) -> list[str]:
    return [name for name, words in meanings.items() if word in words.split()]


def _alike(word: str, known: Iterable[str]) -> list[str]:
    """Return names that are spelt like the word, or have its letters in another order."""
    known = list(known)
    close = difflib.get_close_matches(word[:60], known, _MOST, _LIKE)
    return close or [name for name in known if len(name) > 2 and sorted(name) == sorted(word)]


def _flags(ctx: click.Context) -> list[Sequence[str]]:
    return [each.opts for each in ctx.command.get_params(ctx) if isinstance(each, click.Option) and not each.hidden]


def _bare(flag: str) -> str:
    """`--code` as `code`; `-c` as `c`."""
    return flag.lstrip("-").lower().replace("_", "-")


def _shown(flags: Sequence[str]) -> str:
    return max(flags, key=len)


def _question(found: Sequence[str]) -> str:
    quoted = [f"`{each}`" for each in dict.fromkeys(found)]
    return f"; did you mean {' or '.join(quoted)}?" if quoted else ""
