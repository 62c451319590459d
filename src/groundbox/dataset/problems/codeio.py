"""Lines of CodeI/O with a generator of inputs in the place of inputs, as the package reasoning-gym ships them.

A program is a function `main_solution`, a generator `generate_inputs(rng)` that returns its arguments by name and may
use whatever the program imports. Both are foreign code, and run in sandboxes only (dataset/input_generation.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.dataset.problem import Drop, Problem
from groundbox.dataset.problems.rows import Place, text_of

NAME: Final = "codeio"
KEYS: Final = frozenset({"code_sample", "input_generator"})
_ENTRY: Final = "main_solution"
_DETAILS: Final = ("difficulty", "licence", "license")


def parse(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """The problem of a row."""
    parts = [row.get("task_description"), row.get("input_output_spec")]
    yield Problem(
        id=str(row.get("id") or place.item),
        source=text_of(row, "code_sample", least=1),
        statement="\n\n".join(part.strip() for part in parts if isinstance(part, str) and part.strip()),
        entry=_ENTRY,
        cases=(),
        provenance=place.provenance({name: row[name] for name in _DETAILS if name in row}),
        generator=text_of(row, "input_generator", least=1),
    )
