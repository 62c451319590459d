"""Narration and proof: runs told by `groundbox.trace.narrate`, held to their claims, mended where little fails."""

from __future__ import annotations

import bisect
import dataclasses
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from groundbox.dataset.item import Item
from groundbox.trace.claims.data import BadClaims, decode
from groundbox.trace.claims.model import Status
from groundbox.trace.claims.proving import prove as hold
from groundbox.trace.record.reading import Trace

STYLES: Final = ("prose", "steps")
CLAIMS: Final = "groundbox.claims/1"
LEFT_OUT: Final = "A step is left out here."
"""Stands for a sentence that is not told. It is taken as what it says: updates may be passed over there."""
_MOST_QUOTED: Final = 80
"""Characters of a telling in a message."""
# The task `repair` replaces one of these values by another.
_WITH_VALUES: Final = frozenset({"value", "return"})
"""Kinds of claims whose value can be replaced by another, to make a false sentence."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Said:
    """A sentence of a telling, with its claims.

    Attributes:
        since, until: Indexes of the first and last record that it is about; -1 for a sentence about none.
        values: Values that it states, as it writes them.
        stated, followed: How many of the stated values are judged, and how many follow by one step from what was told
            before (`groundbox.trace.claims.derivable`).
        jumps: Those that do not, in words.
        claims: What it says, as the schema of claims has it (docs/proof.md); nothing is known of these to be so.
    """

    text: str
    until: int
    values: tuple[str, ...]
    since: int = -1
    stated: int = 0
    followed: int = 0
    jumps: tuple[str, ...] = ()
    claims: tuple[Mapping[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """A run told in sentences.

    Attributes:
        claims: How many statements the narrator says that it makes.
        detail: How much it tells.
        whole: Whether nothing is passed over; False where the run is too long for that, or was not recorded whole.
    """

    text: str
    sentences: Sequence[Said]
    claims: int
    style: str
    detail: str
    whole: bool = True

    def derived(self, text: str) -> tuple[float, list[str]]:
        """The share of the values that follow from what was told before them, and the jumps.

        Args:
            text: The telling, or its beginning; of another text, which may quote it, all of the telling counts.
        """
        return derived(self.sentences[: self.count(text)])

    def count(self, text: str) -> int:
        """How many sentences the beginning of the telling has; all of them for another text."""
        # A reply may quote the telling within other words; then all of it counts.
        whole = not self.text.startswith(text)
        return len(self.sentences) if whole else sum(end <= len(text) for _, end in self._spans())

    def untold_since(self, t: int) -> int:
        """The first record up to `t` that only a sentence beyond `upto(t)` speaks of; `t` + 1 if there is none.

        A sentence may speak of records before and after `t`: it is not told by then, and neither is what it says.
        """
        later = (each.since for each in self.sentences[self.count_upto(t) :])
        return min((since for since in later if 0 <= since <= t), default=t + 1)

    def upto(self, t: int) -> str:
        """The text up to the last sentence that speaks of nothing after record `t`.

        A sentence before that one may look ahead: to what a call that has begun will return, for one.
        """
        ends = (end for each, (_, end) in zip(self.sentences, self._spans(), strict=False) if 0 <= each.until <= t)
        return self.text[: max(ends, default=0)].rstrip()

    def count_upto(self, t: int) -> int:
        """How many sentences the text up to record `t` has."""
        return max((place for place, each in enumerate(self.sentences, 1) if 0 <= each.until <= t), default=0)

    def places(self, chars: Iterable[int]) -> set[int]:
        """The indexes of the sentences that stand at these places of the text."""
        return places(self._spans(), chars)

    def without(self, places: Collection[int]) -> Told:
        """The same with `LEFT_OUT` for some of the sentences."""
        sentences = tuple(_left_out(each) if place in places else each for place, each in enumerate(self.sentences))
        return dataclasses.replace(self, text=without(self.text, self._spans(), places), sentences=sentences)

    def _spans(self) -> list[tuple[int, int]]:
        """Where the sentences begin and end in the text, as far as they are found there one after the other."""
        spans: list[tuple[int, int]] = []
        at = 0
        for each in self.sentences:
            # From the end of the last one on: equal sentences stand in a loop's telling many times.
            begin = self.text.find(each.text, at)
            if begin < 0:
                break
            at = begin + len(each.text)
            spans.append((begin, at))
        return spans


def places(spans: Sequence[tuple[int, int]], chars: Iterable[int]) -> set[int]:
    """The indexes of the spans that hold one of these places of a text."""
    return {place for at in chars for place, (begin, end) in enumerate(spans) if begin <= at < end}


def without(text: str, spans: Sequence[tuple[int, int]], places: Collection[int]) -> str:
    """The text with `LEFT_OUT` for some of the sentences that stand at these spans."""
    for place, (begin, end) in reversed([*enumerate(spans)]):
        if place in places:
            text = f"{text[:begin]}{LEFT_OUT}{text[end:]}"
    return text


def derived(sentences: Sequence[Said]) -> tuple[float, list[str]]:
    """The share of the stated values that follow from what was told before them, and those that do not, in words."""
    stated = sum(each.stated for each in sentences)
    share = sum(each.followed for each in sentences) / stated if stated else 1.0
    return round(share, 4), [jump for each in sentences for jump in each.jumps]


def _left_out(said: Said) -> Said:
    """Replace a sentence by `LEFT_OUT`; its values are not told then, and later ones may need them."""
    # What later sentences rest on is not told any more; `stated` stays, so that the share falls.
    jumps = (f"a sentence with {said.stated} values is left out",) if said.stated else ()
    return dataclasses.replace(said, text=LEFT_OUT, values=(), claims=(), followed=0, jumps=jumps)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proved:
    """Outcome of a proof.

    Attributes:
        total: Claims of the text, and words of it that stand in none.
        proven: Those that the trace supports.
        coverage: Share of the text's sentences with a claim that holds.
        failed: What is wrong, a sentence each.
        unproven: Where claims begin in the text that the trace does not support, be they wrong or beyond checking;
            of a telling by others, where sentences begin that fail.
        sentences: Where the sentences of a telling by others begin and end.
        answer: Whether the result of the run is told: True, False (another one is), or None (none is).
        refuted: Claims of a telling by others of which the record shows otherwise.
        claims_data: The claims that came with a telling by others, as far as the record bears them out, with their
            records; "" for prose, and for what is not faithful.
    """

    faithful: bool
    total: int
    proven: int
    coverage: float
    failed: tuple[str, ...]
    unproven: tuple[int, ...] = ()
    sentences: tuple[tuple[int, int], ...] = ()
    answer: bool | None = None
    refuted: int = 0
    claims_data: str = ""

    @property
    def whole(self) -> bool:
        """Tell whether every claim is proven."""
        return self.faithful and self.proven == self.total

    @property
    def faithfulness(self) -> float:
        """Share of the claims that hold, of those that can be checked; 0 without any."""
        checked = self.proven + len(self.failed)
        return round(self.proven / checked, 4) if checked else 0.0


class Narrator(Protocol):
    """Tells a trace."""

    def __call__(self, trace: Trace, *, style: str, seed: int, max_chars: int) -> Told: ...


class Untold(Protocol):
    """Says why a run cannot be told without passing anything over, in a word for counting; "" where it can be."""

    def __call__(self, trace: Trace, *, style: str, seed: int, max_chars: int) -> str: ...


class Prover(Protocol):
    """Holds a telling, with the claims that its sentences come with, against a trace."""

    def __call__(self, told: Told, trace: Trace) -> Proved: ...


def tell(trace: Trace, *, style: str, seed: int, max_chars: int, detail: str = "normal") -> Told:
    """The narrator of `groundbox.trace.narrate`, and which of its values follow from what it told before."""
    # Imported late: options and command lines need the names of styles, and not the narrator.
    from groundbox.trace.claims.derivable import derivable
    from groundbox.trace.narrate.document import document
    from groundbox.trace.narrate.narrator import Detail, Style, narrate

    narration = narrate(trace, style=cast(Style, style), detail=cast(Detail, detail), seed=seed, max_chars=max_chars)
    said = document(narration, trace)["sentences"]
    found = derivable(narration.sentences, trace)
    sentences = tuple(
        Said(
            text=each.text,
            since=min((ref for claim in each.claims for ref in claim.refs), default=-1),
            until=max((ref for claim in each.claims for ref in claim.refs), default=-1),
            values=tuple(claim.value for claim in each.claims if claim.kind in _WITH_VALUES),
            stated=found.values[number],
            followed=found.followed[number],
            jumps=tuple(jump.text for jump in found.jumps if jump.sentence == number),
            claims=tuple(claims["claims"]),
        )
        for number, (each, claims) in enumerate(zip(narration.sentences, said, strict=True))
    )
    claims = sum(len(each.claims) for each in narration.sentences)
    return Told(
        text=narration.text,
        sentences=sentences,
        claims=claims,
        style=style,
        detail=narration.detail,
        whole=narration.whole,
    )


def untold(trace: Trace, *, style: str, seed: int, max_chars: int) -> str:
    """See Untold: a run is told whole by `tell` if all of it was recorded and the telling is short enough."""
    from groundbox.trace.narrate.narrator import Style, is_told_whole

    if not trace.complete:
        return "incomplete"
    if trace.folded:
        return "folded"
    return "" if is_told_whole(trace, style=cast(Style, style), seed=seed, max_chars=max_chars) else "long"


def is_long(trace: Trace, max_chars: int) -> bool:
    """Tell whether a run has so many lines that its whole telling is too long, seen without telling it."""
    from groundbox.trace.narrate.narrator import LEAST_CHARS_OF_A_LINE

    return trace.counts.get("line", 0) * LEAST_CHARS_OF_A_LINE > max_chars


def prove(told: Told, trace: Trace) -> Proved:
    """Hold a telling of our narrator to its claims word by word: `Prover` as it is."""
    sentences = [{"text": each.text, "claims": list(each.claims)} for each in told.sentences]
    # A telling from the result backwards goes back on purpose.
    order = {} if told.style == "backward" else {"order": "forward"}
    proof = hold(told.text, trace, claims={**order, "schema": CLAIMS, "sentences": sentences}, strict=True)
    starts = [start for start, _ in proof.sentences]
    loose = [part for part in (*proof.numbers, *proof.words) if not part.covered]
    failed = [
        f"{told.text[verdict.claim.start : verdict.claim.end][:_MOST_QUOTED]!r}: {verdict.message}"
        for verdict in proof.verdicts
        if verdict.status is Status.REFUTED
    ]
    # Of our own narrator nothing is believed either: each number and name has to stand in a claim (`strict`).
    failed += [f"no claim says {told.text[part.start : part.end][:_MOST_QUOTED]!r}" for part in loose]
    failed += [f"sentence {place + 1} goes back, or tells something twice" for place in proof.misplaced]
    failed += [f"before sentence {place + 1} an update is left out" for place in proof.gaps]
    if proof.answer is False:
        failed.append("it tells another result than the run's")
    unproven = [each.claim.start for each in proof.verdicts if each.status is not Status.SUPPORTED]
    unproven += [part.start for part in loose]
    unproven += [starts[place] for place in (*proof.misplaced, *proof.gaps)]
    proven = proof.count(Status.SUPPORTED)
    counted = sum(each.text != LEFT_OUT for each in told.sentences)
    holding = {verdict.claim.sentence for verdict in proof.verdicts if verdict.holds and verdict.claim.sentence >= 0}
    return Proved(
        faithful=not failed and proven > 0,
        total=len(proof.verdicts) + len(loose),
        proven=proven,
        coverage=round(len(holding) / counted, 4) if counted else 0.0,
        failed=tuple(dict.fromkeys(failed)),
        unproven=tuple(sorted(set(unproven))),
        answer=proof.answer,
        refuted=proof.count(Status.REFUTED),
    )


def attached(text: str, sources: Iterable[Sequence[Said]], *, style: str, detail: str) -> Told:
    """A text with the claims of sentences that are found in it, each source's in their order; earlier sources first."""
    placed: list[tuple[int, int, Said]] = []
    for source in sources:
        at = 0
        for each in source:
            start = text.find(each.text, at)
            end = start + len(each.text)
            # A sentence of an earlier source has the place; two claims on one text would both have to hold.
            if start < 0 or any(start < other_end and begin < end for begin, other_end, _ in placed):
                continue
            placed.append((start, end, each))
            at = end
    sentences = tuple(each for _, _, each in sorted(placed, key=lambda row: row[:2]))
    return Told(text=text, sentences=sentences, claims=0, style=style, detail=detail)


