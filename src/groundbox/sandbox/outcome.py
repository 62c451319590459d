"""What came of a run, told in the words of `Execution`: its outcome, its failure, its warnings."""

from __future__ import annotations

import posixpath
import re
import signal
from collections.abc import Iterator, Sequence
from typing import Final

from groundbox.execution import Execution, Failure, Outcome, Warning
from groundbox.limits import Limits
from groundbox.sandbox import environments, observations, wire
from groundbox.sandbox.egress.refusal import Refusal
from groundbox.sandbox.report import Ended, Report

_MOST_TYPE: Final = 200
_MOST_NAMED: Final = 20
_MOST_PATH: Final = 120
_MOST_HOSTS: Final = 5
_REFUSED: Final = {
    "not-allowed": "not among the allowed hosts",
    "not-public": "allowed, and its address is not public",
    "unresolved": "its name has no address",
    "address": "an address, where a name is wanted",
}
"""Why the proxy refuses, by `Refusal.reason`."""
_MISSING_MODULE: Final = re.compile(r"No module named '([A-Za-z_][A-Za-z0-9_]{0,99})'")


def judge(report: Report) -> tuple[Outcome, int | None, int | None]:
    """Outcome, exit code, exit signal. Ends that the kernel or the host's clock decided come first."""
    done, ended = report.done, report.ended
    code, ended_by = _exit(done, ended)
    if report.stopped is not None:
        return Outcome.CANCELLED, code, ended_by
    if report.timed_out or (ended_by == signal.SIGXCPU and report.used_up_cpu()):
        return Outcome.TIMEOUT, code, ended_by
    if report.out_of_memory:
        return Outcome.MEMORY, code, ended_by
    if done is not None and done.error is not None and done.error.type == "MemoryError":
        return Outcome.MEMORY, code, ended_by
    if done is not None and done.interrupted and report.interrupted:  # a guest can send itself a signal, too
        return Outcome.CANCELLED, code, ended_by
    if ended_by is not None:
        return Outcome.SIGNAL, code, ended_by
    return (Outcome.OK if code == 0 else Outcome.ERROR), code, ended_by


def trust_of(report: Report, *, clean: bool) -> str:
    """Who told how the run ended: `kernel` or `guest`, as `Execution.trust` has it.

    Args:
        clean: Whether the process that reports had run no guest code until the end of this run.
    """
    by_host = report.stopped is not None or bool(report.timed_out) or report.done is None
    return "kernel" if clean or by_host else "guest"


def _exit(done: wire.Done | None, ended: Ended | None) -> tuple[int | None, int | None]:
    if done is None:
        assert ended is not None
        return ended.exit_code, ended.exit_signal
    if done.exit_signal is not None:
        return None, done.exit_signal
    if done.exit_code is not None:
        return done.exit_code, None
    return (0 if done.ok else 1), None


def warnings_of(report: Report, outcome: Outcome, limits: Limits, *, offline: bool) -> Sequence[Warning]:
    """Evidence that a run that ended well may lack something: from the kernel, that a language's state is gone, what
    its commands said of what a sandbox has not, and what observers saw, if they were asked for."""
    told = report.done.observed if report.watched and report.done is not None and outcome is Outcome.OK else ()
    return (
        *_killed_processes(report, outcome, limits),
        *_lost_state(report),
        *(_told_by_commands(report, outcome, limits, offline=offline) or _failed_commands(report, outcome)),
        *observations.warnings(told),
        *_left_outside(report),
        *_left_out(report),
    )


def _left_out(report: Report) -> Sequence[Warning]:
    if not report.left_out:
        return ()
    count = report.left_out.total()
    what = "one form" if count == 1 else f"{count} forms"
    return (
        Warning(
            code="display.left_out",
            tier="warn",
            message=f"{what} of what the program showed or returned is missing: {'; '.join(report.left_out)}",
            evidence={"forms": count, "reasons": dict(report.left_out)},
            hint="Show text as str, pictures as bytes or as their base64, and nothing larger than a page can hold.",
        ),
    )


def _lost_state(report: Report) -> Sequence[Warning]:
    if report.done is None or not report.done.state_lost:
        return ()
    return (
        Warning(
            code="session.state_lost",
            tier="error",
            message="the process that keeps this language's variables has ended; the next cell starts without them",
            hint="Run again the cells that the next one needs. Files and the other languages' variables are kept.",
        ),
    )


