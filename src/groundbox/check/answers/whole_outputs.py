"""Looks through output that was cut for the numbers that were not found in what is left of it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from groundbox.check.answers.found import Found
from groundbox.check.answers.judging import Held
from groundbox.check.answers.report import Support
from groundbox.execution import Execution, OutputHandle

MOST_BYTES: Final = 64 * 1024 * 1024
_PAGE: Final = 1 << 20
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d{1,3})?(?![\w])")
_MOST_CHARS: Final = 40


def search_whole(
    executions: Sequence[Execution], missing: Mapping[int, Found], *, all_outputs: bool = False
) -> dict[int, Held]:
    """Those of `missing` that stand in an output that was cut.

    Args:
        all_outputs: Look through those that were not cut, too, because they held more numbers than are kept.
    """
    wanted = {number.value: key for key, found in missing.items() for number in found.numbers}
    held: dict[int, Held] = {}
    if not wanted:
        return held
    for position, execution in enumerate(executions):
        for part in ("stdout", "stderr"):
            handle = execution.outputs.get(part)
            if handle is None or not (all_outputs or execution.dropped_bytes.get(part)):
                continue
            for line, value in _numbers(handle):
                key = wanted.get(value)
                if key is not None and key not in held:
                    support = Support(
                        execution=position, execution_id=execution.execution_id, part=part, where=f"line {line}"
                    )
                    held[key] = Held(support, float(value), missing[key].percent, True)
    return held


def _numbers(handle: OutputHandle) -> Iterator[tuple[int, Decimal]]:
    """Numbers with their lines, page by page."""
    for line, text in _lines(handle):
        for match in _NUMBER.finditer(text):
            if len(match[0]) <= _MOST_CHARS:
                yield line, Decimal(match[0].replace(",", ""))


def _lines(handle: OutputHandle) -> Iterator[tuple[int, str]]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offset, rest, line = 0, "", 1
    while offset < MOST_BYTES and (data := handle.read(offset, _PAGE)):
        offset += len(data)
        *whole, rest = (rest + decoder.decode(data)).split("\n")
        for text in whole:
            yield line, text
            line += 1
        if len(rest) > _PAGE:
            yield line, rest
            rest = ""
    if rest:
        yield line, rest
