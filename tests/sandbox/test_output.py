"""Output kept as head and tail: compared with all of it held in memory."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.sandbox import output as outputs
from groundbox.sandbox.output import Output

PIECES = st.lists(st.binary(max_size=60), max_size=20)
LIMITS = st.integers(16, 100)


def _output(limit, pieces):
    output = Output(limit)
    for piece in pieces:
        output.add(piece)
    return output


@given(LIMITS, PIECES)
def test_what_is_kept_and_what_is_dropped_add_up(limit, pieces):
    whole = b"".join(pieces)

    output = _output(limit, pieces)

    assert output.total_bytes == len(whole)
    assert output.dropped_bytes == max(0, len(whole) - limit)
    assert output.lost_bytes == 0


@given(LIMITS, PIECES)
def test_the_text_is_head_a_word_and_tail(limit, pieces):
    whole = b"".join(pieces)
    dropped = len(whole) - limit

    text = _output(limit, pieces).text()

    if dropped <= 0:
        assert text == whole.decode("utf-8", "replace")
    else:
        head, tail = whole[: limit // 2], whole[len(whole) - (limit - limit // 2) :]
        said = f"\n… {dropped} bytes left out …\n"
        assert text == head.decode("utf-8", "replace") + said + tail.decode("utf-8", "replace")


@given(LIMITS | st.none(), PIECES, st.integers(1, 200))
def test_its_last_bytes_are_the_end_of_the_text(limit, pieces, size):
    output = _output(limit, [bytes(97 + byte % 26 for byte in piece) for piece in pieces])

    assert output.text().endswith(output.last(size))
    assert len(output.last(size)) == min(size, output.total_bytes if output.dropped_bytes == 0 else limit - limit // 2)


@given(LIMITS, PIECES, st.integers(0, 500), st.integers(0, 500))
def test_any_page_can_be_read(limit, pieces, offset, size):
    whole = b"".join(pieces)

    assert _output(limit, pieces).read(offset, size) == whole[offset : offset + size]


@given(LIMITS, PIECES)
def test_reading_in_between_changes_nothing(limit, pieces):
    quiet, asked = _output(limit, pieces), Output(limit)

    for piece in pieces:
        asked.add(piece)
        asked.read(0, 7)
        asked.text()
        asked.search("x")

    assert (asked.text(), asked.dropped_bytes, asked.read()) == (quiet.text(), quiet.dropped_bytes, quiet.read())


@given(LIMITS, st.lists(st.text(alphabet="ab\n", max_size=30), max_size=20))
def test_lines_are_found_by_their_number(limit, pieces):
    whole = "".join(pieces)
    lines = whole.split("\n")[:-1] + ([whole.rpartition("\n")[2]] if whole.rpartition("\n")[2] else [])

    found = _output(limit, [piece.encode() for piece in pieces]).search("ab")

    expected = [(number, line) for number, line in enumerate(lines, 1) if re.search("ab", line)]
    assert [tuple(match) for match in found] == expected[:100]


def test_no_limit_drops_nothing():
    output = _output(None, [b"x" * 1000] * 1000)

    assert (output.dropped_bytes, len(output.text())) == (0, 1_000_000)


def test_what_is_over_the_spill_is_lost_and_counted(monkeypatch):
    monkeypatch.setattr("groundbox.sandbox.output.SPILL_BYTES", 100)

    output = _output(16, [b"x" * 60, b"y" * 60, b"z" * 60])

    assert (output.total_bytes, output.lost_bytes, output.dropped_bytes) == (180, 80, 164)
    assert output.read() == b"x" * 60 + b"y" * 40


@pytest.mark.parametrize("pattern", ["(", "[a", "*"])
def test_a_pattern_that_is_none_is_told(pattern):
    with pytest.raises(re.error):
        _output(16, [b"x"]).search(pattern)


def test_at_most_so_many_lines_are_given():
    assert len(_output(None, [b"x\n" * 500]).search("x", most=7)) == 7


def test_what_all_results_keep_on_disk_has_an_end_and_is_given_back(monkeypatch):
    monkeypatch.setattr(outputs, "_BUDGET", outputs._Budget(150))
    first, second = _output(16, [b"a" * 100]), _output(16, [b"b" * 100])
    lost = first.lost_bytes, second.lost_bytes

    del first
    third = _output(16, [b"c" * 120])

    assert lost == (0, 50)
    assert second.read() == b"b" * 50
    assert (third.lost_bytes, third.read()) == (20, b"c" * 100)
    assert (second.dropped_bytes, third.dropped_bytes) == (84, 104)
