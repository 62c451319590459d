"""What a text can claim about a run: one class for each kind of statement."""

from __future__ import annotations

import ast
import dataclasses
from enum import StrEnum
from typing import Any

from groundbox.trace.proof.values.things import Opaque, Part


class Kind(StrEnum):
    """What sort of thing a claim says."""

    VALUE = "value"  # a name has a value
    CHANGE = "change"  # a name takes a value, or goes from one to another
    CONDITION = "condition"  # an expression is true or false
    CALL = "call"  # a function is called with arguments
    RETURN = "return"  # a call returns or yields a value
    COUNT = "count"  # so many iterations, calls, levels of recursion
    LINE = "line"  # it happens in this line
    CONTAINER = "container"  # an item is added, removed, swapped
    OUTPUT = "output"  # text is printed
    EXCEPTION = "exception"  # an exception is raised
    ARITHMETIC = "arithmetic"  # two expressions are equal
    ANSWER = "answer"  # the result of the whole run


class How(StrEnum):
    """In which way a name is said to have a value."""

    IS = "is"
    BECOMES = "becomes"
    STAYS = "stays"
    IS_NOT = "is not"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """One checkable statement.

    Attributes:
        start: Where its words begin in the text.
        end: Where they end.
        sentence: The number of its sentence.
        recap: Whether the text says that it looks back, so that it may hold at an earlier moment.
        reason: Whether the text gives it as the reason of something, so that it may hold a little earlier.
        later: Whether the text says that it holds when what the sentence tells before is over (`after which`).
    """

    start: int
    end: int
    sentence: int
    recap: bool = False
    reason: bool = False
    later: bool = False

    @property
    def kind(self) -> Kind:
        """What sort of thing it says."""
        return Kind.VALUE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Has(Claim):
    """`subject` has `value`; both are expressions. With `about`, a number is rounded."""

    subject: ast.expr
    value: ast.expr
    how: How = How.IS
    about: bool = False

    @property
    def kind(self) -> Kind:
        """A change if it says so."""
        return Kind.CHANGE if self.how is How.BECOMES else Kind.VALUE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Goes(Claim):
    """`subject` takes these values one after the other. `whole`: what is between two of them is left out.

    With `first_is_old` the first value is the one that it had before. Without a subject, some name does.
    With `by`, the last value is the one before it and so much more (`sign` -1: less).
    """

    subject: ast.expr | None
    values: tuple[ast.expr, ...]
    first_is_old: bool = True
    whole: bool = False
    about: bool = False
    by: ast.expr | None = None
    sign: int = 1

    @property
    def kind(self) -> Kind:
        """A change."""
        return Kind.CHANGE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Grows(Claim):
    """`subject` changes by `amount`, down with `sign` -1."""

    subject: ast.expr
    amount: ast.expr
    sign: int = 1

    @property
    def kind(self) -> Kind:
        """A change."""
        return Kind.CHANGE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Alters(Claim):
    """`subject` has another value than before, whichever."""

    subject: ast.expr

    @property
    def kind(self) -> Kind:
        """A change."""
        return Kind.CHANGE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Truth(Claim):
    """`test` is true or false; without a test, the condition that is evaluated next.

    `given` are the values that the sentence has said of names in the test: `when x is 7, x % 2 == 0 is true`.
    `put_otherwise`: the text has words for the test, so that the program may ask it in another form: `xs is empty`.
    `line`: where the test stands, of which the text says no more: `the test on line 7 is false`.
    `quoted`: the text gives it as code, so that the program has to write it so.
    """

    test: ast.expr | None
    truth: bool
    given: tuple[Has, ...] = ()
    put_otherwise: bool = False
    line: int | None = None
    quoted: bool = False

    @property
    def kind(self) -> Kind:
        """A condition."""
        return Kind.CONDITION


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Called(Claim):
    """A function is called, `by` another one. `arguments` None: nothing is said of them; `whole`: they are all.

    `turn`: the text says that it is for the third time, or the like.
    """

    function: str
    arguments: tuple[tuple[str | None, ast.expr], ...] | None = None
    whole: bool = True
    by: str | None = None
    turn: int | None = None

    @property
    def kind(self) -> Kind:
        """A call."""
        return Kind.CALL


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BackIn(Claim):
    """A call goes on that waited for another one."""

    function: str
    arguments: tuple[tuple[str | None, ast.expr], ...] | None

    @property
    def kind(self) -> Kind:
        """A call."""
        return Kind.CALL


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Returned(Claim):
    """A call returns (or, `yields`, gives out) `value`. Without a function, the one that is running.

    Attributes:
        call: The call as the text writes it, where it may be one of a namesake in a standard type: `options.get(3)`.
    """

    function: str | None
    arguments: tuple[tuple[str | None, ast.expr], ...] | None
    value: ast.expr
    yields: bool = False
    about: bool = False
    call: ast.Call | None = None

    @property
    def kind(self) -> Kind:
        """A return."""
        return Kind.RETURN


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Kept(Claim):
    """`subject` has what a call returned; the text names the call and not the value."""

    subject: ast.expr
    function: str
    arguments: tuple[tuple[str | None, ast.expr], ...] | None
    how: How = How.IS

    @property
    def kind(self) -> Kind:
        """A change if it says so."""
        return Kind.CHANGE if self.how is How.BECOMES else Kind.VALUE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Iterated(Claim):
    """A loop has so many iterations; `ends`: the text says so where the loop ends.

    `which` says `for`, `while`, `outer`, `inner`, the name that the loop gives values to, or its condition; `exit` why
    it ends: `exhausted`, `break`.
    """

    count: int
    which: str = ""
    ends: bool = False
    exit: str = ""

    @property
    def kind(self) -> Kind:
        """A count."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class InIteration(Claim):
    """What is told next happens in iteration `number` of a loop; `exit`: the loop is left there, `by` a `break`."""

    number: int
    exit: bool = False
    by: str = ""

    @property
    def kind(self) -> Kind:
        """A count."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Span(Claim):
    """What the sentence tells next happens in iterations `begin` to `finish` of a loop, taken together.

    `which` says which loop, as of `Iterated`.
    """

    begin: int
    finish: int
    which: str = ""

    @property
    def kind(self) -> Kind:
        """A count."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Held(Claim):
    """In the iterations that the sentence tells, `test` was `truth` so many times; None: each time.

    With `total`, it was evaluated so many times.
    """

    test: ast.expr
    truth: bool
    count: int | None
    total: int | None = None

    @property
    def kind(self) -> Kind:
        """A condition."""
        return Kind.CONDITION


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Mapped(Claim):
    """What a comprehension made of its items: `code` gave these `values` for these `items`."""

    code: ast.expr
    values: tuple[ast.expr, ...]
    items: tuple[ast.expr, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Passed(Claim):
    """Of what a comprehension went through, these `items` passed its `test`; None: all of them."""

    test: ast.expr
    items: tuple[ast.expr, ...] | None
    through: ast.expr

    @property
    def kind(self) -> Kind:
        """A condition."""
        return Kind.CONDITION


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Counted(Claim):
    """So many calls of a function (`what` is `calls`), or levels of calls in each other (`depth`).

    Or so many calls of a function by itself (`self-calls`), values that it yields (`yields`), changes of `subject`
    (`changes`), prints of `text` at the least (`prints`), lines of output (`lines`), or `text` in the
    line of this number (`line`).
    """

    what: str
    count: int
    function: str | None = None
    subject: ast.expr | None = None
    text: str = ""

    @property
    def kind(self) -> Kind:
        """A count."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AtLine(Claim):
    """What the sentence tells happens in this line."""

    line: int

    @property
    def kind(self) -> Kind:
        """A line."""
        return Kind.LINE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Changed(Claim):
    """`item` is added to or removed from `target`, or two items are swapped. What is None is not said.

    `more` are further items of the same change. `place` is where, of a list: `end`, `front`, or an index.
    """

    action: str
    item: ast.expr | None
    target: ast.expr | None
    other: ast.expr | None = None
    more: tuple[ast.expr, ...] = ()
    place: str | int = ""

    @property
    def kind(self) -> Kind:
        """A container's change."""
        return Kind.CONTAINER


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Yields(Claim):
    """Some name or call has this value now: `giving [1, 4]`, `-> [1, 4]`."""

    value: ast.expr
    about: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Row(Claim):
    """A row of a table: all these have their values at the same moment."""

    cells: tuple[Has, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Printed(Claim):
    """The program writes `text`; `whole`: that is all it writes; `again`: it may be all it writes, told once more.

    Attributes:
        cut: The text, where the middle of it is left out.
        to_error: The text says that it goes to standard error.
    """

    text: str
    cut: Part | None = None
    whole: bool = False
    again: bool = False
    to_error: bool = False

    @property
    def kind(self) -> Kind:
        """Output."""
        return Kind.OUTPUT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Raised(Claim):
    """An exception of this type comes up; `handled` True: and a handler takes it."""

    type: str | None
    message: str | Part | Opaque | None = None
    handled: bool | None = None
    by: str | None = None

    @property
    def kind(self) -> Kind:
        """An exception."""
        return Kind.EXCEPTION


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Jumped(Claim):
    """A `break` ends the loop, or (`way`) a `continue` the iteration, that goes on."""

    way: str

    @property
    def kind(self) -> Kind:
        """A count: which iteration is the last, or has no more."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Caught(Claim):
    """An `except` of this type, as it is written, takes an exception or (`matches` False) does not."""

    type: str
    matches: bool = True

    @property
    def kind(self) -> Kind:
        """An exception."""
        return Kind.EXCEPTION


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Unwound(Claim):
    """An exception leaves a call."""

    function: str
    arguments: tuple[tuple[str | None, ast.expr], ...] | None

    @property
    def kind(self) -> Kind:
        """An exception."""
        return Kind.EXCEPTION


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Denied(Claim):
    """`of` does not happen here: in the iteration, or the call, that is told. With `never`: in the whole call."""

    of: Claim
    never: bool = False

    @property
    def kind(self) -> Kind:
        """What would happen."""
        return self.of.kind


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Handled(Claim):
    """The exception that came up last is taken by a handler, in `function`; or (`handled` False) by none."""

    handled: bool
    function: str | None = None

    @property
    def kind(self) -> Kind:
        """An exception."""
        return Kind.EXCEPTION


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Deleted(Claim):
    """The name has no value any more."""

    name: str

    @property
    def kind(self) -> Kind:
        """A change."""
        return Kind.CHANGE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Exhausted(Claim):
    """A generator of the function has nothing more to give."""

    function: str

    @property
    def kind(self) -> Kind:
        """A return."""
        return Kind.RETURN


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Ends(Claim):
    """A loop ends `never`, `early`, or for want of items (`exhausted`); or it goes `on` for now."""

    way: str

    @property
    def kind(self) -> Kind:
        """A count: which iteration is the last."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Moved(Claim):
    """`subject` changes in this way, at some time: `up`, `down`, `doubled`, `emptied`."""

    subject: ast.expr
    way: str

    @property
    def kind(self) -> Kind:
        """A change."""
        return Kind.CHANGE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Looped(Claim):
    """A loop of the program gives items of `source` to `target`, beginning with `begin`. What is None is not said."""

    target: ast.expr | None
    source: ast.expr | None = None
    begin: int | None = None

    @property
    def kind(self) -> Kind:
        """A count."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Turn(Claim):
    """What is told next happens in the last iteration of the loop that goes on, or for the item of this number."""

    number: int | None
    is_last: bool = False

    @property
    def kind(self) -> Kind:
        """A count."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Remaining(Claim):
    """So many iterations of a loop that goes on come yet; with `at_most`, they need not be all."""

    count: int
    at_most: bool = False

    @property
    def kind(self) -> Kind:
        """A count."""
        return Kind.COUNT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Idle(Claim):
    """Nothing happens where the condition that is told leads to."""

    @property
    def kind(self) -> Kind:
        """A change: none."""
        return Kind.CHANGE


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Never(Claim):
    """`test`, of a value of `subject`, does not hold at any time."""

    subject: ast.expr
    test: ast.expr


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Equal(Claim):
    """All these expressions are equal, at the moment that is told."""

    parts: tuple[ast.expr, ...]
    about: bool = False

    @property
    def kind(self) -> Kind:
        """Arithmetic."""
        return Kind.ARITHMETIC


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Answer(Claim):
    """The result of the whole run."""

    value: ast.expr | None
    text: str = ""
    about: bool = False

    @property
    def kind(self) -> Kind:
        """The answer."""
        return Kind.ANSWER


def words(node: ast.expr) -> str:
    """An expression as Python text."""
    try:
        return ast.unparse(node)
    except (AttributeError, ValueError, RecursionError, TypeError):
        return "…"


def value_text(value: Any, most: int = 200) -> str:
    """A compared value as text for a message."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
