"""Traces for tests, made by running a program."""

import pytest

import groundbox


@pytest.fixture(scope="session")
def traced():
    """The trace of a program, run in a sandbox."""

    def run(source, **options):
        execution = groundbox.run(source, **{"mode": "script", "hash_seed": 0, "trace": True, **options})
        trace = execution.trace
        assert trace.complete, (trace.reasons, execution.error, execution.stderr)
        return trace

    return run
