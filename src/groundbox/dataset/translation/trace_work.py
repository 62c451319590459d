"""Work that a translation has done in other processes: a trace as text for the prompt, and proofs of what is told."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from groundbox.dataset.cpu_time import CpuTimeExceeded, cpu_limit
from groundbox.dataset.executor import Executor, Part, Shard
from groundbox.dataset.model_telling import Expected, Telling, TellingProver, mended
from groundbox.dataset.narration import Proved
from groundbox.trace.record.reading import Trace
from groundbox.trace.show.forms import FORMS

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
    """Work for `Executor.compute`: a compressed trace and a telling in; its proof, or why there is none.

    Attributes:
        mend: Leave sentences out of a telling that fails; nothing where that does not help.
    """

    prover: TellingProver
    cpu_s: float
    mend: bool = False

    def __call__(self, shard: Shard) -> Part:
        """See Executor.compute."""
        # Read once more in this process: a trace travels as bytes, and its objects are made where they are used.
        trace = Trace.loads(zlib.decompress(shard.payload["trace"]))
        telling, expected = Telling(**shard.payload["telling"]), Expected(**shard.payload["expected"])
        return {"json": json.dumps(self._found(telling, trace, expected)).encode()}

    def _found(self, telling: Telling, trace: Trace, expected: Expected) -> dict[str, Any]:
        try:
            with cpu_limit(self.cpu_s):
                return self._proved(telling, trace, expected)
        except CpuTimeExceeded:
            return {"reason": "proof-too-long", "detail": f"it took over {self.cpu_s:g} s of processor time"}
        except Exception as error:
            # A text that the prover fails on must not end the work on others; it is counted and shown.
            return {"reason": "prover-failed", "detail": f"{type(error).__name__}: {error}"[:500]}

    def _proved(self, telling: Telling, trace: Trace, expected: Expected) -> dict[str, Any]:
        proved = self.prover(telling, trace, expected)
        # Mending proves again for each round, so that it is asked for only when the model's repair has failed.
        if not self.mend:
            return {"proved": dataclasses.asdict(proved)}
        found = mended(telling, proved, trace, expected, self.prover)
        if found is None:
            return {}
        return {"telling": dataclasses.asdict(found[0]), "proved": dataclasses.asdict(found[1])}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TraceWork:
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

    async def prove(self, work: Proving, telling: Telling, expected: Expected) -> Proved:
        """The proof of a telling.

        Raises:
            Unfit: There is none.
        """
        return proved_from_json((await self._computed(work, "prove", self._payload(telling, expected)))["proved"])

    async def mend(self, work: Proving, telling: Telling, expected: Expected) -> tuple[Telling, Proved] | None:
        """A telling without the sentences that fail, with its proof; None where that does not help.

        Raises:
            Unfit: There is no proof.
        """
        found = await self._computed(work, "mend", self._payload(telling, expected))
        if not found:
            return None
        given = found["telling"]
        return Telling(**{**given, "left_out": tuple(given["left_out"])}), proved_from_json(found["proved"])

    def _payload(self, telling: Telling, expected: Expected) -> dict[str, Any]:
        given = {"telling": dataclasses.asdict(telling), "expected": dataclasses.asdict(expected)}
        return {"trace": self.trace, **given}

    async def _computed(self, work: Callable[[Shard], Part], stage: str, payload: Any) -> dict[str, Any]:
        part = await self.executor.compute(work, Shard(stage=stage, number=self.number, payload=payload))
        found: dict[str, Any] = json.loads(part["json"])
        if "reason" in found:
            raise Unfit(found["reason"], found["detail"])
        return found


def proved_from_json(data: Mapping[str, Any]) -> Proved:
    """The proof of its JSON form."""
    spans = tuple((start, end) for start, end in data["sentences"])
    return Proved(**{**data, "failed": tuple(data["failed"]), "unproven": tuple(data["unproven"]), "sentences": spans})
