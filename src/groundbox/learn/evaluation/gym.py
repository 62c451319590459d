"""Questions of `reasoning-gym`, as transfer: nothing of them is trained on.

The package scores replies by functions of its own, some of which evaluate what a model wrote (`eval`, `parse_expr`).
None of these is called: asked are those of its generators whose questions have one answer on one line, and a reply is
right when it is that answer, as words or as a number. So there is no partial credit, and figures are not the package's.
"""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Final

from groundbox.check.answers.dates import Span, dates
from groundbox.dataset import optional_imports
from groundbox.dataset.tasks.checking import MARK
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.replies import Said
from groundbox.learn.evaluation.suites import Judged, Means, Question, Wanted
from groundbox.values import literals
from groundbox.values.equal import REL_TOL, close_numbers
from groundbox.values.plain_answer import plain_answer

KINDS: Final = (
    "acre", "aiw", "base_conversion", "basic_arithmetic", "bf", "binary_alternation", "caesar_cipher",
    "calendar_arithmetic", "chain_sum", "circuit_logic", "coin_flip", "color_cube_rotation", "count_bits",
    "count_primes", "course_schedule", "decimal_arithmetic", "decimal_chain_sum", "dice", "family_relationships",
    "fraction_simplification", "game_of_life_halting", "gcd", "gsm_symbolic", "largest_island",
    "lcm", "leg_counting", "letter_counting", "letter_jumble", "mahjong_puzzle", "maze",
    "needle_haystack", "number_filtering", "number_format", "number_sequence", "number_sorting", "prime_factorization",
    "products", "rectangle_count", "rotten_oranges", "self_reference", "sentence_reordering",
    "simple_equations", "simple_geometry", "spell_backward", "spiral_matrix", "string_insertion",
    "string_manipulation", "string_splitting", "string_synthesis", "syllogism", "time_intervals",
    "word_sequence_reversal", "word_sorting", "zebra_puzzles",
)  # fmt: skip
"""Generators whose questions have one answer, on one line, and are the same in every process (of version 0.1.25)."""
_ENDING: Final = f"Reason step by step. End with a line that begins with `{MARK}` and holds nothing but the answer."
_MOST_NUMBER: Final = 400
_NAMED: Final = re.compile(r"\A[A-Za-z_]\w{0,20} ?= ?")
_CHOICE: Final = re.compile(r"[(\[]?([A-Za-z])[)\]]")
_CHOICE_WITH_TEXT: Final = re.compile(r"[(\[]?([A-Za-z])[)\].:]+ ")
_WITH_UNIT: Final = re.compile(r"([-+]?[\d,]+(?:\.\d+)?) ?(?:%|°|[^\W\d_]{1,20}(?: [^\W\d_]{1,20})?)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gym:
    """Questions with one answer each."""

    name: str
    source: Mapping[str, Any]
    questions: Sequence[Question]
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def judge_alone(self) -> Gym:
        """See Movable.judge_alone."""
        return dataclasses.replace(self, questions=())

    async def judge(self, question: Question, said: Said, means: Means) -> Judged:
        """See Judging.judge."""
        if said.lacks:
            return Judged(right=False, reason=said.lacks)
        right = is_answer(said.answer, question.right)
        return Judged(right=right, reason="right" if right else "wrong")


def open_gym(wanted: Wanted) -> Gym:
    """So many questions of each kind; the place names kinds with commas between them, or nothing for all.

    Raises:
        ExtraMissing: The package is not installed.
        InvalidArgument: There is no such kind, or none whose questions have one answer.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that it imports
        package = optional_imports.need("reasoning_gym", "to ask its questions", install="reasoning-gym")
    kinds = [each.strip() for each in wanted.place.split(",") if each.strip()] or list(KINDS)
    if unknown := [each for each in kinds if each not in KINDS]:
        raise InvalidArgument(
            "--suite", f"{unknown[0]!r} is no kind whose questions have one answer; there are {', '.join(KINDS)}"
        )
    questions = [each for kind in kinds for each in _questions(package, kind, wanted)]
    source = {"version": _version(), "kinds": kinds, "size": wanted.size, "seed": wanted.seed}
    return Gym(name="reasoning-gym", source=source, questions=questions)


def is_answer(given: str, true: str) -> bool:
    """Tell whether two answers are the same, as words however spaced, as days, or as numbers or lists of these.

    A unit, a percent sign, a name as in `x = 5`, and brackets around a letter count only if the right answer has them.
    """
    if _words(given) == _words(true):
        return True
    given, true = plain_answer(given), plain_answer(true)
    if _words(given) == _words(true) or _words(_bare_choice(given)) == _words(_bare_choice(true)):
        return True
    if len(true) == 1 and true.isalpha() and (choice := _CHOICE_WITH_TEXT.match(given)):
        return choice[1].casefold() == true.casefold()
    if (day := _day(true)) is not None and day == _day(given):
        return True
    if "=" not in true:
        given = _NAMED.sub("", given, count=1)
    one, other = _number(given), _number(true)
    if one is None and other is not None and (with_unit := _WITH_UNIT.fullmatch(given.rstrip("."))):
        one = _number(with_unit[1])
    if one is not None and other is not None:
        return close_numbers(one, other, rel_tol=REL_TOL, abs_tol=REL_TOL)
    return true.startswith("[") and _listed(given) is not None and _listed(given) == _listed(true)


def _questions(package: Any, kind: str, wanted: Wanted) -> Iterator[Question]:
    made = package.create_dataset(kind, seed=wanted.seed, size=wanted.size)
    for number in range(wanted.size):
        row = made[number]
        answer = str(row["answer"]).strip().strip("$")
        if answer and "\n" not in answer:
            yield Question(
                id=f"{kind}/{wanted.seed}/{number}",
                prompt=f"{str(row['question']).rstrip()}\n\n{_ENDING}",
                group=kind,
                right=answer,
            )


def _words(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()


def _day(text: str) -> Span | None:
    """The day that a text is and that can be read in one way only; None for 03/04/2024, and with a time of day."""
    text = text.rstrip(".")
    read = list(dates(text[:_MOST_NUMBER])) if ":" not in text else []
    is_one = len(read) == 1 and read[0].text == text and len(read[0].readings) == 1
    return read[0].readings[0] if is_one else None


def _bare_choice(text: str) -> str:
    """The letter of `(B)`, `B)` or `[b]`; any other text as it is."""
    match = _CHOICE.fullmatch(text.rstrip("."))
    return match[1] if match else text


def _number(text: str) -> float | None:
    text = text.strip().strip("$").replace(",", "").rstrip(".")
    if len(text) > _MOST_NUMBER:
        return None
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _listed(text: str) -> list[str] | None:
    try:
        found = literals.parse(text)
        return list(map(str, found)) if isinstance(found, list) else None
    except ValueError:  # no literal, or one with more digits than Python writes
        return None


def _version() -> str:
    try:
        return metadata.version("reasoning-gym")
    except metadata.PackageNotFoundError:
        return "unknown"
