"""Tests of a function that answers elsewhere: of one problem, for one solution after the other.

They run in a sandbox of their own, never in that of a solution (learn/evaluation/judging.py).

A rehearsal comes first: the tests run with a stand-in for the function, which answers each call with something that
passes for anything, so that the calls are known whose arguments do not hang on earlier answers. They are made together
in the solution's sandbox. Then the tests run in a thread with the true answers. A call that was not foreseen is asked
of the host: the cell ends with the question, and the next cell hands the answer to the thread.
"""

import ast
import builtins
import json
import queue
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from groundbox.values.codec import decode, encode

MOST_FORESEEN: Final = 1000
MOST_FORESEEN_CHARS: Final = 1 << 20
"""Of the arguments of these calls, as JSON."""
REHEARSAL_S: Final = 1.0
_MOST_DEPTH: Final = 200
"""Of arguments: more than travels, so that it is the host which says that they are no data."""


class Asked(dict[str, Any]):
    """Value of a cell, as data for the host."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"text/plain": self["kind"], "application/json": dict(self)}


class Enough(BaseException):
    """The rehearsal has gone on for long enough."""


class Anything:
    """Stands for a result: equal to all there is, of any type that it is taken for."""

    def _self(self, *_: Any, **__: Any) -> "Anything":
        return self

    __call__ = __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _self
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __or__ = _self
    __xor__ = __neg__ = __pos__ = __abs__ = __round__ = __enter__ = _self

    def _true(self, *_: Any) -> bool:
        return True

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = _true

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> "Anything":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 1

    def __int__(self) -> int:
        return 1

    __index__ = __int__

    def __float__(self) -> float:
        return 1.0

    def __str__(self) -> str:
        return ""

    def __exit__(self, *_: Any) -> None:
        return


class Lenient(ast.NodeTransformer):
    """Makes of each assertion a statement that goes on whatever comes of it."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        passes = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Pass()])
        return ast.copy_location(ast.Try([ast.Expr(node.test)], [passes], [], []), node)


class Tests:
    """The tests of one problem.

    The function under test has two names in HumanEval: `check` gets it as `candidate`, and some tests use its own.
    """

    def __init__(self, source: str, entry: str, most_calls: int) -> None:
        self._source, self._entry, self._most_calls = source, entry, most_calls
        self._asked: queue.Queue[Asked] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._known: dict[str, list[dict[str, Any]]] = {}
        self._calls, self._spent_s = 0, 0.0

    def rehearse(self, seed: int) -> Asked:
        """The calls that can be foreseen with this seed of `random`."""
        return Asked(kind="calls", calls=self._rehearsed(seed))

    def begin(self, seed: int, known: str) -> Asked:
        """Run the tests with these answers, each with its call; the first question beyond them, or the end."""
        self._calls, self._spent_s = 0, 0.0
        self._known = {}
        for call, answer in json.loads(known):
            self._known.setdefault(json.dumps(call), []).append(answer)
        threading.Thread(target=self._run, args=[seed], daemon=True).start()
        return self._asked.get()

    def answer(self, text: str) -> Asked:
        """Go on with an answer; the next thing that is asked, or the end."""
        self._answers.put(json.loads(text))
        return self._asked.get()

    def _rehearsed(self, seed: int) -> list[Any]:
        calls: list[Any] = []
        until = time.monotonic() + REHEARSAL_S
        count, chars = 0, 0

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            nonlocal count, chars
            count += 1
            if count > MOST_FORESEEN or time.monotonic() > until:
                raise Enough
            try:
                call = _call_data(args, kwargs)
                chars += len(json.dumps(call))
            except (ValueError, RecursionError):
                return Anything()  # made of an earlier answer, or no data
            if chars > MOST_FORESEEN_CHARS:
                raise Enough
            calls.append(call)
            return Anything()

        def ring(*_: Any) -> None:
            raise Enough

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, REHEARSAL_S, REHEARSAL_S)
        try:
            tree = ast.fix_missing_locations(Lenient().visit(ast.parse(self._source)))
            self._prepared(compile(tree, "<tests>", "exec"), seed, stand_in)(stand_in)
        except (Exception, Enough, SystemExit):
            pass  # what was foreseen until here is of use all the same
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return calls

    def _run(self, seed: int) -> None:
        kind, error = "tests", ""
        try:
            check = self._prepared(compile(self._source, "<tests>", "exec"), seed, self._candidate)
            kind = "failed"
            check(self._candidate)
            kind = "passed"
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"[:300]
        self._ask(kind=kind, error=error)

    def _prepared(self, code: Any, seed: int, candidate: Callable[..., Any]) -> Callable[..., Any]:
        """`check` of the tests. No answer has a part in it, so a failure here is the tests' own."""
        random.seed(seed)
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed(seed % (1 << 32))
        space: dict[str, Any] = {"__name__": "tests"}
        exec(code, space)
        check: Callable[..., Any] = space["check"]
        space[self._entry] = candidate  # whose own name may be `check`, too
        return check

    def _candidate(self, *args: Any, **kwargs: Any) -> Any:
        self._calls += 1
        if self._calls > self._most_calls:
            self._ask(kind="many")
            self._answers.get()  # which never comes
        call = _call_data(args, kwargs)
        known = self._known.get(json.dumps(call))
        if known:
            answer = known.pop(0)
        else:
            self._ask(kind="call", args=call[0], kwargs=call[1])
            answer = self._answers.get()
        if "lost" in answer:
            self._ask(kind="lost", lost=answer["lost"], detail=answer["detail"])
            self._answers.get()
        self._spent_s += answer["wall_s"]
        if "raised" in answer:
            kind = getattr(builtins, answer["raised"], None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                kind = RuntimeError
            raise kind(answer["message"])
        return decode(answer["value"])

    def _ask(self, **asked: Any) -> None:
        self._asked.put(Asked(calls_made=self._calls, spent_s=self._spent_s, **asked))


def _call_data(args: Any, kwargs: Any) -> list[Any]:
    return [encode(each, exact=False, most_depth=_MOST_DEPTH) for each in (args, kwargs)]
