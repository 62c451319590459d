"""Plots as SVG: bars, ranges and histograms, with words and numbers that can be read without the picture."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

_WIDTH: Final = 640
_ROW: Final = 24
_LABEL: Final = 240
_GAP: Final = 10
_PLOT: Final = 170
_BINS: Final = 30


class Bar(NamedTuple):
    """One bar; `note` stands after its number."""

    label: str
    value: float
    note: str = ""


def bars(rows: Sequence[Bar], *, kind: str = "main") -> str:
    """Bars below each other, each after its label and number, so that a narrow window cuts none of these off."""
    if not rows:
        return _nothing()
    most = max(row.value for row in rows) or 1
    numbers = [f"{_number(row.value)} {row.note}".strip() for row in rows]
    start = _LABEL + _GAP + max(sum(map(_width, words)) for words in numbers)
    parts = []
    for number, (row, words) in enumerate(zip(rows, numbers, strict=True)):
        y = number * _ROW
        width = max(1.0 if row.value else 0.0, (_WIDTH - start) * row.value / most)
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 16}" class="label end">{_named(row.label)}</text>'
            f'<text x="{_LABEL}" y="{y + 16}" class="number">{escape(words)}</text>'
            f'<rect x="{start}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 7}" rx="2" class="{kind}"/>'
        )
    return _svg("bars", _ROW * len(rows) + 4, parts)


class Range(NamedTuple):
    """A value with its interval; `note` stands after its number."""

    label: str
    value: float
    low: float
    high: float
    note: str = ""


def ranges(rows: Sequence[Range], *, low: float, high: float, unit: str, mark: float | None = None) -> str:
    """Values as points on one scale, each on its interval; `mark` is a line, such as one at no difference."""
    if not rows:
        return _nothing()
    numbers = [
        f"{row.value:+.1f} {row.note}".strip() if low < 0 else f"{row.value:.1f} {row.note}".strip() for row in rows
    ]
    left = _LABEL + _GAP + max(sum(map(_width, words)) for words in numbers) + 8
    scale = (_WIDTH - 12 - left) / (high - low or 1)

    def place(value: float) -> float:
        return left + (min(max(value, low), high) - low) * scale

    base = _ROW * len(rows) + 6
    parts = [f'<line x1="{left}" y1="{base}" x2="{_WIDTH - 12}" y2="{base}" class="axis"/>']
    if mark is not None:
        parts.append(f'<line x1="{place(mark):.1f}" y1="0" x2="{place(mark):.1f}" y2="{base}" class="mark"/>')
    for number, (row, words) in enumerate(zip(rows, numbers, strict=True)):
        y = number * _ROW + 12
        title = f"{row.value:.2f}, from {row.low:.2f} to {row.high:.2f} {unit}"
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 4}" class="label end">{_named(row.label)}</text>'
            f'<text x="{_LABEL}" y="{y + 4}" class="number">{escape(words)}</text>'
            f'<rect x="{place(row.low):.1f}" y="{y - 1.5}" width="{max(1.0, place(row.high) - place(row.low)):.1f}" '
            f'height="3" class="main"><title>{escape(title)}</title></rect>'
            f'<circle cx="{place(row.value):.1f}" cy="{y}" r="5" class="main"/>'
        )
    step = _step((high - low) / 5 or 1)
    tick = math.ceil(low / step - 1e-9) * step
    while tick <= high + 1e-9:
        parts.append(f'<text x="{place(tick):.1f}" y="{base + 16}" class="tick middle">{_number(tick)}</text>')
        tick += step
    parts.append(f'<text x="{(left + _WIDTH) / 2:.0f}" y="{base + 34}" class="tick middle">{escape(unit)}</text>')
    return _svg("bars", base + 42, parts)


def histogram(values: Sequence[float], unit: str, *, mark: float | None = None, least: float | None = None) -> str:
    """How many values lie where; `mark` is a line, such as a threshold."""
    if not values:
        return _nothing()
    low = min(values) if least is None else least
    high = max(max(values), low if mark is None else mark)
    step = _step((high - low) / _BINS or 1)
    start = math.floor(low / step) * step
    count = max(1, math.ceil((high - start) / step - 1e-9))  # the last bin holds its upper bound, too
    bins = [0] * count
    for value in values:
        bins[min(count - 1, int((value - start) / step + 1e-9))] += 1
    return _svg("histogram", _PLOT + 56, _histogram_parts(bins, start, step, unit, mark))


def _histogram_parts(bins: Sequence[int], start: float, step: float, unit: str, mark: float | None) -> list[str]:
    left, right, top = 46, 12, 12
    width, most = (_WIDTH - left - right) / len(bins), max(bins)
    base = top + _PLOT
    parts = [
        f'<text x="{left - 6}" y="{base + 4}" class="tick end">0</text>',
        f'<text x="{left - 6}" y="{top + 8}" class="tick end">{_number(most)}</text>',
        f'<line x1="{left}" y1="{base}" x2="{_WIDTH - right}" y2="{base}" class="axis"/>',
    ]
    for number, value in enumerate(bins):
        height = max(1.0, _PLOT * value / most) if value else 0.0
        x = left + number * width
        words = f"{_number(start + number * step)} to {_number(start + (number + 1) * step)}: {value}"
        parts.append(
            f'<rect x="{x + 0.5:.1f}" y="{base - height:.1f}" width="{max(1.0, width - 1):.1f}" height="{height:.1f}" '
            f'class="main"><title>{escape(words)}</title></rect>'
        )
    every = max(1, len(bins) // 4)
    ticks = [tick for tick in range(0, len(bins), every) if len(bins) - tick >= 0.8 * every] + [len(bins)]
    for tick in ticks:
        anchor = "end" if tick == len(bins) else "start" if tick == 0 else "middle"
        x, words = left + tick * width, _number(start + tick * step)
        parts.append(f'<text x="{x:.1f}" y="{base + 16}" class="tick {anchor}">{words}</text>')
    parts.append(f'<text x="{(left + _WIDTH) / 2:.0f}" y="{base + 34}" class="tick middle">{escape(unit)}</text>')
    if mark is not None:
        x = left + (mark - start) / step * width
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{base}" class="mark"/>')
    return parts


def _svg(kind: str, height: int, parts: Sequence[str]) -> str:
    return f'<div class="plot"><svg class="{kind}" viewBox="0 0 {_WIDTH} {height}">{"".join(parts)}</svg></div>'


def _nothing() -> str:
    return '<p class="nothing">Nothing to show.</p>'


def _step(wanted: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= wanted * (1 - 1e-9))


def _number(value: float) -> str:
    if abs(value - round(value)) < 1e-9:
        return f"{round(value):,}".replace(",", "\u202f")
    return f"{value:.3g}"


def _named(label: str) -> str:
    """A label that fits beside its bar, with the whole of it as a title where it does not."""
    shown = _short(label)
    return escape(shown) if shown == label else f"{escape(shown)}<title>{escape(label)}</title>"


def _short(label: str) -> str:
    room, width = _LABEL - 12, 0
    for place, character in enumerate(label):
        width += _width(character)
        if width > room:
            return label[: max(0, place - 1)] + "…"
    return label


def _width(character: str) -> int:
    """Pixels of a character in a broad font of 12."""
    if unicodedata.east_asian_width(character) in "WF" or character in "MWmw@%":
        return 12
    return 5 if character in "fijlrt-.,:;|' " else 10 if character.isupper() else 8