def _told_by_commands(report: Report, outcome: Outcome, limits: Limits, *, offline: bool) -> Sequence[Warning]:
    """Warnings of commands that could do nothing here, called by a program that itself ended well."""
    if outcome is not Outcome.OK:
        return ()
    return [
        Warning(
            code="run.not_in_a_sandbox",
            tier="note",
            message=f"a command said {line!r}",
            evidence={"line": line},
            hint=hint,
        )
        for line, hint in _complaints(report, limits, offline=offline)
    ]


def _failed_commands(report: Report, outcome: Outcome) -> Sequence[Warning]:
    """Return one warning for each `!command` that failed in a cell that ended well, as in a notebook."""
    failed = report.done.failed_commands if report.done is not None and outcome is Outcome.OK else ()
    return [
        Warning(
            code="run.command_failed",
            tier="note",
            message=f"the command {each.command!r} {_command_end(each.status)}, and the cell continued",
            evidence={"command": each.command, "status": each.status},
            hint=each.hint or "To stop at a failing command: subprocess.run(command, shell=True, check=True).",
        )
        for each in failed
    ]


def _command_end(status: int) -> str:
    return f"failed with exit status {status}" if status >= 0 else f"was killed by signal {-status}"


def _complaints(report: Report, limits: Limits, *, offline: bool) -> Iterator[tuple[str, str]]:
    """Lines of commands about what a sandbox has not, each with what is so instead; one of each kind.

    Lines are a guest's, and any pattern that may begin anywhere in them could be made to take seconds: what a line has
    to hold is looked for as it is.
    """
    if not report.stderr.total_bytes:
        return
    said = [_METER.sub("", line[:_MOST_LINE]) for line in report.stderr.last(_MOST_SAID).splitlines()]
    if offline and (line := next((line for line in said if any(each in line for each in _UNREACHED)), None)):
        host = _HOST.search(line)
        named = "HOST" if host is None else host[1]
        yield line, f'The network is off in this sandbox. To allow it: Network(allow=["{named}"]).'
    if line := next((line for line in said if _is_of_the_kernel(line)), None):
        may_use = "" if limits.memory_bytes is None else f" It may use {limits.memory_bytes >> 20} MiB of memory."
        yield line, f"/proc shows this sandbox's processes only, and there is no /sys.{may_use}"


def _is_of_the_kernel(line: str) -> bool:
    """Whether a line says of a file below /proc or /sys that it is not there."""
    return _KERNELS.search(line) is not None and any(each in line for each in _NOT_THERE)


def _left_outside(report: Report) -> Sequence[Warning]:
    """Files that the guest says lie beside the workdir. Their names are its words."""
    paths = report.done.outside if report.done is not None else ()
    if not paths:
        return ()
    shown = [repr(path if len(path) <= _MOST_PATH else f"…{path[-_MOST_PATH:]}") for path in paths]
    lies = "lies" if len(paths) == 1 else "lie"
    return (
        Warning(
            code="run.file_outside",
            tier="note",
            message=f"{', '.join(shown)} {lies} outside the working directory, whose files alone are kept as results",
            evidence={"paths": shown},
            hint=f"Write to the working directory, by a relative path such as {posixpath.basename(paths[0])[:60]!r}.",
        ),
    )


def refused_hosts(refusals: Sequence[Refusal]) -> tuple[Warning, ...]:
    """Hosts that the program did not reach although it ended well: what it took for their answer is the proxy's."""
    first = refusals[0]
    named = [(f"{each.host}:{each.port}", _REFUSED.get(each.reason, each.reason)) for each in refusals[:_MOST_HOSTS]]
    hosts = [f"{name!r} ({why})" for name, why in named]
    more = f" and {len(refusals) - _MOST_HOSTS} more" if len(refusals) > _MOST_HOSTS else ""
    entry = first.host if first.port in (80, 443) else f"{first.host}:{first.port}"
    cure = {
        "not-allowed": f'To allow it: Network(allow=["{entry}"]).',
        "not-public": 'For your own network, never this machine: Network(private_ranges=["10.0.0.0/8"]).',
    }
    return (
        Warning(
            code="run.host_refused",
            tier="note",
            message=f"the sandbox's proxy refused {', '.join(hosts)}{more}",
            evidence={"hosts": [each.host for each in refusals[:_MOST_HOSTS]]},
            hint=cure.get(first.reason, ""),
        ),
    )


