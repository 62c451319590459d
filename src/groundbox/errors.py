"""What groundbox itself can get wrong, as exceptions.

What a guest does wrong is a value (`Execution.outcome`), and one of these only where `raise_for_error` is called.
Each error says in its attributes whether the program ran and whether the sandbox can be used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from groundbox.unseen import on_one_line, visible

if TYPE_CHECKING:
    from groundbox.execution import Execution

_MOST_MESSAGE_CHARS: Final = 500
_MOST_NOTE_CHARS: Final = 10_000


class GroundboxError(Exception):
    """Base of everything groundbox raises on purpose.

    Attributes:
        program_ran: Whether guest code may have started before the failure.
        sandbox_usable: Whether the sandbox the call was made on still answers.
    """

    program_ran: bool = False
    sandbox_usable: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors can be sent between processes, whatever their constructors take."""
        return _made_again, (type(self), self.args, vars(self))


def _made_again(kind: type[GroundboxError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> GroundboxError:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


class ProgramFailed(GroundboxError):
    """The program failed, and `Execution.raise_for_error` was asked to raise for it.

    The message is on one line; the traceback and the hints are notes. What the guest says in them is made visible:
    nothing in it acts on a terminal or forges a line of a log.

    Attributes:
        execution: The result.
        outcome: Its outcome.
    """

    program_ran = True

    def __init__(self, execution: Execution) -> None:
        self.execution, self.outcome = execution, execution.outcome
        self.sandbox_usable = execution.state == "kept"
        failure = execution.error
        told = "" if failure is None else on_one_line(f": {failure.type}: {failure.message}", _MOST_MESSAGE_CHARS)
        where = "" if failure is None or failure.line is None else f" (line {failure.line})"
        super().__init__(f"the program ended with outcome {execution.outcome.value}{told}{where}")
        if failure is not None and failure.traceback:
            self.add_note(visible(failure.traceback[-_MOST_NOTE_CHARS:]).rstrip("\n"))
        for hint in () if failure is None else failure.hints:
            self.add_note(f"hint: {on_one_line(hint, _MOST_MESSAGE_CHARS)}")


class InvalidArgument(GroundboxError, ValueError):
    """An argument that cannot be meant. The message names it and says how to mend it."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument
        self.problem = problem


class UnknownArgument(InvalidArgument, TypeError):
    """An argument that there is not. The message names the one that was probably meant.

    A TypeError as well, because that is what a call of any other Python function raises.
    """


class SandboxUnavailable(GroundboxError):
    """A layer of the wall cannot stand on this host, so nothing was run.

    Attributes:
        missing: One entry per layer, `name: reason`.
        mends: What to do about it, a sentence each; empty where only `groundbox doctor` can tell.
    """

    sandbox_usable = False

    def __init__(self, missing: Sequence[str], mends: Sequence[str] = ()) -> None:
        self.missing = list(missing)
        self.mends = [mend for mend in mends if mend]
        layers = "; ".join(self.missing)
        cure = " ".join(self.mends) or "`groundbox doctor` explains each layer and what to do about it."
        super().__init__(f"refusing to run, because the sandbox would be incomplete: {layers}. {cure}")


class ExtraMissing(GroundboxError):
    """A library of an extra is not installed.

    Attributes:
        library: Its name on the package index.
    """

    def __init__(self, library: str, purpose: str, install: str = "pyarrow duckdb rensa httpx") -> None:
        super().__init__(f"{library} is needed {purpose}, and not installed: pip install {install}")
        self.library = library


class LanguageUnavailable(GroundboxError):
    """The program of a language is not where guests see it, so nothing was run.

    Attributes:
        language: Its name.
        needs: The program that is missing.
        advice: How to get it.
    """

    def __init__(self, language: str, needs: str, advice: str) -> None:
        self.language, self.needs, self.advice = language, needs, advice
        super().__init__(f"{language} is not installed here: guests see no {needs}. To get it: {advice}")


class TracerMissing(GroundboxError):
    """The native tracer was asked for by name, and the environment has none, so nothing was run.

    Attributes:
        environment: Its name.
        why: Why there is none, as `groundbox doctor` tells it.
    """

    def __init__(self, environment: str, why: str) -> None:
        self.environment, self.why = environment, why
        super().__init__(
            f"the environment {environment!r} has no native tracer: {why}. "
            "TraceOptions(core='auto') takes the plain one there, which is slow and folds nothing"
        )


class SandboxClosed(GroundboxError):
    """The sandbox was closed by its owner."""

    sandbox_usable = False

    def __init__(self) -> None:
        super().__init__("this sandbox is closed; make a new one")


class SandboxLost(GroundboxError):
    """The sandbox's process is gone, and its variables with it.

    Attributes:
        with_files: Whether its files are gone, too, as with the node of a fleet; else they can still be read.
    """

    sandbox_usable = False

    def __init__(self, why: str, *, with_files: bool = False) -> None:
        what = "its variables and files" if with_files else "its variables"
        advice = "make another sandbox" if with_files else "call restart() to go on with the same files"
        fresh = "" if with_files else " and a fresh interpreter"
        super().__init__(f"this sandbox's process is gone ({why}) and {what} with it; {advice}{fresh}")
        self.why, self.with_files = why, with_files


class HostExhausted(SandboxLost):
    """The machine ran out of memory or disk space during a run, so nothing is known of the program's result.

    A limit of the sandbox itself is an outcome of the run, never this.
    """

    program_ran = True


class SandboxBusy(GroundboxError):
    """A live sandbox cannot be copied at this moment; nothing was done, and it goes on.

    Attributes:
        why: What is in the way: threads, processes, sockets, memory that is shared.
    """

    program_ran = True

    def __init__(self, why: str) -> None:
        super().__init__(f"this sandbox cannot be copied now: {why}")
        self.why = why


class CheckpointLost(GroundboxError):
    """A checkpoint is gone: it was dropped, its sandbox was closed, or the kernel ended it for memory."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this checkpoint is gone ({why}); take another one")
        self.why = why


class TemplateFailed(GroundboxError):
    """A template process did not start or died, for a reason that is not the guest's.

    Attributes:
        log: The end of what the template wrote to its standard error.
    """

    sandbox_usable = False

    def __init__(self, what: str, log: str = "") -> None:
        super().__init__(what + (f"\n{log}" if log else ""))
        self.log = log


class WireError(GroundboxError):
    """A guest broke the protocol on its socket: a frame too large, too deep, or not of the schema.

    The worker that sent it has been destroyed.
    """

    program_ran = True
    sandbox_usable = False


class GuestFileError(GroundboxError):
    """A file could not be put into or taken out of a workdir.

    Attributes:
        path: The path inside the workdir.
        errno: The kernel's number for the reason, such as `errno.ENOENT`, where it is the kernel's.
    """

    def __init__(self, path: str, reason: str, errno: int | None = None) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.errno = errno


class GuestProcessError(GroundboxError):
    """A process could not be started in a sandbox, or not be written to.

    Attributes:
        command: As it was asked for, on one line and cut.
        reason: In words.
        errno: The kernel's number for the reason, such as `errno.ENOENT`, where it is the kernel's.
    """

    def __init__(self, command: str, reason: str, errno: int | None = None) -> None:
        super().__init__(f"{command}: {reason}")
        self.command = command
        self.reason = reason
        self.errno = errno


class EnvironmentFailed(GroundboxError):
    """An environment is missing, or could not be built or checked; the one in use stays as it was."""


class ServerUnreachable(GroundboxError):
    """A server does not answer, or not to the end; whether a program ran there is then not known."""

    sandbox_usable = False

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; `groundbox serve` starts a server, `groundbox engine status` tells of your own")
        self.problem = problem


class EngineUnavailable(GroundboxError):
    """The engine of this user, which commands share, does not start or has ended; `--no-engine` does without."""

    sandbox_usable = False

    def __init__(self, problem: str) -> None:
        super().__init__(f"the engine in the background: {problem}. GROUNDBOX_ENGINE=off does without it")
        self.problem = problem


class ServerRefused(GroundboxError):
    """A server gave no result; nothing ran, or nothing is known of it.

    Attributes:
        status: Of HTTP: 4xx is the caller's fault, 429 means later, 5xx that the server or its machine failed.
        code: A word for programs, such as `busy`.
        retry_after_s: When to ask again, where the server says so.
    """

    def __init__(self, status: int, code: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"the server refused ({status} {code}): {message}")
        self.status, self.code, self.retry_after_s = status, code, retry_after_s
