"""A request's trace goes through a gateway: its span is the node's parent."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is not installed: it comes with [agent]")
pytest.importorskip("starlette", reason="the extra `server` is not installed here")

PROGRAM = """
import json
from opentelemetry import trace
from groundbox.sandbox.telemetry import passed_on

class Tracer(trace.NoOpTracer):
    def start_as_current_span(self, name, *arguments, **options):
        parent = trace.get_current_span().get_span_context()
        own = trace.SpanContext(parent.trace_id, 0xEF, False, trace.TraceFlags(1))
        return trace.use_span(trace.NonRecordingSpan(own))

class Provider(trace.TracerProvider):
    def get_tracer(self, *arguments, **options):
        return Tracer()

trace.set_tracer_provider(Provider())
with passed_on({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}, "ada") as named:
    print(json.dumps(named))
"""


def test_the_span_of_passing_a_request_on_is_the_parent_of_the_nodes():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=dict(os.environ))

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"traceparent": f"00-{'ab' * 16}-{'ef'.zfill(16)}-01"}
