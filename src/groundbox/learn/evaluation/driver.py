"""Runs in the sandbox of the tests, never in that of a solution: the tests in a thread, one call at a time.

The thread asks (`call`), the cell ends with the question, the host asks the solution in its own sandbox, and the next
cell hands the answer to the thread.
"""

import builtins
import json
import queue
import threading
from collections.abc import Callable
from typing import Any


class Asked(dict[str, Any]):
    """What a cell ends with, as data for the host."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"text/plain": self["kind"], "application/json": dict(self)}


class Tests:
    """The tests of one problem and where they are.

    The function under test has two names in HumanEval: `check` gets it as `candidate`, and some tests use its own.
    """

    def __init__(self, source: str, entry: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
        self._source, self._entry, self._encode, self._decode = source, entry, encode, decode
        self._asked: queue.Queue[Asked] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()

    def start(self) -> Asked:
        """Begin; the first thing that is asked, or the end."""
        threading.Thread(target=self._run, daemon=True).start()
        return self._asked.get()

    def answer(self, text: str) -> Asked:
        """Go on with an answer; the next thing that is asked, or the end."""
        self._answers.put(json.loads(text))
        return self._asked.get()

    def _run(self) -> None:
        try:
            space: dict[str, Any] = {"__name__": "tests"}
            exec(compile(self._source, "<tests>", "exec"), space)  # noqa: S102
            space[self._entry] = self._candidate
            space["check"](self._candidate)
        except BaseException as error:
            self._asked.put(Asked(kind="failed", error=f"{type(error).__name__}: {error}"[:300]))
        else:
            self._asked.put(Asked(kind="passed"))

    def _candidate(self, *args: Any, **kwargs: Any) -> Any:
        self._asked.put(Asked(kind="call", args=self._encode(args), kwargs=self._encode(kwargs)))
        answer = self._answers.get()
        if "raised" in answer:
            kind = getattr(builtins, answer["raised"], None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                kind = RuntimeError
            raise kind(answer["message"])
        return self._decode(answer["value"])
