"""Words of sentences that come with claims, one by one: what says something has to be claimed, the rest says nothing.

`holding.py` asks for numbers, names, quoted values and truth words. A telling by our narrator is held to more, since
its wordings are known: pieces of code and operators have to be those of a claim that covers them, words for events
("break", "takes over", "at its end") need a claim of such an event in their sentence, and every other word has to be
one that claims nothing by itself. So a word that nobody foresaw, be it a hedge or a made-up end, is not borne out.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.claims.data import MOST_CODE, ClaimData
from groundbox.trace.claims.items import is_shallow, statements
from groundbox.trace.claims.model import Kind, Number
from groundbox.trace.claims.told import PlacedClaim, parsed_code, spoken_of, tells_by_call, told
from groundbox.trace.claims.untold import Untold
from groundbox.trace.record.quoting import QUOTED, code_spans
from groundbox.values.numbers import ORDINALS, TIMES, UNITS

_SIGN: Final = re.compile(r"==|!=|<=|>=|<<|>>|\*\*|//|->|[<>*/%|&^~@%\[{]|(?<=[\w)\]}'\"] )[-+](?= )")
_WORD: Final = re.compile(r"[^\W\d_]\w*(?:['-][^\W\d]\w*)*|_\w+")
_COUNTED: Final = {
    word: str(number)
    for words in (UNITS, {"twenty": 20}, {"zeroth": 0}, ORDINALS, TIMES)
    for word, number in words.items()
}
"""Words for numbers, which have to stand in a claim as numbers have to."""
_PLAIN: Final = frozenset(
    _WORD.findall(
        """
        a after an and are as at back be become becomes begins by call case condition does down entered fails false
        for from function generator gets given go handler has here hold holds in inner is it item items iteration
        iterations its key keys long loop module name names new not now object of on or out over program repeats
        result run runs same set since so starts step steps take takes that the then there this through time times
        to true value values was way we what when which while with
        """
    )
)
"""Words that claim nothing by themselves, in the wordings of our narrator."""


class Need(NamedTuple):
    """Words that say something, and the claims of which one has to be in their sentence for each time that they do."""

    words: re.Pattern[str]
    kinds: Collection[Kind]
    fits: Callable[[ClaimData], bool]


_DIGITS: Final = re.compile(r"\d+")
_UNTOLD: Final = re.compile(
    r"(?:more )?(?:calls (?:in|of) this line|values that it gives) are (?:left out|not told) here|"
    r"(?:go the same way and )?(?:are|is) (?:left out|not told) here|ran without (?:being recorded|a record)|"
    r"the calls go on in the same way down to|this goes on down to",
    re.IGNORECASE,
)
"""Says that something is passed over, and nothing of it."""
_BACKWARD: Final = re.compile(
    r"\b(?:the (?:result|exception) to reach is|earlier still|going back, earlier|earlier|"
    r"this rests on an earlier test|"
    r"an earlier test decided on that|it was required earlier that|so the input must make|hence|for the input|"
    r"the input is one for which|an input that meets this is|is such an input|one such input is|no input is needed|"
    r"we look for an input that leads to the (?:result|exception)|given is the result|"
    r"wanted is an input that leads to it)\b",
    re.IGNORECASE,
)
"""Between the sentences of a telling from the result to the input."""


def _need(words: str, *kinds: Kind, of: str = "", value: str | None = None) -> Need:
    """Words that need a claim of these kinds, with code that has `of` in it and with this value, where it is given."""
    subject = re.compile(of)
    return Need(
        re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE),
        frozenset(kinds),
        lambda data: bool(subject.search(data.subject)) and (value is None or data.value == value),
    )


_CHANGED: Final = Kind.MUTATION
_NEEDS: Final = (
    _need(r"not empty", Kind.TEST, of=r"^not ", value="False"),
    _need(r"empty", Kind.TEST, of=r"^not ", value="True"),
    _need(r"the same \w+ as before", Kind.VALUE, Kind.RETURN, value=""),
    _need(r"the same \w+ as", Kind.TEST, of=r" is ", value="True"),
    _need(r"is (?:set to )?the \w+ that", Kind.CALL),
    _need(r"the same \w+", Kind.RETURN, value=""),
    _need(r"no items (?:are )?left|that was the last item,?", Kind.EXIT, value="'exhausted'"),
    # objects change
    _need(r"(?:is|are) appended", _CHANGED, of=r"\.(?:append|extend)\("),
    _need(r"at its end", _CHANGED, of=r"\.(?:append|extend)\("),
    _need(r"the (?:last|only) item,|from the end of", _CHANGED, of=r"\.pop\(\)"),
    _need(r"the first item,|from the front of", _CHANGED, of=r"\.pop\(0\)"),
    _need(r"at its front|at the front of", _CHANGED, of=r"\.insert\(0,"),
    _need(r"is put", _CHANGED, of=r"\.(?:insert\(0,|appendleft\()"),
    _need(r"is inserted", _CHANGED, of=r"\.insert\("),
    _need(r"the item", _CHANGED, of=r"\.pop\("),
    _need(r"at index", _CHANGED, of=r"\.(?:insert|pop)\("),
    _need(r"gains", _CHANGED, of=r"\.(?:add|update)\("),
    _need(r"loses", _CHANGED, of=r"^del |\.(?:discard|difference_update|pop)\("),
    _need(r"the name +is removed|is deleted", Kind.STATEMENT, of=r"^del "),
    _need(r"(?:is|are) (?:removed|taken)", _CHANGED, Kind.STATEMENT, of=r"^del |\.(?:discard|difference_update|pop)\("),
    _need(r"the attribute", _CHANGED, of=r"^del "),
    _need(r"(?:changes|goes) from|goes through", Kind.VALUE, Kind.MUTATION),
    # tests
    _need(r"the branch is not taken|the test on line", Kind.TEST),
    _need(r"matches", Kind.TEST),
    # calls and their ends
    _need(r"(?:is|was) called|instantiated|runs with", Kind.CALL),
    _need(r"a lambda|calls of lambdas", Kind.CALL, of=r"^<?lambda"),
    _need(r"more times?", Kind.COUNT, of=r"^calls since"),
    _need(r"is made|this makes", Kind.CALL, Kind.VALUE),
    # The call between them is blanked.
    _need(r"the \w+ that\s+returned", Kind.VALUE)._replace(fits=tells_by_call),
    _need(r"has nothing more to give|is exhausted", Kind.RETURN, value=""),
    _need(r"returned|returns|gives back|gives|yields|to return", Kind.RETURN, Kind.ANSWER, Kind.CALL, Kind.VALUE),
    _need(r"the `?(?:return)?`? *is reached|the function ends here", Kind.STATEMENT, of="^return$"),
    # ways through
    _need(r"by a break|a break ends", Kind.STATEMENT, of="^break$"),
    _need(r"a continue", Kind.STATEMENT, of="^continue$"),
    _need(r"(?:skips the rest of|ends) this iteration", Kind.STATEMENT, of="^continue$"),
    _need(r"the loop ends|ends the loop|the loop is left", Kind.COUNT, Kind.EXIT, Kind.STATEMENT),
    _need(r"goes round|has nothing to do", Kind.COUNT),
    _need(r"each time|never", Kind.COUNT, of="tests since"),
    # exceptions and output
    _need(r"takes over|catches it", Kind.CATCH),
    _need(r"the exception leaves", Kind.LEAVE),
    _need(r"(?:the exception )?does not match", Kind.CATCH, Kind.TEST),
    _need(r"(?:is )?raise[ds]", Kind.RAISE, Kind.ANSWER),
    _need(r"the program ends without printing anything", Kind.ANSWER, value="''"),
    _need(r"prints|is printed|is written|writes|without printing anything", Kind.OUTPUT, Kind.ANSWER),
    _need(r"to standard error", Kind.OUTPUT, of="stderr"),
    # comprehensions
    _need(r"all of", Kind.VALUE, of=" for "),
    _need(r"none of", Kind.VALUE, of=" for ", value="[]"),
    _need(r"pass", Kind.VALUE, of=" for "),
)
"""Phrases of our narrator, and which claims each of them needs; the first that match a place count there."""
_NEEDING: Final = re.compile("|".join(need.words.pattern for need in _NEEDS), re.IGNORECASE)
"""Any of them: most sentences have none."""
_ADDED: Final = _need("", Kind.MUTATION, of=r"\.(?:add|update)\(")
_QUIET: Final = re.compile(r"(?<!\w)nothing (?:changes|is changed)(?!\w)", re.IGNORECASE)
_STAYS: Final = re.compile(r"(?<!\w)(?:stays(?: at)?|remains|keeps the value|as before)(?!\w)", re.IGNORECASE)
_AHEAD: Final = re.compile(r"(?:stays at|remains|keeps the value) ", re.IGNORECASE)
"""Words that the value follows of which they speak."""
_GOES_ON: Final = re.compile(r"(?<!\w)the body runs (?:as before|once more)(?!\w)", re.IGNORECASE)
_MOST_WORKED: Final = 60
"""Claims of a sentence among which sums are looked for."""
_GROWS: Final = re.compile(r"(?<!\w)(?:grows|goes up by|adding|(?:is|are) added)(?!\w)", re.IGNORECASE)
_FALLS: Final = re.compile(r"(?<!\w)(?:falls|goes down by|subtracting|is subtracted)(?!\w)", re.IGNORECASE)


class Work:
    """Comparisons that are left to a text; beyond them nothing is borne out."""

    def __init__(self, most: int) -> None:
        self._left = most

    def allows(self, count: int) -> bool:
        """Count something that is about to be done."""
        self._left -= count
        return self._left >= 0


def loose(
    text: str, start: int, end: int, claims: Sequence[PlacedClaim], untold: Untold, work: Work
) -> Sequence[Number]:
    """Words, signs and pieces of code of a sentence that none of its claims bears out.

    Args:
        claims: The sentence's claims that hold.
    """
    if not work.allows(end - start):
        return [Number(start=start, end=end, covered=False)]
    held = _Held(text, start, end, claims, untold, work)
    return [*held.code(), *held.signs(), *held.words()]


class _Held:
    """A sentence and what its claims bear out."""

    def __init__(
        self, text: str, start: int, end: int, claims: Sequence[PlacedClaim], untold: Untold, work: Work
    ) -> None:
        self._untold = untold
        self._work = work
        self._start = start
        self._claims = claims
        self._said = text[start:end]
        self._code = code_spans(self._said)
        bare = _blank(self._said, self._code)
        # Code and quoted values are blanked, and not cut out: places stay what they are in the sentence. So is the
        # function that answers, which stands without backticks and may have any word for a name, such as `first`.
        bare = _blank(bare, [found.span() for found in QUOTED.finditer(bare)])
        spans = {
            (each.start - self._start, each.end - self._start)
            for each in self._claims
            if each.kind is Kind.ANSWER and text[each.start : each.end] == each.shown
        }
        self._bare = _blank(bare, [found.span() for found in _WORD.finditer(bare) if found.span() in spans])
        self._known = bytearray(len(self._bare))

    def code(self) -> Iterator[Number]:
        """Pieces of code that are no part of a claim that covers them."""
        for start, end in self._code:
            code = self._said[start + 1 : end - 1]
            if not any(_has_code(data, code) for data in self._covering(start, end)):
                yield self._loose(start, end)

    def signs(self) -> Iterator[Number]:
        """Operators and brackets that are no part of a claim that covers them."""
        for found in _SIGN.finditer(self._bare):
            if not any(found[0] in _found_in(_SIGN, data) for data in self._covering(*found.span())):
                yield self._loose(*found.span())

    def words(self) -> Iterator[Number]:
        """Words that say something which is not claimed, and words that are unknown."""
        # Found, so that their words are known; they claim nothing.
        for frame in (_UNTOLD, _BACKWARD):
            for _ in self._found(frame):
                pass
        for need in _NEEDS if _NEEDING.search(self._bare) else ():
            if spans := list(self._found(need.words)):
                yield from self._beyond(self._fitting(need), spans)
        for words, is_so in ((_QUIET, self._is_quiet), (_GOES_ON, lambda at: self._claims), (_STAYS, self._stays)):
            yield from (self._loose(*span) for span in self._found(words) if not is_so(span[0]))
        if grows := list(self._found(_GROWS)):
            yield from self._beyond(self._worked("+") + self._fitting(_ADDED), grows)
        if falls := list(self._found(_FALLS)):
            yield from self._beyond(self._worked("-"), falls)
        for start, end in self._found(_WORD):
            word = self._bare[start:end].lower()
            if word in _PLAIN:
                continue
            if word in _COUNTED:
                claimed = (_DIGITS.findall(f"{spoken_of(data)} {data.value}") for data in self._covering(start, end))
                is_said = any(_COUNTED[word] in digits for digits in claimed)
            else:
                is_said = any(self._bare[start:end] in _found_in(_WORD, data) for data in self._covering(start, end))
            if not is_said:
                yield self._loose(start, end)

    def _found(self, words: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Yield where words stand of which nothing is known yet."""
        for found in words.finditer(self._bare):
            start, end = found.span()
            if not (self._known[start] and self._known[end - 1]):
                # A phrase is taken by the first need that has it; its words are not asked for one by one any more.
                self._known[start:end] = b"\1" * (end - start)
                yield start, end

    def _beyond(self, claims: int, spans: Sequence[tuple[int, int]]) -> Iterator[Number]:
        """Words for which there are no claims any more."""
        return (self._loose(*span) for span in spans[claims:])

    def _fitting(self, need: Need) -> int:
        # Each claim bears out its words once: a second `is appended` needs a second change.
        fitting = (each for each in self._claims if each.kind in need.kinds and need.fits(each.data))
        return len({(each.kind, each.shown, each.data.value, each.step) for each in fitting})

    def _is_quiet(self, at: int) -> bool:
        """Return whether nothing happens in the iteration that the sentence tells."""
        steps = [each.step for each in self._claims if each.step is not None and each.start <= self._start + at]
        return bool(steps) and self._untold.is_quiet(max(steps))

    def _stays(self, at: int) -> bool:
        """Return whether the value that is told around a place is the one that was before."""
        kinds = (Kind.VALUE, Kind.MUTATION)
        if ahead := _AHEAD.match(self._said, at):
            at = ahead.end()  # the name before it may be told by an earlier record
        place = self._start + at
        # A long value stands between the name and `as before`, and the claim of another name begins closer to it.
        told = [each for each in self._claims if each.kind in kinds and each.data.value and each.step is not None]
        nearest = min(
            told,
            key=lambda each: (max(0, each.start - place, place - each.end), abs(each.start - place)),
            default=None,
        )
        return nearest is not None and self._untold.stays(nearest.data)

    def _worked(self, sign: str) -> int:
        """Count the values that are an earlier one of the same subject with a third added, or taken off."""
        values: dict[str, list[tuple[int, Any]]] = {}
        every: list[Any] = []
        for data in [each.data for each in self._claims[:_MOST_WORKED]]:
            if data.kind in (Kind.VALUE, Kind.MUTATION) and data.step is not None and (said := told(data.value)).known:
                values.setdefault(data.subject.removesuffix(" = ..."), []).append((data.step, said.value))
                every.append(said.value)
            node = parsed_code(data.subject) if data.kind is Kind.VALUE else None
            if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
                every.append(node.right.value)
        if not self._work.allows(sum(len(row) ** 2 for row in values.values()) * len(every)):
            return 0
        return sum(
            any(_sum(old, by, sign) == [new] for by in every)
            for row in values.values()
            for (first, old), (second, new) in itertools.permutations(row, 2)
            if first < second
        )

    def _covering(self, start: int, end: int) -> Iterator[ClaimData]:
        start, end = start + self._start, end + self._start
        if self._work.allows(len(self._claims)):
            yield from (each.data for each in self._claims if each.start <= start and end <= each.end)

    def _loose(self, start: int, end: int) -> Number:
        return Number(start=self._start + start, end=self._start + end, covered=False)


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text with blanks for some of its parts."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def _has_code(data: ClaimData, code: str) -> bool:
    """Return whether a piece of code is a whole part of what a claim has."""
    if code in (data.subject, data.value):
        return True
    return _written(code) in _parts(spoken_of(data)) or _written(code) in _parts(data.value)