def _killed_processes(report: Report, outcome: Outcome, limits: Limits) -> Sequence[Warning]:
    if outcome is Outcome.MEMORY or not report.memory_kills:
        return ()
    what = "a process" if report.memory_kills == 1 else f"{report.memory_kills} processes"
    return (
        Warning(
            code="run.process_killed",
            tier="error",
            message=f"the kernel ended {what} that the program had started, at memory_bytes={limits.memory_bytes}",
            evidence={"processes": report.memory_kills},
            hint="The result may lack what they should have done: use fewer workers, or a larger memory_bytes.",
        ),
    )


_MOST_SAID: Final = 16 * 1024
"""Bytes, the last ones of a stream."""
_MOST_LINE: Final = 200
_UNREACHED: Final = (
    *("ould not resolve host", "ould not resolve proxy", "unable to resolve host address"),
    *("emporary failure in name resolution", "emporary failure resolving", "Network is unreachable"),
)
"""Parts of what curl, git, wget, apt and ssh say without a network."""
_HOST: Final = re.compile(r"ould not resolve host(?:name)?:? ([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8})")
_METER: Final = re.compile(r"^[-\d:. kMG%]{1,120}(?=curl: )")
"""Progress that curl draws before it says why it failed."""
_KERNELS: Final = re.compile(r"(?<![\w.-])/(?:proc|sys)/")
_NOT_THERE: Final = ("No such file", "does not exist")
_WHAT_COUNTS: Final = "Files in the workdir, /tmp and /dev/shm lie in memory and count, too: delete what is done with."


def limit_cut(asked_s: float, wall_s: float) -> Warning:
    """Return the note of a run that asked for more time than its sandbox allows."""
    return Warning(
        code="run.limit_cut",
        tier="note",
        message=f"wall_s={asked_s:g} is more than the limit of the sandbox, so the run had wall_s={wall_s:g}",
        evidence={"asked_s": asked_s, "wall_s": wall_s},
        hint="Make the sandbox with limits=Limits(wall_s=…) for longer runs.",
    )


def restarted(why: str, files_lost: Sequence[str], *, variables: bool) -> Warning:
    """What a run tells that began afresh because the process before it was gone.

    Args:
        files_lost: Paths that could not be carried over.
        variables: Whether there were earlier runs that may have left some.
    """
    lost = ["its variables are gone"] if variables else []
    if files_lost:
        lost.append(f"{len(files_lost)} of its files could not be kept")
    return Warning(
        code="session.restarted",
        tier="note",
        message=f"this run began in a fresh process, because the one before was gone ({why})"
        + (f"; {', and '.join(lost)}" if lost else ""),
        evidence={"files_lost": list(files_lost[:_MOST_NAMED])} if files_lost else {},
        hint="Run again what it needs." if variables else "",
    )


def why_lost(report: Report, outcome: Outcome) -> str:
    """Why the sandbox's process is gone, for whoever asks it for more."""
    if report.stopped is not None:
        return f"a run was ended: {report.stopped.message}"
    if outcome is Outcome.TIMEOUT:
        return f"a run was at its limit {report.timed_out or 'cpu_s'}"
    if outcome is Outcome.MEMORY:
        return "a run was at its limit memory_bytes"
    if outcome is Outcome.SIGNAL and report.ended is not None:
        return f"signal {report.ended.exit_signal} ended it"
    return "the program ended the process"


DISK_FULL: Final = "the host's disk, on which the sandbox's files lie, is full"


def lacked_of_the_host(report: Report) -> str | None:
    """Return what the host lacked during a run, so that nothing is known of its program; None if it lacked nothing."""
    if report.host_kills:
        what = "a process" if report.host_kills == 1 else f"{report.host_kills} processes"
        return f"the kernel killed {what} of the sandbox, below its memory_bytes, because memory around it ran out"
    if report.disk_was_full:
        return DISK_FULL
    if report.starved_s:
        waited = f"{report.starved_s:.1f} of {report.wall_s:.1f} s"
        return f"its time ran out while processes waited for memory for {waited}, and not at its own memory_bytes"
    return None


