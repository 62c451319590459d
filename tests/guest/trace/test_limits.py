"""Limits of a recording: it ends there, and says at which."""

import pytest


@pytest.fixture
def told(trace):
    """What a record says of a limit."""
    return lambda limit: (
        f"the trace reached {limit}" + (" in the core plain, which folds nothing" if trace.core == "plain" else "")
    )


def test_recording_ends_when_there_are_too_many_records(trace, told):
    traced = trace("n = 0\nwhile n < 50:\n    n += 1\n", soft_events=10**6, max_events=13)

    assert traced.short == f"{{1 <module> 1:n=0 2: 3:n=1 2: 3:lost {told('max_events=13')}"


def test_recording_ends_when_the_buffer_is_full(trace, told):
    traced = trace("a = 'x' * 300\nb = [a] * 5\nc = [a] * 500\n", bytes=2600)

    assert [r["k"] for r in traced.records][-2:] == ["line", "lost"]
    assert traced.records[-1] == {"k": "lost", "why": told("max_bytes=2600")}
    assert len(traced.data) <= 2600


def test_a_long_run_is_folded_or_ends_at_a_limit_that_is_named(trace, told):
    records = trace("n = 0\nwhile n < 900:\n    n += 1\n", soft_events=50, max_events=200).records

    if trace.core == "plain":
        assert records[-1] == {"k": "lost", "why": told("max_events=200")}
        assert [r for r in records if r["k"] == "fold"] == []
    else:
        assert records[-1] == {"k": "end"}
        assert [r["n"] for r in records if r["k"] == "fold"] == [2]
