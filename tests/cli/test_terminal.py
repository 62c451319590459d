"""Control sequences of a guest never reach a terminal, however its output is cut into pieces."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.cli.terminal import Plain, bytes_text, one_line, plain, seconds_text

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NASTY = st.text(st.sampled_from("ab;019[]()\\?mKPX^_\x07\x08\x1b\x9b\x9c\x9d\x90\r\n\t\u202e\u2066é"), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é ✓\n\tend", "plain é ✓\n\tend"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\text", "text"),
        ("\x9b2Jtext", "text"),
        ("a\x1bcb\x1b(0c", "abc"),
        ("10%\r20%\r\nend", "10%\n20%\nend"),
        ("bell\x07 back\x08space \x00nul \x7fdel", "bell backspace nul del"),
        ("\u202egnp.exe\u2066", "gnp.exe"),
        ("\x1b", ""),
    ],
)
def test_sequences_go_and_the_text_stays(text, shown):
    assert plain(text) == shown


@given(NASTY, st.lists(st.integers(0, 60)))
def test_pieces_show_what_the_whole_shows_and_no_control(text, cuts):
    bounds = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[start:end] for start, end in itertools.pairwise(bounds)]
    stream = Plain()

    shown = "".join([*(stream.feed(piece) for piece in pieces), stream.end()])

    assert not FORBIDDEN.search(shown)
    assert shown == plain(text)


def test_a_sequence_without_an_end_does_not_hold_the_text_for_ever():
    stream = Plain()

    shown = "".join(stream.feed("\x1b]" + "x" * 1000) for _ in range(10))

    assert len(shown) > 4000
    assert not FORBIDDEN.search(shown)


@pytest.mark.parametrize("piece", ["\x9d", "\x1b]", "\x1b[", "\x90x", "\x1b"])
def test_many_openings_take_no_long_time(piece):
    assert not FORBIDDEN.search(plain(piece * 200_000))


def test_a_name_stays_on_one_line():
    assert one_line("a\nb\tc\x1b[2K\u202e") == "a b c\ufffd[2K\ufffd"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (40 << 20, "40 MiB"), (3 << 40, "3072 GiB")],
)
def test_sizes_for_people(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00123, "1.2 ms"), (0.0454, "45 ms"), (0.9996, "1.0 s"), (31, "31.0 s")]
)
def test_times_for_people(seconds, text):
    assert seconds_text(seconds) == text
