"""Settings as the command line calls them, in sentences that name them as Python does.

Hints and warnings come from places that do not know who asks. Only the forms below are changed: a name that a
program chose, such as a column called `wall_s`, is quoted in hints and stays as it is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from groundbox.execution import Execution, Failure
from groundbox.limits import KiB, MiB


class Amounts(NamedTuple):
    """One limit as an option: its flag, what one of it stands for in `Limits`, and its help."""

    flag: str
    unit: int
    words: str


LIMITS: Final = {
    "wall_s": Amounts("--wall-s", 1, "Seconds from the start of a run to its end, or none."),
    "cpu_s": Amounts("--cpu-s", 1, "Seconds of processor time of all its processes, or none."),
    "memory_bytes": Amounts("--memory-mib", MiB, "Memory of all its processes and files, or none."),
    "process_count": Amounts("--processes", 1, "Processes and threads at once, or none."),
    "disk_bytes": Amounts("--disk-mib", MiB, "Files in the workdir and /tmp together, or none."),
    "output_bytes": Amounts("--output-kib", KiB, "What a result keeps of stdout and of stderr, or none."),
}
"""Limits to their options."""
_OWN_FAILURES: Final = frozenset({"Timeout", "OutOfMemory"})
"""Failures whose message is ours and not the program's."""
_LIMIT: Final = re.compile(
    rf"(?:\blimits\.|(?<=a larger )|(?<=at its limit )|(?<=\bat ))({'|'.join(LIMITS)})(?:=([0-9.]+))?\b"
)
_HOSTS: Final = re.compile(r"\bNetwork\(allow=\[([^\]]*)\]\)")
_PLAIN: Final = (
    (re.compile(r'\bNetwork\(private_ranges=\["([^"]+)"\]\)'), r"--private-range \1"),
    (re.compile(r"\bNetwork\(loopback=True\)"), "--loopback"),
    (re.compile(r"\benvironment=(['\"])([\w.-]+)\1(?: or --environment \2)?"), r"--environment \2"),
    (re.compile(r"\bmode=(['\"])(\w+)\1"), r"--mode \2"),
    (re.compile(r"\bwith stdin=…"), "with --stdin FILE, or with --stdin - for what is piped into this command."),
    (re.compile(r"\blimits\.file_count\b"), "file_count, which has no option"),
)


def with_options(text: str) -> str:
    """The sentence with each setting as the option that sets it."""
    text = _HOSTS.sub(lambda found: " ".join(f"--allow-host {host}" for host in _listed(found[1])), text)
    for pattern, words in _PLAIN:
        text = pattern.sub(words, text)
    return _LIMIT.sub(lambda found: _amount(found[1], found[2]), text)


def worded(execution: Execution, words: Callable[[str], str] = with_options) -> Execution:
    """The same result for a reader who sets things by options."""
    warnings = tuple(
        dataclasses.replace(each, message=words(each.message), hint=words(each.hint)) for each in execution.warnings
    )
    error = None if execution.error is None else _worded_failure(execution.error, words)
    return dataclasses.replace(execution, error=error, warnings=warnings)


def _worded_failure(error: Failure, words: Callable[[str], str]) -> Failure:
    message = words(error.message) if error.type in _OWN_FAILURES else error.message
    return dataclasses.replace(error, message=message, hints=tuple(map(words, error.hints)))


def _listed(hosts: str) -> list[str]:
    return [host.strip(" \"'") for host in hosts.split(",")] if hosts.strip(" …") else ["HOST"]


def _amount(limit: str, value: str | None) -> str:
    option = LIMITS[limit]
    return option.flag if value is None else f"{option.flag} {float(value.rstrip('.')) / option.unit:g}"
