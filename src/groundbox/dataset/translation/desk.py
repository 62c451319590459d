"""What a translation computes in other processes: a trace as text for the prompt, and the proof of an answer."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from groundbox.dataset.executor import Executor, Part, Shard
from groundbox.dataset.narrating import Proved, Prover
from groundbox.dataset.patience import Impatient, at_most
from groundbox.trace.reading import Trace
from groundbox.trace.render.forms import FORMS

FORM: Final[Mapping[str, str]] = {"grounded": "annotated", "paper": "scratchpad"}
"""How each prompt shows a trace; the paper's is the rawest."""


class Unfit(Exception):
    """An item that cannot be told; `reason` is one of the fixed words of drops."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class Showing:
    """Work for `Executor.compute`: a compressed trace in, text out."""

    prompt: str
    max_chars: int

    def __call__(self, shard: Shard) -> Part:
        """See Executor.compute."""
        return {"json": json.dumps(self._shown(Trace.loads(zlib.decompress(shard.payload)))).encode()}

    def _shown(self, trace: Trace) -> dict[str, str]:
        try:
            text = FORMS[FORM[self.prompt]](trace)
        except Exception as error:
            # As below: counted and shown, and the others go on.
            return {"reason": "trace-not-shown", "detail": f"{type(error).__name__}: {error}"[:500]}
        if len(text) > self.max_chars:
            return {"reason": "long-trace", "detail": f"{len(text)} characters, {self.max_chars} are allowed"}
        return {"text": text}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proving:
    """Work for `Executor.compute`: a compressed trace and a text in; what the prover says, or why it says nothing."""

    prover: Prover
    cpu_s: float

    def __call__(self, shard: Shard) -> Part:
        """See Executor.compute."""
        trace = Trace.loads(zlib.decompress(shard.payload["trace"]))
        return {"json": json.dumps(self._found(shard.payload["text"], trace)).encode()}

    def _found(self, text: str, trace: Trace) -> dict[str, Any]:
        try:
            with at_most(self.cpu_s):
                return dataclasses.asdict(self.prover(text, trace))
        except Impatient:
            return {"reason": "proof-too-long", "detail": f"it took over {self.cpu_s:g} s of processor time"}
        except Exception as error:
            # A text that the prover fails on must not end the work on others; it is counted and shown.
            return {"reason": "prover-failed", "detail": f"{type(error).__name__}: {error}"[:500]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Desk:
    """Has it computed, for the trace of one item.

    Attributes:
        trace: Compressed, because it waits as long as the model thinks.
    """

    executor: Executor
    number: int
    trace: bytes

    async def show(self, work: Showing) -> str:
        """The trace as text.

        Raises:
            Unfit: It cannot be shown.
        """
        text: str = (await self._computed(work, "show", self.trace))["text"]
        return text

    async def prove(self, work: Proving, text: str) -> Proved:
        """The proof of a text.

        Raises:
            Unfit: There is none.
        """
        return proved_from_json(await self._computed(work, "prove", {"trace": self.trace, "text": text}))

    async def _computed(self, work: Callable[[Shard], Part], stage: str, payload: Any) -> dict[str, Any]:
        part = await self.executor.compute(work, Shard(stage=stage, number=self.number, payload=payload))
        found: dict[str, Any] = json.loads(part["json"])
        if "reason" in found:
            raise Unfit(found["reason"], found["detail"])
        return found


def proved_from_json(data: Mapping[str, Any]) -> Proved:
    """The proof of its JSON form."""
    return Proved(**{**data, "failed": tuple(data["failed"]), "unproven": tuple(data["unproven"])})