@functools.lru_cache(maxsize=4096)
def _written(code: str) -> str:
    """Code as Python writes it."""
    node = parsed_code(code)
    return ast.unparse(node) if node is not None else code


@functools.lru_cache(maxsize=1024)
def _parts(code: str) -> frozenset[str]:
    """Code and all expressions that are parts of it, as Python writes them."""
    node = parsed_code(code)
    # Not an expression: a statement, such as `x = 3` and `del x`.
    trees = [node] if node is not None else statements(code) if len(code) <= MOST_CODE else None
    if trees is None or not all(map(is_shallow, trees)):
        return frozenset(_WORD.findall(code))
    return frozenset(ast.unparse(each) for tree in trees for each in ast.walk(tree) if isinstance(each, ast.expr))


def _found_in(pattern: re.Pattern[str], data: ClaimData) -> frozenset[str]:
    """Signs or names of the code of a claim, outside of quoted texts."""
    return _found_in_code(pattern, data.subject) | _found_in_code(pattern, data.value)


@functools.lru_cache(maxsize=8192)
def _found_in_code(pattern: re.Pattern[str], code: str) -> frozenset[str]:
    return frozenset(pattern.findall(QUOTED.sub(" ", code)))


def _sum(one: Any, other: Any, sign: str) -> list[Any]:
    """Both together, as a list; none where they are of kinds that do not go together."""
    kinds = (int, float, str, list, tuple)
    if type(one) not in kinds or type(other) not in kinds:
        return []
    try:
        return [one + other if sign == "+" else one - other]
    except (TypeError, OverflowError):
        return []
