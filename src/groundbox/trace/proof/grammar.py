"""The claims of a text: its sentences, each given to the rules of its words; rows of tables; blocks of output.

What a word can claim is the matter of `rules`, whether it is so that of `moments`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from groundbox.trace.proof.claims import Claim, Has, How, Printed, Row
from groundbox.trace.proof.rules import (
    being,
    calls,
    changes,
    comparisons,
    comprehensions,
    containers,
    counts,
    ends,
    exceptions,
    frequencies,
    moves,
    notation,
    output,
    quantifiers,
    returns,
    sources,
    truths,
    turns,
    values,
)
from groundbox.trace.proof.rules.reader import Draft, Rule, cells, read
from groundbox.trace.proof.text.markup import Plain, plain
from groundbox.trace.proof.text.phrase import Phrase, phrase
from groundbox.trace.proof.text.sentences import Form, Sentence, split
from groundbox.trace.proof.text.tokens import tokenize
from groundbox.trace.proof.values.code import names_in, parse_source

MOST_CLAIMS: Final = 20_000


class Reading(NamedTuple):
    """What a text says.

    Attributes:
        claims: In the order of the text.
    """

    sentences: Sequence[Sentence]
    claims: Sequence[Claim]


def claims_of(text: str, names: Collection[str], functions: Collection[str]) -> Reading:
    """Every claim that the grammar finds in a text.

    Args:
        names: Names and attributes of the program.
        functions: Which of them are its functions, classes included.
    """
    bare = plain(text)
    sentences = split(bare, tokenize(bare.text, bare.code))
    claims: list[Claim] = []
    for sentence in sentences:
        claims.extend(_claims(sentence, bare, sentences, frozenset(names), frozenset(functions)))
        if len(claims) > MOST_CLAIMS:
            break
    return Reading(sentences, [*claims, *_printed_blocks(text, bare, sentences)])


def _claims(
    sentence: Sentence, bare: Plain, sentences: Sequence[Sentence], names: frozenset[str], functions: frozenset[str]
) -> Sequence[Claim]:
    found = phrase(sentence, bare.text, bare.code, names)
    if sentence.form is Form.ROW:
        return _row(found, names)
    if sentence.form is Form.FENCED and _prints_before(sentence, bare, sentences):
        return ()
    return read(Draft(found, functions), _RULES, _LAST)


def _row(found: Phrase, names: frozenset[str]) -> Sequence[Claim]:
    """A row of a table: the columns whose heads are expressions of the program."""
    header = found.sentence.header
    if header is None:
        return ()
    has: list[Has] = []
    for column, (begin, end) in enumerate(cells(found)):
        if column >= len(header) or end - begin < 1:
            continue
        subject = parse_source(header[column].replace("`", ""))
        value = found.right(begin, fill=frozenset())
        if (
            subject is None
            or value is None
            or value.end < end
            or not _speaks_of(subject, names)
            or names_in(value.node)
        ):
            continue
        item = found.items
        has.append(Has(start=item[begin].start, end=item[end - 1].end, sentence=found.sentence.number,
                       subject=subject, value=value.node, how=How.IS, about=value.about))  # fmt: skip
    if not has:
        return ()
    return [Row(start=has[0].start, end=has[-1].end, sentence=found.sentence.number, cells=tuple(has))]


def _speaks_of(node: ast.expr, names: frozenset[str]) -> bool:
    used = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return bool(used) and all(name in names for name in used)


def _prints_before(sentence: Sentence, bare: Plain, sentences: Sequence[Sentence]) -> bool:
    """Whether a fenced block is said to be what the program prints."""
    block = next((start for start, end in bare.fenced if start <= sentence.start < end), 0)
    before = [other for other in sentences if other.end <= block and other.form is not Form.FENCED][-1:]
    return any(
        token.low in ("prints", "output", "outputs", "printed", "print") for other in before for token in other.tokens
    )


def _printed_blocks(text: str, bare: Plain, sentences: Sequence[Sentence]) -> Sequence[Claim]:
    claims = []
    for start, end in bare.fenced:
        inside = [sentence for sentence in sentences if start <= sentence.start < end]
        if inside and _prints_before(inside[0], bare, sentences):
            claims.append(Printed(start=start, end=end, sentence=inside[0].number, text=text[start:end], whole=True))
    return claims


def _merged(*tables: dict[str, Sequence[Rule]]) -> dict[str, Sequence[Rule]]:
    merged: dict[str, Sequence[Rule]] = {}
    for table in tables:
        for word, rules in table.items():
            merged[word] = (*merged.get(word, ()), *rules)
    return merged


# Of the rules for one word the first that makes a claim of it ends the search, so the order of the rooms matters.
_RULES: Final = _merged(
    comprehensions.RULES, frequencies.RULES, turns.RULES, counts.RULES, calls.RULES, returns.RULES, containers.RULES,
    output.RULES, exceptions.RULES, ends.RULES, quantifiers.RULES, moves.RULES, sources.RULES,
    comparisons.RULES, truths.RULES, being.RULES, values.RULES, changes.RULES, notation.RULES,
)  # fmt: skip
_LAST: Final = (*truths.LAST, *exceptions.LAST)
