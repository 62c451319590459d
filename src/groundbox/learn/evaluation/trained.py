"""Which questions a model was trained on, as far as its card tells.

`groundbox train` leaves `groundbox.json` in the model's folder, which names the dataset by digest (that of its
`samples.parquet`) and the folder in which it was. A question was seen if its program is one of the training split of
that dataset, however it is spaced and whatever its names are; so that holds for any suite. It is near where a training
program contains most of its shingles, as `dataset build` takes programs of benchmarks out: functions in another order,
an import or a function more. Where the dataset is no longer there, digests alone are compared.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import deduplication, files, optional_imports, sample_files
from groundbox.dataset.selection import TRAIN
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.suites import Question, Questionnaire

CARD: Final = "groundbox.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """The dataset that a model was trained on.

    Attributes:
        name: Of the dataset.
        digest: Of its samples.
        programs: Sources of its training split; None where these are not at hand.
    """

    name: str
    digest: str
    programs: frozenset[str] | None = None

    def seen(self, questions: Sequence[Question]) -> tuple[list[str], list[str]]:
        """Ids of the questions whose program is one of its training split, and of those that are near to one."""
        if not self.programs:
            return [], []
        asked = {
            each.program: deduplication.digest(deduplication.normalised(each.program))
            for each in questions
            if each.program
        }
        known = {deduplication.digest(deduplication.normalised(source)) for source in self.programs}
        same = {program for program, digest in asked.items() if digest in known}
        near = self._near(asked.keys() - same)
        return [each.id for each in questions if each.program in same], [
            each.id for each in questions if each.program in near
        ]

    def _near(self, asked: Collection[str]) -> set[str]:
        looked_up = deduplication.Benchmarks(
            [deduplication.Document(name=program, code=program, text="") for program in asked], ()
        )
        found = (looked_up.look_up(source, "") for source in (self.programs or ()))
        return {each.document for each in found if each is not None and each.containment >= deduplication.CONTAINMENT}


def training_of(place: Path) -> Training:
    """Read a card or a dataset; the place is a model's folder, a card, or the folder of a dataset.

    Raises:
        InvalidArgument: It is none of these, or the card names no dataset.
    """
    if (place / sample_files.SAMPLES).is_file():
        return _of_dataset(place, place.resolve().name)
    card = place / CARD if place.is_dir() else place
    try:
        told = json.loads(card.read_bytes())["dataset"]
        name, digest = str(told["name"]), str(told["digest"])
    except (OSError, ValueError, LookupError, TypeError):
        raise InvalidArgument(
            "--trained-on", f"{place} is no model with a card ({CARD} that names its dataset), no card, and no dataset"
        ) from None
    named = Path(str(told.get("folder") or name))
    for folder in (named, card.parent / named, card.parent / named.name, card.parent.parent / named.name):
        if (folder / sample_files.SAMPLES).is_file() and files.digest(folder / sample_files.SAMPLES) == digest:
            return _of_dataset(folder, name)
    return Training(name=name, digest=digest)


def card_in(folder: Path) -> Training | None:
    """Read the card of a model's folder; None without one."""
    return training_of(folder) if (folder / CARD).is_file() else None


def told_of(training: Training, suite: Questionnaire, asked: Sequence[Question]) -> dict[str, Any]:
    """Count for the report which questions a model's training has shown it."""
    same = training.digest == suite.source.get("samples")
    seen, near = training.seen(asked)
    if same and suite.source.get("split") == TRAIN:
        seen, near = [each.id for each in asked], []
    return {
        "dataset": training.name,
        "digest": training.digest,
        "same_dataset": same,
        "compared": training.programs is not None,
        "seen": len(seen),
        "seen_ids": seen,
        "near": len(near),
        "near_ids": near,
    }


def words(told: Mapping[str, Any], asked: int) -> str:
    """The same as a sentence."""
    begin = f"the model was trained on the dataset {told['dataset']} ({told['digest'][:12]}…)"
    if told["seen"] or told["near"]:
        near = f", and {told['near']} about programs that one of it contains for the most part" if told["near"] else ""
        return f"{begin}, and {told['seen']} of the {asked} questions are about programs of its training split{near}"
    if told["same_dataset"]:
        return f"{begin}, which is asked about here; none of the {asked} questions is of its training split"
    if not told["compared"]:
        return f"{begin}, which is not at hand: whether it has these questions is not known"
    return f"{begin}; none of the {asked} questions is about a program of its training split"


def _of_dataset(folder: Path, name: str) -> Training:
    optional_imports.parquet()
    sources = {row.source for row in sample_files.read_samples(folder / sample_files.SAMPLES) if row.split == TRAIN}
    return Training(
        name=name,
        digest=files.digest(folder / sample_files.SAMPLES),
        programs=frozenset(sources),
    )