def said_in(document: str) -> list[Said]:
    """The sentences of a document of claims, as JSON; none where it is no such document."""
    try:
        sentences = decode(document).sentences if document else ()
    except BadClaims:
        return []
    return [
        Said(text=each.text, until=-1, values=(), claims=tuple(claim.to_dict() for claim in each.claims))
        for each in sentences
    ]


def claims_in(text: str, told: Told, proved: Proved, trace: Trace) -> str:
    """The claims of a telling's sentences that stand in a text, as JSON; "" where none has any.

    They are those that the record bears out. A sentence of which a word stands in none of them comes without claims.

    Args:
        proved: The proof of the telling. Where that left nothing open, its beginnings are not proven once more: each
            claim is judged by the record, and by claims that stand before it.
    """
    at, sentences = 0, []
    for each in told.sentences:
        place = text.find(each.text, at)
        if place >= 0 and each.claims:
            sentences.append({"text": each.text, "claims": list(each.claims)})
            at = place + len(each.text)
    document = {"schema": CLAIMS, "sentences": sentences}
    if proved.whole and told.text.startswith(text):
        return json.dumps(document, separators=(",", ":")) if sentences else ""
    proof = hold(text, trace, claims=document)
    doubtful = {verdict.claim.sentence for verdict in proof.verdicts if verdict.status is not Status.SUPPORTED}
    loose = [part.start for part in (*proof.numbers, *proof.words) if not part.covered]
    starts = [start for start, _ in proof.sentences]
    doubtful |= {bisect.bisect_right(starts, at) - 1 for at in loose}
    kept = [sentence for number, sentence in _numbered(proof.sentences, text, sentences) if number not in doubtful]
    return json.dumps({**document, "sentences": kept}, separators=(",", ":")) if kept else ""


