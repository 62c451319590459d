"""Hints for a reader who can change no setting, such as a model behind a server: without names of options.

Hints and warnings come from places that do not know who reads them, and name settings as Python does. A sentence
that only says how to set something is left out, and one sentence at the end says who can.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from groundbox.execution import Execution

WHO_CAN: Final = "Only the person who set up this server can change that."
_LIMITS: Final = "wall_s|cpu_s|call_wall_s|call_cpu_s|memory_bytes|process_count|disk_bytes|output_bytes|file_count"
_CLAUSES: Final = (
    re.compile(rf",? or (?:run (?:it )?with )?a larger (?:{_LIMITS})\b"),
    re.compile(rf" \(limits\.(?:{_LIMITS})\)"),
    re.compile(r", and an address cannot be allowed: name the host instead, as in Network\([^)]*\)"),
)
"""Parts of a sentence that name a setting; the rest of the sentence says something else."""
_SENTENCE: Final = re.compile(r"(?<=[.?!])\s+(?=[A-Z`])")
_NAMES_A_SETTING: Final = re.compile(
    rf"\bNetwork\(|(?<![\w-])--[a-z]|\bgroundbox \w+|\benvironment=|\bmode=|\bstdin=|\bSandbox\(|\blimits\.|"
    rf"\ba larger (?:{_LIMITS})\b"
)
_QUOTED: Final = re.compile(r"""'[^']*'|"[^"]*"|`(?!groundbox )[^`]*`""")
"""Names and values of the program and its data, which are not ours."""
_OWN_WALL: Final = re.compile(r"(?<=a larger )wall_s\b")
_PLACEHOLDER: Final = "\0"


def without_settings(text: str, *, may_raise_wall: bool = False) -> str:
    """Return the text without the names of settings, and with who can change them if there was one.

    Args:
        may_raise_wall: Keep the advice to run with a larger `wall_s`, because the reader gives it with each run.
    """
    kept = _OWN_WALL.sub(_PLACEHOLDER, text) if may_raise_wall else text
    for clause in _CLAUSES:
        kept = clause.sub("", kept)
    sentences = [each for each in _SENTENCE.split(kept) if not _NAMES_A_SETTING.search(_QUOTED.sub("", each))]
    kept = " ".join(sentences).replace(_PLACEHOLDER, "wall_s")
    return text if kept == text else f"{kept} {WHO_CAN}".lstrip()


def for_a_tool(execution: Execution, *, may_raise_wall: bool) -> Execution:
    """Return the same result with hints and warnings that name no setting."""

    def words(text: str) -> str:
        return without_settings(text, may_raise_wall=may_raise_wall)

    warnings = tuple(dataclasses.replace(each, hint=words(each.hint)) for each in execution.warnings)
    error = execution.error
    if error is not None:
        error = dataclasses.replace(error, hints=tuple(map(words, error.hints)))
    return dataclasses.replace(execution, error=error, warnings=warnings)
