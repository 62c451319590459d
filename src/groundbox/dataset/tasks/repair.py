"""Repair: one step of a telling is wrong. Which, and what should it say?"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

from groundbox.dataset.tasks.task import Draft, View, task
from groundbox.values import literals

_MOST_STEPS: Final = 60
_FEWEST_STEPS: Final = 3
_TRIES: Final = 6


@task("repair", about="find and mend the one wrong step of a telling", place=90)
def repair(view: View) -> Iterator[Draft]:
    """Yield one question: a value of one sentence was replaced, and the prover agrees that it is wrong now."""
    sentences = [each.text for each in view.told.sentences]
    if not _FEWEST_STEPS <= len(sentences) <= _MOST_STEPS:
        return
    rng = view.rng("repair")
    places = [(number, value) for number, each in enumerate(view.told.sentences) for value in each.values]
    for number, value in rng.sample(places, min(_TRIES, len(places))):
        wrong = _corrupted(sentences[number], value, rng.randint(1, 3))
        # Another value may be as true; the prover decides whether the sentence is wrong now.
        if wrong is None or not _is_wrong(view, sentences, number, wrong):
            continue
        steps = [wrong if at == number else each for at, each in enumerate(sentences)]
        told = f"step {number + 1}: {' '.join(sentences[number].split())}"
        yield Draft(
            task="repair",
            question="One of the steps told above is wrong. Work through the program, and find it. "
            "Answer with its number and what it should say, such as `step 3: ...`.",
            answer=told,
            check={"kind": "text", "value": told},
            reasoning=f"Step {number + 1} says: {wrong} The program shows something else: {sentences[number]}",
            given="\n".join(f"{at}. {' '.join(each.split())}" for at, each in enumerate(steps, 1)),
        )
        return


def _corrupted(sentence: str, value: str, by: int) -> str | None:
    """The sentence with another value, or None if that value cannot be changed for sure."""
    other = _another(value, by)
    # Once and as a whole: 3 must not be replaced in 13, 3.5 or `x3`.
    pattern = rf"(?<![\w.]){re.escape(value)}(?![\w.]\w)"
    if other is None or len(re.findall(pattern, sentence)) != 1:
        return None
    return re.sub(pattern, lambda _: other, sentence)


def _another(value: str, by: int) -> str | None:
    try:
        plain = literals.parse(value)
    except literals.NotALiteral:
        return None
    if isinstance(plain, bool):
        return str(not plain)
    if isinstance(plain, int | float):
        return literals.text(plain + by)
    if isinstance(plain, str) and plain:
        return repr(plain[:-1] + chr((ord(plain[-1]) - 97 + by) % 26 + 97)) if plain[-1].islower() else repr(plain[:-1])
    if isinstance(plain, list) and plain:
        return literals.text(plain[:-1])
    return None


def _is_wrong(view: View, sentences: list[str], number: int, wrong: str) -> bool:
    """Tell whether the telling with the wrong sentence, which keeps its claims, is not proven."""
    told = list(view.told.sentences)
    told[number] = dataclasses.replace(told[number], text=wrong)
    text = view.told.text.replace(sentences[number], wrong, 1)
    return not view.prove(dataclasses.replace(view.told, text=text, sentences=tuple(told)), view.trace).faithful
