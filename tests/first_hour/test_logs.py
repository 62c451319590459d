"""Logs and traces of the host: what an operator sees of runs, and what a guest cannot put there."""

import json
import logging
import os
import re
import subprocess
import sys

import pytest

import groundbox as gb

LOGGER = "groundbox.sandbox.telemetry"


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.DEBUG, logger="groundbox")

    def told(level):
        return [each for each in caplog.records if each.name == LOGGER and each.levelno == level]

    return told


def test_each_run_is_one_line_with_its_id_its_outcome_and_its_times(lines):
    with gb.Sandbox(profile="bare") as box:
        first, second = box.run("x = 1"), box.run("print(x)", mode="script")

    told = [each.getMessage() for each in lines(logging.INFO)]
    form = (
        r"run execution_id={} outcome={} language=python mode={} wall_s=[\d.e-]+ cpu_s=[\d.e-]+ start_s=[\d.e-]+ "
        r"start=(?:warm|cold)"
    )
    assert len(told) == 2
    assert re.fullmatch(form.format(first.execution_id, "ok", "cell"), told[0])
    assert re.fullmatch(form.format(second.execution_id, "error", "script"), told[1])


def test_the_lines_facts_are_attributes_of_its_record(lines):
    execution = gb.run("1")

    (record,) = lines(logging.INFO)
    assert (record.execution_id, record.outcome, record.language) == (execution.execution_id, "ok", "python")
    assert record.wall_s == pytest.approx(execution.usage.wall_s, abs=1e-5)


def test_a_look_at_a_runs_files_is_no_run(lines):
    execution = gb.run("open('a.csv', 'w').write('a,b\\n1,2\\n')")

    assert execution.artifacts["a.csv"].facts["rows"] == 1
    assert len(lines(logging.INFO)) == 1


def test_reasons_are_told_at_debug(lines):
    late = gb.run("while True: pass", wall_s=0.3)
    failed = gb.run("print('y' * 2000)\n{}['x']", limits=gb.Limits(output_bytes=1000))

    told = [each.getMessage().partition(": ")[2] for each in lines(logging.DEBUG)]
    assert "error 'Timeout'" in told[0]
    assert "the program was stopped at wall_s=0.3" in told[0]
    assert told[1] == "exit_code=1; error 'KeyError' on line 2; state=ended; stdout: 1001 left out"
    assert [late.execution_id, failed.execution_id] == [each.execution_id for each in lines(logging.INFO)]


def test_a_guest_writes_no_line_and_no_secret_reaches_a_log(lines):
    source = (
        "class Forged(Exception): pass\nForged.__name__ = 'X\\n2026 INFO run outcome=ok\\x1b[2J\\u202e' + 'y' * 500\n"
    )

    gb.run(f"{source}print('secret')\nraise Forged('secret')")
    gb.run("import sys; print(sys.argv, input())", mode="script", argv=["secret"], stdin="secret")
    with pytest.raises(gb.SandboxClosed):
        closed().run("'secret'")

    told = [each.getMessage() for each in lines(logging.INFO) + lines(logging.DEBUG)]
    assert len(told) == 5
    assert not [line for line in told if "secret" in line or not line.isprintable() or len(line) > 400]


def closed():
    box = gb.Sandbox(profile="bare")
    box.close()
    return box


def test_where_nobody_listens_nothing_is_written_and_opentelemetry_is_not_imported():
    program = "import sys, groundbox as gb; gb.run('1/0', backend='bare'); print('opentelemetry' in sys.modules)"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "False\n", "")


RECORDER = """
import contextlib
from opentelemetry import trace

class Span(trace.NonRecordingSpan):
    def __init__(self, name, parent, attributes, number):
        super().__init__(trace.SpanContext(1, number, False))
        self.name, self.parent, self.attributes, self.status = name, parent, dict(attributes or {}), None
    def is_recording(self): return True
    def set_attribute(self, name, value): self.attributes[name] = value
    def set_attributes(self, attributes): self.attributes.update(attributes)
    def set_status(self, status, description=None): self.status = status

class Tracer(trace.Tracer):
    spans = []
    def start_span(self, name, context=None, kind=None, attributes=None, **_):
        span = Span(name, trace.get_current_span(context).get_span_context(), attributes, len(self.spans) + 1)
        self.spans.append(span)
        return span
    @contextlib.contextmanager
    def start_as_current_span(self, name, context=None, kind=None, attributes=None, record_exception=True,
                              set_status_on_exception=True, **_):
        with trace.use_span(self.start_span(name, context, kind, attributes), record_exception=record_exception,
                            set_status_on_exception=set_status_on_exception) as span:
            yield span

class Provider(trace.TracerProvider):
    def get_tracer(self, *_, **__): return Tracer()

trace.set_tracer_provider(Provider())
def finished():
    return [(s.name, s.get_span_context().span_id, s.parent.span_id, s.attributes, s.status) for s in Tracer.spans]
"""
SDK = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
def finished():
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
    return [(s.name, s.context.span_id, s.parent and s.parent.span_id, dict(s.attributes), s.status) for s in spans]
"""
RUNS = """
import json
import groundbox as gb

with trace.get_tracer("application").start_as_current_span("request"):
    with gb.Sandbox(profile="bare") as box:
        ran = [box.run("print('secret')"), box.run("1 / 0"), list(box.stream("import os; os._exit(3)"))[-1].execution]
        try:
            box.run("1")
        except gb.SandboxLost:
            pass
spans = [
    (name, own, parent, attributes, status and (status.status_code.name, status.description))
    for name, own, parent, attributes, status in finished()
]
print(json.dumps([spans, [each.execution_id for each in ran]]))
"""


def spans_of(provider, **environ):
    if provider is SDK:
        pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed; see docs/results.md")
    else:
        pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is not installed: it comes with [agent]")
    program = [sys.executable, "-c", provider + RUNS]
    ran = subprocess.run(program, capture_output=True, text=True, env={**os.environ, **environ})
    assert ran.stderr == ""
    return json.loads(ran.stdout)


@pytest.mark.parametrize("provider", [RECORDER, SDK], ids=["api", "sdk"])
def test_each_run_is_a_span_of_the_applications_trace(provider):
    (request, *runs), ids = spans_of(provider)

    assert [name for name, *_ in runs] == ["execute_tool python"] * 4
    assert {parent for _, _, parent, _, _ in runs} == {request[1]}
    told = [attributes for *_, attributes, _ in runs]
    assert [each.get("gen_ai.tool.call.id") for each in told] == [*ids, None]
    assert [each.get("error.type") for each in told] == [None, "error", "error", "groundbox.errors.SandboxLost"]
    assert [each.get("process.exit.code") for each in told] == [0, 1, 3, None]
    assert {(each["gen_ai.operation.name"], each["gen_ai.tool.name"], each["gen_ai.tool.type"]) for each in told} == {
        ("execute_tool", "python", "function")
    }
    assert [each.get("groundbox.outcome") for each in told] == ["ok", "error", "error", None]
    assert [status and status[0] for *_, status in runs[1:]] == ["ERROR"] * 3
    assert "secret" not in json.dumps(runs)


def test_programs_and_what_they_print_are_in_a_span_only_where_that_is_asked_for():
    (_, first, *_), _ = spans_of(RECORDER, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true")

    attributes = first[3]
    assert json.loads(attributes["gen_ai.tool.call.arguments"]) == {"source": "print('secret')"}
    assert json.loads(attributes["gen_ai.tool.call.result"]) == {"stdout": "secret\n", "value": "", "error": ""}