def failure_of(
    report: Report, outcome: Outcome, limits: Limits, wall_s: float | None, *, offline: bool, beside: int = 0
) -> Failure | None:
    """The failure for the model: the guest's own account where it could give one, ours where it could not.

    Args:
        beside: How many started processes live; their processor time is the run's, too.
    """
    if outcome is Outcome.OK:
        return None
    if report.violation is not None:
        return Failure(type="ProtocolViolation", message=str(report.violation))
    if report.stopped is not None:
        return report.stopped
    told = report.done.error if report.done else None
    if report.done is not None and report.done.interrupted and outcome is Outcome.ERROR:
        return _by_itself(told)
    if outcome is Outcome.TIMEOUT:
        name = report.timed_out or "cpu_s"
        hints = [f"Make the program cheaper, or run it with a larger {name}."]
        if beside and name in ("cpu_s", "call_cpu_s"):
            hints.append(f"Processor time of processes started beside the run counts, too; {beside} live.")
        calls = report.calls
        known = {"wall_s": wall_s, "cpu_s": limits.cpu_s}
        known |= {"call_wall_s": calls.wall_s, "call_cpu_s": calls.cpu_s} if calls is not None else {}
        return Failure(
            type="Timeout",
            message=f"the program was stopped at {name}={known[name]}",
            line=told.line if told else None,
            column=told.column if told else None,
            traceback=told.traceback if told else "",
            hints=tuple(hints),
        )
    if told is not None:
        return Failure(
            type=told.type if len(told.type) <= _MOST_TYPE else f"{told.type[:_MOST_TYPE]}…",
            message=told.message,
            line=told.line,
            column=told.column,
            traceback=told.traceback,
            locals=told.locals,
            hints=(*told.hints, *_where_it_is(told)),
        )
    if outcome is Outcome.MEMORY:
        return Failure(
            type="OutOfMemory",
            message=f"the kernel ended the program at memory_bytes={limits.memory_bytes}",
            hints=(_WHAT_COUNTS, "Work on the data in pieces, or run with a larger memory_bytes."),
        )
    if outcome is Outcome.SIGNAL:
        _, number = _exit(report.done, report.ended)
        return Failure(type="Signal", message=_signal_text(number))
    if outcome is Outcome.CANCELLED:
        return Failure(type="KeyboardInterrupt", message="the run was interrupted")
    code, _ = _exit(report.done, report.ended)
    return Failure(
        type="SystemExit",
        message=f"the program ended with exit code {code}",
        hints=tuple(hint for _, hint in _complaints(report, limits, offline=offline)),
    )


def _by_itself(told: wire.GuestFailure | None) -> Failure:
    """A signal or an exception such as that of an interrupt, when nobody had asked for one."""
    return Failure(
        type="KeyboardInterrupt",
        message="the program interrupted itself",
        line=told.line if told else None,
        column=told.column if told else None,
        traceback=told.traceback if told else "",
    )


def _signal_text(number: int | None) -> str:
    try:
        name = signal.Signals(number or 0).name
    except ValueError:
        name = f"signal {number}"
    crash = number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT)
    return f"{name} ended the program" + ("; native code crashed" if crash else "")


def _where_it_is(told: wire.GuestFailure) -> list[str]:
    """For a module that is missing: the environments that have it, which only the host knows."""
    found = _MISSING_MODULE.search(told.message) if told.type == "ModuleNotFoundError" else None
    if found is None:
        return []
    names = environments.which_has(found[1])
    return [f"The environment {name!r} has it: environment={name!r} or --environment {name}." for name in names]


def may_be_killed_by_others(execution: Execution) -> bool:
    """Return True if the program ended by SIGKILL, and none of its limits explains that.

    The program may have sent the signal to itself. It may also have come from the host: from its administrator, or from
    the kernel when the machine had no memory left. Wait statuses do not say who sent it, so that whoever scores a
    program runs it again.
    """
    return execution.outcome is Outcome.SIGNAL and execution.exit_signal == signal.SIGKILL
