"""What each run tells the host's logs and its traces of OpenTelemetry.

A log gets one line a run at INFO, made of what the kernel and the host's clock said, and the reasons at DEBUG. Nothing
in either is text that a guest chose: of a failure only the type is told, made visible and cut, and no source, output or
argument. Handlers are the application's.

A span is made where the application uses OpenTelemetry, which is to say: where `opentelemetry.trace` is imported
already, because nobody can set a provider without it, or where OTEL_PYTHON_TRACER_PROVIDER names one. Where not,
nothing is imported and a run pays for one look into `sys.modules`. Names are those of OpenTelemetry's conventions for
tools of models; what these do not name yet is called `groundbox.…`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.execution import Execution, Outcome
from groundbox.sandbox.languages import Program
from groundbox.unseen import on_one_line

logger = logging.getLogger(__name__)

_API: Final = "opentelemetry.trace"
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_MOST_CONTENT_CHARS: Final = 32 * 1024
_MOST_TYPE_CHARS: Final = 100


class Watched:
    """One run that is watched; `end` is told its result."""

    def __init__(self, language: str, program: Program, span: Any) -> None:
        self._language, self._program, self._span = language, program, span

    def end(self, execution: Execution) -> None:
        """Write the run's line, and fill its span."""
        if logger.isEnabledFor(logging.INFO):
            facts = _facts(execution, self._program.mode)
            logger.info("run %s", " ".join(f"{name}={value}" for name, value in facts.items()), extra=facts)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("run execution_id=%s: %s", execution.execution_id, "; ".join(_reasons(execution)))
        if self._span is not None and self._span.is_recording():
            self._fill(execution)

    def _fill(self, execution: Execution) -> None:
        usage = execution.usage
        attributes = {
            "gen_ai.tool.call.id": execution.execution_id,
            "process.exit.code": execution.exit_code,
            "groundbox.exit_signal": execution.exit_signal,
            "groundbox.outcome": execution.outcome.value,
            "groundbox.state": execution.state,
            "groundbox.backend": execution.isolation.backend,
            "groundbox.isolation.missing": list(execution.isolation.missing),
            "groundbox.wall_s": usage.wall_s,
            "groundbox.cpu_s": usage.cpu_s,
            "groundbox.start_s": usage.start_s,
            "groundbox.start": "warm" if usage.warm else "cold",
            "groundbox.peak_memory_bytes": usage.peak_memory_bytes,
            "groundbox.warnings": [warning.code for warning in execution.warnings],
        }
        if os.environ.get(_CONTENT, "").lower() == "true":
            attributes |= _content(self._program, execution)
        self._span.set_attributes({name: value for name, value in attributes.items() if value is not None})
        if not execution.ok:
            _fail(self._span, execution.outcome.value)


@contextlib.contextmanager
def watched(language: str, program: Program) -> Iterator[Watched]:
    """Watch one run, which may end without a result."""
    with _span(language, program) as span:
        try:
            yield Watched(language, program, span)
        except BaseException as error:
            logger.debug("run of %s gave no result: %s", language, type(error).__name__)
            if span is not None:
                _fail(span, f"{type(error).__module__}.{type(error).__qualname__}")
            raise


@contextlib.contextmanager
def under_caller(headers: Mapping[str, str]) -> Iterator[None]:
    """Let spans within belong to the trace that a request's headers name (W3C Trace Context), where spans are made."""
    if not headers.keys() & {"traceparent", "b3", "x-b3-traceid"} or _loaded() is None:
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)


@contextlib.contextmanager
def passed_on(headers: Mapping[str, str], where: str) -> Iterator[Mapping[str, str]]:
    """A span of passing a request on to a node, where spans are made; the headers that name it as the node's parent.

    Args:
        headers: Of the request, by name in lower case.
        where: The node's name.
    """
    tracer = getattr(_loaded(), "get_tracer", None)
    if tracer is None:
        yield {}
        return
    from opentelemetry import propagate

    with under_caller(headers):
        attributes = {"groundbox.node": where}
        with tracer("groundbox").start_as_current_span("pass_on", attributes=attributes, record_exception=False):
            named: dict[str, str] = {}
            propagate.inject(named)
            yield named


def _loaded() -> Any:
    """The API of spans where the application uses it, or None."""
    api = sys.modules.get(_API)
    if api is None and os.environ.get("OTEL_PYTHON_TRACER_PROVIDER"):
        with contextlib.suppress(ImportError):
            api = importlib.import_module(_API)
    return api


@contextlib.contextmanager
def _span(language: str, program: Program) -> Iterator[Any]:
    """The current span while the run goes on, or None where nobody traces."""
    tracer = getattr(_loaded(), "get_tracer", None)  # not there yet while another thread imports it
    if tracer is None:
        yield None
        return
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": language,
        "gen_ai.tool.type": "function",
        "groundbox.mode": program.mode,
    }
    started = tracer("groundbox").start_as_current_span(
        f"execute_tool {language}", attributes=attributes, record_exception=False, set_status_on_exception=False
    )
    with started as span:
        yield span


def _fail(span: Any, kind: str) -> None:
    api = sys.modules[_API]
    span.set_attribute("error.type", kind)
    span.set_status(api.Status(api.StatusCode.ERROR, kind))


def _content(program: Program, execution: Execution) -> dict[str, str]:
    """The program and what came of it, which are told only where the application asks for content."""
    error = execution.error
    result = {
        "stdout": _cut(execution.stdout),
        "value": _cut(execution.text or ""),
        "error": "" if error is None else _cut(f"{error.type}: {error.message}"),
    }
    return {
        "gen_ai.tool.call.arguments": json.dumps({"source": _cut(program.source)}),
        "gen_ai.tool.call.result": json.dumps(result),
    }


def _cut(text: str) -> str:
    left_out = len(text) - _MOST_CONTENT_CHARS
    return text if left_out <= 0 else f"{text[:_MOST_CONTENT_CHARS]}… {left_out} characters more"


def _facts(execution: Execution, mode: str) -> dict[str, Any]:
    """What the line at INFO tells; the same are attributes of its record, for formatters that write JSON."""
    usage = execution.usage
    return {
        "execution_id": execution.execution_id,
        "outcome": execution.outcome.value,
        "language": execution.language,
        "mode": mode,
        "wall_s": round(usage.wall_s, 6),
        "cpu_s": None if usage.cpu_s is None else round(usage.cpu_s, 6),
        "start_s": round(usage.start_s, 6),
        "start": "warm" if usage.warm else "cold",
    }


def _reasons(execution: Execution) -> Iterator[str]:
    """Why it ended so and what is missing, without anything that the program said but the name of its error."""
    if execution.exit_signal is not None:
        yield f"exit_signal={execution.exit_signal}"
    else:
        yield f"exit_code={execution.exit_code}"
    error = execution.error
    if error is not None:
        where = "" if error.line is None else f" on line {error.line}"
        yield f"error {on_one_line(error.type, _MOST_TYPE_CHARS)!r}{where}"
        if execution.outcome is Outcome.TIMEOUT:  # the message is ours then
            yield error.message
    yield f"state={execution.state}"
    for name, count in execution.dropped_bytes.items():
        if count:
            yield f"{name}: {count} left out"
    if execution.warnings:
        yield f"warnings {', '.join(on_one_line(each.code, _MOST_TYPE_CHARS) for each in execution.warnings)}"
    if execution.isolation.missing:
        yield f"without {', '.join(execution.isolation.missing)}"
