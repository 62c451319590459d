"""Limits of a recording: it ends there, and says at which."""


def test_recording_ends_when_there_are_too_many_records(trace):
    traced = trace("n = 0\nwhile n < 50:\n    n += 1\n", soft_events=10**6, max_events=13)

    assert traced.short == (
        "{1 <module> 1:n=0 2: 3:n=1 2: 3:n=2 lost the trace reached max_events=13"
    ) or traced.short == ("{1 <module> 1:n=0 2: 3:n=1 2: 3:lost the trace reached max_events=13")


def test_recording_ends_when_the_buffer_is_full(trace):
    traced = trace("a = 'x' * 300\nb = [a] * 5\nc = [a] * 500\n", bytes=2600)

    assert [r["k"] for r in traced.records][-2:] == ["line", "lost"]
    assert traced.records[-1] == {"k": "lost", "why": "the trace reached max_bytes=2600"}
    assert len(traced.data) <= 2600