def _numbered(
    spans: Sequence[tuple[int, int]], text: str, sentences: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Sentences with claims, each with its number among all of a text."""
    number = 0
    for sentence in sentences:
        while text[slice(*spans[number])] != sentence["text"]:
            number += 1
        yield number, sentence
        number += 1


def unproven_claims(document: str, text: str, trace: Trace) -> list[str]:
    """Return what of a text's claims, as JSON, is not borne out by the record, and which of their sentences say more.

    Raises:
        BadClaims: It is no document of claims.
    """
    claims = decode(document)
    proof = hold(text, trace, claims=claims)
    found = [
        f"{verdict.claim.kind} {verdict.claim.shown[:80]}: {verdict.message}"
        for verdict in proof.verdicts
        if verdict.status is not Status.SUPPORTED or verdict.claim.sentence < 0
    ]
    claimed = {proof.sentences[verdict.claim.sentence] for verdict in proof.verdicts if verdict.claim.sentence >= 0}
    for part in (*proof.numbers, *proof.words):
        if not part.covered and any(start <= part.start < end for start, end in claimed):
            found.append(f"no claim says {text[part.start : part.end][:80]}")
    return found


LEAST_FOR_ONE: Final = 5
"""Sentences of a telling for each one that may be left out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mended:
    """A telling with its proof.

    Attributes:
        first: The proof of the telling as it was.
        left_out: The sentences that are no longer told.
    """

    told: Told
    proved: Proved
    first: Proved
    left_out: tuple[str, ...] = ()


def mended(told: Told, trace: Trace, prover: Prover) -> Mended:
    """The telling without the sentences that hold an unproven claim; the telling as it is, where that does not help.

    The last sentence, which is the answer, always stays.
    """
    first = proved = prover(told, trace)
    left_out: set[int] = set()
    current = told
    while not proved.whole:
        # Each round proves anew: later sentences may rest on those that are gone.
        more = current.places(proved.unproven) - left_out
        left_out |= more
        last = len(told.sentences) - 1
        if not more or last in left_out or len(left_out) * LEAST_FOR_ONE > len(told.sentences):
            return Mended(told=told, proved=first, first=first)
        current = told.without(left_out)
        proved = prover(current, trace)
    gone = tuple(told.sentences[place].text for place in sorted(left_out))
    return Mended(told=current, proved=proved, first=first, left_out=gone)


NARRATE: Final = "narrate"


def style_of(item: Item, styles: Sequence[str], seed: int) -> str:
    """The style of an item's telling."""
    return random.Random(f"{seed}/{item.id}/style").choice(list(styles))


def seed_of(item: str, seed: int) -> int:
    """The seed of an item's wordings, from that of the build."""
    return random.Random(f"{seed}/{item}/telling").randrange(1 << 31)


def narrate(
    item: Item, trace: Trace, narrator: Narrator, *, styles: Sequence[str], seed: int, max_chars: int
) -> tuple[Item, Told | None]:
    """The item with its telling; dropped when there is none, or when not all of the run is told within the limit."""
    # Drawn from the item's name and the seed: the order in which items are told changes nothing.
    style = style_of(item, styles, seed)
    try:
        told = narrator(trace, style=style, seed=seed_of(item.id, seed), max_chars=max_chars)
    except Exception as error:
        # A program that the narrator cannot tell must not end the build; it is counted and shown.
        return item.dropped(NARRATE, "narrator-failed", f"{style}: {type(error).__name__}: {error}"[:500]), None
    if len(told.text) > max_chars:
        return item.dropped(NARRATE, "long-narration", f"{len(told.text)} characters, {max_chars} are allowed"), None
    if not told.whole:
        is_whole = trace.complete and not trace.folded
        why = f"that takes over {max_chars} characters" if is_whole else "not all of it is recorded"
        return item.dropped(NARRATE, "told-in-parts", f"the run is not told whole: {why}"), None
    return item, told


PROVE: Final = "prove"


def prove_item(item: Item, told: Told, trace: Trace, prover: Prover) -> tuple[Item, Mended | None]:
    """The item with its telling and the proof of that; dropped when a statement failed, and when there is no proof."""
    try:
        found = mended(told, trace, prover)
    except Exception as error:
        # As in `narrate`: counted and shown, and the build goes on.
        return item.dropped(PROVE, "prover-failed", f"{type(error).__name__}: {error}"[:500]), None
    proved = found.proved
    if not proved.faithful:
        failed = list(proved.failed[:5])
        counts = f"{proved.proven} of {proved.total} claims are proven"
        item = item.dropped(PROVE, "unproven-claims", counts, style=told.style, failed=failed)
    return item, found
