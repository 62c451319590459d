"""Spans of runs belong to the trace of whoever asked for them."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is not installed: it comes with [agent]")
pytest.importorskip("starlette", reason="the extra `server` is not installed here")

PROGRAM = """
import asyncio, json
import httpx
from opentelemetry import trace
from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings

seen = []

class Tracer(trace.NoOpTracer):
    def start_as_current_span(self, name, *arguments, **options):
        seen.append([name, f"{trace.get_current_span().get_span_context().trace_id:032x}"])
        return super().start_as_current_span(name)

class Provider(trace.TracerProvider):
    def get_tracer(self, *arguments, **options):
        return Tracer()

trace.set_tracer_provider(Provider())

async def main():
    app = application(Service(Settings(), Keys(token=None)), over_unix=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
        for each in (headers, {}):
            assert (await client.post("/v1/run", json={"code": "1"}, headers=each)).status_code == 200

asyncio.run(main())
print(json.dumps(seen))
"""


def test_a_span_belongs_to_the_trace_that_the_request_names():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=dict(os.environ))

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [["execute_tool python", "ab" * 16], ["execute_tool python", "0" * 32]]
