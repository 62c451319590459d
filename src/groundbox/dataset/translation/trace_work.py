"""Work that a translation has done in other processes: a trace as text for the prompt, and proofs of what is told."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from groundbox.dataset.cpu_time import CpuTimeExceeded, cpu_limit
from groundbox.dataset.executor import Shard
from groundbox.dataset.model_telling import Expected, Telling, TellingProver, mended
from groundbox.dataset.narration import Proved
from groundbox.trace.record.reading import Trace
from groundbox.trace.show.forms import FORMS

FORM: Final[Mapping[str, str]] = {"grounded": "annotated", "paper": "scratchpad"}
"""How each prompt shows a trace; the paper's is the rawest."""


class Unfit(Exception):
    """An item that cannot be told. Its arguments are one of the fixed words of drops, and what exactly was found."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Showing:
    """Work for `Executor.compute`: a compressed trace in, text out."""

    prompt: str
    max_chars: int

    def __call__(self, shard: Shard) -> str:
        """See Executor.compute.

        Raises:
            Unfit: It cannot be shown.
        """
        trace = Trace.loads(zlib.decompress(shard.payload))
        try:
            text = FORMS[FORM[self.prompt]](trace)
        except Exception as error:
            # As below: counted and shown, and the others go on.
            raise Unfit("trace-not-shown", f"{type(error).__name__}: {error}"[:500]) from None
        if len(text) > self.max_chars:
            raise Unfit("long-trace", f"{len(text)} characters, {self.max_chars} are allowed")
        return text


class Told(NamedTuple):
    """A telling of a run.

    Attributes:
        trace: Compressed, because it waits as long as the model thinks.
    """

    telling: Telling
    trace: bytes
    expected: Expected


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proving:
    """Work for `Executor.compute`: a `Told` in; its telling and the proof of it out.

    Attributes:
        mend: Leave sentences out of a telling that fails; None where that does not help.
    """

    prover: TellingProver
    cpu_s: float
    mend: bool

    def __call__(self, shard: Shard) -> tuple[Telling, Proved] | None:
        """See Executor.compute.

        Raises:
            Unfit: There is no proof.
        """
        told: Told = shard.payload
        # Read once more in this process: a trace travels as bytes, and its objects are made where they are used.
        trace = Trace.loads(zlib.decompress(told.trace))
        try:
            with cpu_limit(self.cpu_s):
                proved = self.prover(told.telling, trace, told.expected)
                # Mending proves again for each round, so that it is asked for only when the model's repair has failed.
                if not self.mend:
                    return told.telling, proved
                return mended(told.telling, proved, trace, told.expected, self.prover)
        except CpuTimeExceeded:
            raise Unfit("proof-too-long", f"it took over {self.cpu_s:g} s of processor time") from None
        except Exception as error:
            # A text that the prover fails on must not end the work on others; it is counted and shown.
            raise Unfit("prover-failed", f"{type(error).__name__}: {error}"[:500]) from None
