"""Numbers of a matplotlib figure, beside its picture: kinds of charts, titles, axes, points, bars, slices, boxes.

The words are those of E2B's charts, which clients know: `type` is line, scatter, bar, pie, box_and_whisker, superchart
(several axes) or unknown, whose elements are not told. Read are the artists that hold data; grids, reference lines,
error bars and bands between lines only decorate, and are passed over.

All of it is a claim of the program: it can change a figure as it likes, and methods of its objects run here. What
raises leaves the figure without numbers and its picture as it is. Sizes are bounded: of too many points each n-th is
told, and how many are not (`left_out`).
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

MIME: Final = "application/vnd.groundbox.chart+json"
MOST_POINTS: Final = 5000
"""Of a whole figure, bars and outliers counted as well."""
_MOST_ELEMENTS: Final = 500
_MOST_AXES: Final = 50
_MOST_TICKS: Final = 200
_MOST_CHARS: Final = 200
_UNIT: Final = re.compile(r"\s\(([^()]+)\)|\[([^\[\]]+)\]")
_DECORATION: Final = ("LineCollection", "PolyCollection", "FillBetweenPolyCollection", "Quiver", "QuiverKey")
_DATES: Final = frozenset(
    {"_SwitchableDateConverter", "DateConverter", "ConciseDateConverter", "DatetimeConverter", "TimeConverter"}
)
_PERIODS: Final = frozenset({"PeriodConverter"})

Chart = dict[str, Any]


def described(figure: Any) -> Chart | None:
    """The chart that a figure is, plain data for JSON; None for an empty one, and for one that cannot be read."""
    was_stale = getattr(figure, "stale", True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Reader().figure(figure)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    finally:
        if was_stale is False:  # looking at ticks is no change
            figure.stale = False


class _Reader:
    """Reads one figure, and counts what may still be told."""

    def __init__(self) -> None:
        self._left = MOST_POINTS
        self._parts = 1

    def figure(self, figure: Any) -> Chart | None:
        axes = [each for each in figure.get_axes() if each.has_data() and each.get_label() != "<colorbar>"][:_MOST_AXES]
        self._parts = max(1, sum(len(each.lines) + len(each.collections) for each in axes))
        charts = [self.axes(each) for each in axes]
        if not charts:
            return None
        title = _text_or_none(figure.get_suptitle()) if hasattr(figure, "get_suptitle") else None
        if len(charts) == 1:
            return {**charts[0], "title": charts[0]["title"] or title}
        return {"type": "superchart", "title": title, "elements": charts}

    def axes(self, ax: Any) -> Chart:
        """One coordinate system."""
        errors = [each for each in ax.containers if _kind(each) == "ErrorbarContainer"]
        caps = {id(cap) for each in errors for cap in each.lines[1]}
        labels = {id(each.lines[0]): each.get_label() for each in errors if each.lines[0] is not None}
        lines = [line for line in ax.lines if _is_data(line, ax) and id(line) not in caps]
        clouds = [each for each in ax.collections if type(each).__name__ not in _DECORATION]
        patches = [each for each in ax.patches if _is_data(each, ax) or _kind(each) == "Wedge"]
        bars = [each for each in ax.containers if _kind(each) == "BarContainer"]
        if bars:
            lines = [line for line in lines if not _is_error_of_a_bar(line, bars)]
        barred = sum(len(each.patches) for each in bars)
        title = _text_or_none(ax.get_title() or ax.get_title("left") or ax.get_title("right"))
        if ax.images or ax.name == "3d":  # whose artists hold what is projected
            return {"type": "unknown", "title": title, "elements": []}
        try:
            boxes = _boxes(lines, patches) if lines and not clouds and not bars else []
        except ValueError:
            return {"type": "unknown", "title": title, "elements": []}
        if boxes:
            return {"type": "box_and_whisker", "title": title, **self._box_chart(ax, boxes, lines)}
        if lines and not (clouds or patches):
            elements = [
                self._points(labels.get(id(each), each.get_label()), "Line", n, *_line_data(ax, each))
                for n, each in _some(lines)
            ]
            return {"type": "line", "title": title, **_ticked(ax), "elements": elements}
        if clouds and not (lines or patches) and all(_kind(each) == "PathCollection" for each in clouds):
            elements = [self._cloud(ax, n, each) for n, each in _some(clouds)]
            return {"type": "scatter", "title": title, **_ticked(ax), "elements": elements}
        if bars and barred == len(patches) and not (clouds or lines):
            return {"type": "bar", "title": title, **self._bar_chart(ax, bars)}
        if patches and not (lines or clouds) and all(_kind(each) == "Wedge" for each in patches):
            return {"type": "pie", "title": title, "elements": [_slice(n, each) for n, each in _some(patches)]}
        return {"type": "unknown", "title": title, "elements": []}

    def _points(self, label: Any, kind: str, number: int, xs: Any, ys: Any) -> Chart:
        """A line or a cloud; each part of the figure may tell its share of the points, and what others leave."""
        count = min(len(xs), len(ys))
        may_tell = max(1, self._left // self._parts)
        self._parts = max(1, self._parts - 1)
        step = max(1, math.ceil(count / may_tell))
        chosen = range(0, count, step)
        self._left -= len(chosen)
        told: Chart = {
            "label": _label(label, kind, number),
            "points": [[_value(xs[at]), _value(ys[at])] for at in chosen],
        }
        return told if step == 1 else {**told, "left_out": count - len(chosen)}

    def _cloud(self, ax: Any, number: int, cloud: Any) -> Chart:
        np = sys.modules["numpy"]
        offsets = np.ma.masked_invalid(np.ma.asarray(cloud.get_offsets(), dtype=float))
        kept = offsets[~np.ma.getmaskarray(offsets).any(axis=1)]
        words = [_words_of(axis) for axis in (ax.xaxis, ax.yaxis)]
        columns = [_Column(np.asarray(kept[:, at]), words[at]) for at in (0, 1)]
        return self._points(cloud.get_label(), "Scatter", number, *columns)

    def _bar_chart(self, ax: Any, containers: Sequence[Any]) -> Chart:
        upright = getattr(containers[0], "orientation", None) != "horizontal"
        along = ax.xaxis if upright else ax.yaxis
        name = _categories(along)
        elements: list[Chart] = []
        total = 0
        for number, container in _some(containers):
            group = _label(container.get_label(), "Group", number)
            for bar in container.patches:
                total += 1
                if len(elements) >= min(self._left, MOST_POINTS):
                    continue
                at = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
                value = _value(bar.get_height() if upright else bar.get_width())
                elements.append({"label": name(at), "group": group, "value": value})
        self._left -= len(elements)
        told = {**_labelled(ax, upright=upright), "elements": elements}
        return told if total == len(elements) else {**told, "left_out": total - len(elements)}

    def _box_chart(self, ax: Any, boxes: Sequence[_Box], lines: Sequence[Any]) -> Chart:
        upright = boxes[0].upright
        name = _categories(ax.xaxis if upright else ax.yaxis)
        elements = []
        for _, box in _some(boxes):
            outliers = box.outliers(lines)
            kept = outliers[: max(0, self._left)]
            self._left -= len(kept)
            element = {
                "label": name(box.center),
                "min": box.low,
                "first_quartile": box.bottom,
                "median": box.median,
                "third_quartile": box.top,
                "max": box.high,
                "outliers": kept,
            }
            elements.append(
                element if len(kept) == len(outliers) else {**element, "left_out": len(outliers) - len(kept)}
            )
        return {**_labelled(ax, upright=upright), "elements": elements}


class _Box:
    """A box of a box plot: from its outline, its median and its whiskers.

    Attributes:
        center: Where it stands among its axis' categories.
    """

    def __init__(self, outline: Any, segments: Sequence[tuple[Any, Any]]) -> None:
        (left, right), (bottom, top) = _span(outline)
        for xs, ys in segments:
            if _within(xs, left, right) and ys[0] == ys[1] and _within(ys, bottom, top) and xs[0] != xs[1]:
                self.upright = True
                self._side, ends, median = (left, right), (bottom, top), ys[0]
                break
        else:
            for xs, ys in segments:
                if _within(ys, bottom, top) and xs[0] == xs[1] and _within(xs, left, right) and ys[0] != ys[1]:
                    self.upright = False
                    self._side, ends, median = (bottom, top), (left, right), xs[0]
                    break
            else:
                raise ValueError("a box without a median")
        self.center = sum(self._side) / 2
        self.bottom, self.top, self.median = float(ends[0]), float(ends[1]), float(median)
        self.low, self.high = self.bottom, self.top
        whiskers = 0
        for xs, ys in segments:
            across, along = (xs, ys) if self.upright else (ys, xs)
            if across[0] != across[1] or not _within(across, *self._side):
                continue
            first, last = sorted(map(float, along))
            if last == self.bottom:
                self.low, whiskers = first, whiskers + 1
            elif first == self.top:
                self.high, whiskers = last, whiskers + 1
        if not whiskers:
            raise ValueError("a box without whiskers")

    def outliers(self, lines: Sequence[Any]) -> list[float]:
        """Single points beside the whiskers."""
        found = []
        for line in lines:
            if line.get_linestyle() not in ("None", "none", " ", ""):
                continue
            xs, ys = line.get_xdata(orig=False), line.get_ydata(orig=False)
            across, along = (xs, ys) if self.upright else (ys, xs)
            found += [
                float(value)
                for at, value in zip(across, along, strict=False)
                if self._side[0] <= at <= self._side[1] and not self.low <= value <= self.high
            ]
        return found


def _boxes(lines: Sequence[Any], patches: Sequence[Any]) -> list[_Box]:
    """The boxes that outlines and segments make up; none where something else is there, too.

    Raises:
        ValueError: An outline has no median or no whiskers, as one with notches beyond its quartiles.
    """
    data = [(line.get_xdata(orig=False), line.get_ydata(orig=False)) for line in lines]
    outlines = [each.get_path().vertices for each in patches if _kind(each) == "PathPatch"]
    if len(outlines) != len(patches):
        return []
    if not outlines:
        np = sys.modules["numpy"]
        closed = [(xs, ys) for xs, ys in data if len(xs) in (5, 11) and xs[0] == xs[-1] and ys[0] == ys[-1]]
        outlines = [np.column_stack(each) for each in closed if max(map(len, map(set, each))) <= 5]
    segments = [(xs, ys) for xs, ys in data if len(xs) == 2]
    if not outlines or len(segments) < len(outlines) or len(outlines) > _MOST_ELEMENTS:
        return []
    return [_Box(outline, segments) for outline in outlines]


class _Column:
    """One coordinate of a cloud, as its axis' words or dates where it has them."""

    def __init__(self, numbers: Any, word: Callable[[float], Any] | None) -> None:
        self._numbers, self._word = numbers, word

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: int) -> Any:
        number = self._numbers[at]
        return number if self._word is None else self._word(number)


def _is_error_of_a_bar(line: Any, containers: Sequence[Any]) -> bool:
    """Tell whether an unnamed line stays within one bar's breadth, as the error bars that seaborn draws."""
    if not str(line.get_label()).startswith("_"):
        return False
    np = sys.modules["numpy"]
    xs, ys = (np.asarray(each, dtype=float) for each in (line.get_xdata(orig=False), line.get_ydata(orig=False)))
    xs, ys = xs[np.isfinite(xs)], ys[np.isfinite(ys)]
    if not len(xs) or not len(ys):
        return False
    for container in containers:
        upright = getattr(container, "orientation", None) != "horizontal"
        for bar in container.patches[:_MOST_ELEMENTS]:
            low = bar.get_x() if upright else bar.get_y()
            high = low + (bar.get_width() if upright else bar.get_height())
            across = xs if upright else ys
            if low <= across.min() and across.max() <= high and len(np.unique(across)) <= 3:
                return True
    return False


def _line_data(ax: Any, line: Any) -> tuple[Any, Any]:
    """The data as they were given, dates as dates."""
    np = sys.modules["numpy"]
    xs, ys = np.atleast_1d(line.get_xdata(orig=True)), np.atleast_1d(line.get_ydata(orig=True))
    is_counted = _converter(ax.xaxis) in _PERIODS and xs.dtype.kind in "if"
    return _Column(xs, _words_of(ax.xaxis) if is_counted else None), ys


def _slice(number: int, wedge: Any) -> Chart:
    angle = abs(float(wedge.theta2) - float(wedge.theta1))  # of 32 bits, as matplotlib computes them
    return {
        "label": _label(wedge.get_label(), "Slice", number),
        "angle": float(f"{angle:.6g}"),
        "radius": _value(wedge.r),
    }


def _ticked(ax: Any) -> Chart:
    told = _labelled(ax, upright=True)
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        ticks = axis.get_majorticklocs()[:_MOST_TICKS]
        labels = [_text(each.get_text()) for each in axis.get_majorticklabels()[:_MOST_TICKS]]
        dates = _words_of(axis) if _converter(axis) in (_DATES | _PERIODS) else None
        told[f"{name}_ticks"] = [_value(each) if dates is None else dates(each) for each in ticks]
        told[f"{name}_tick_labels"] = labels
        told[f"{name}_scale"] = _scale(axis, ticks, labels)
    return told


def _labelled(ax: Any, *, upright: bool) -> Chart:
    """Labels and units of the axes. Where bars and boxes lie, x is the axis of their categories all the same."""
    labels = [_text_or_none(ax.get_xlabel()), _text_or_none(ax.get_ylabel())]
    if not upright:
        labels.reverse()
    told: Chart = {}
    for name, label in zip("xy", labels, strict=True):
        found = _UNIT.search(label or "")
        told[f"{name}_label"] = label
        told[f"{name}_unit"] = found[1] or found[2] if found else None
    return told if upright else {**told, "orientation": "horizontal"}


def _scale(axis: Any, ticks: Sequence[Any], labels: Sequence[str]) -> str:
    converter = _converter(axis)
    if converter in _DATES or converter in _PERIODS:
        return "datetime"
    scale = str(axis.get_scale())[:_MOST_CHARS]
    if scale != "linear":
        return scale
    if converter == "StrCategoryConverter":
        return "categorical"
    counts = all(tick == at and str(at) != label for at, (tick, label) in enumerate(zip(ticks, labels, strict=False)))
    return "categorical" if counts and _has_names(axis) else "linear"


def _words_of(axis: Any) -> Callable[[float], Any] | None:
    """What numbers on an axis stand for: dates, or categories."""
    converter = _converter(axis)
    if converter in _DATES:
        dates: Any = sys.modules.get("matplotlib.dates")
        return lambda number: dates.num2date(number).replace(tzinfo=None).isoformat()
    if converter == "StrCategoryConverter":
        words = {place: str(word) for word, place in axis.units._mapping.items()}
        return lambda number: words.get(round(float(number)), number)
    if converter in _PERIODS and getattr(axis, "freq", None) is not None:  # pandas counts periods since 1970
        period: Any = sys.modules["pandas"].Period
        return lambda number: period(ordinal=round(float(number)), freq=axis.freq).start_time.isoformat()
    return None


def _has_names(axis: Any) -> bool:
    """Whether its ticks were set one by one, as they are where they have names."""
    return _kind(axis.get_major_locator()) == "FixedLocator"


def _categories(axis: Any) -> Callable[[float], str]:
    """What stands below a bar or a box: a name where ticks have names, else a date or the number."""
    word = _words_of(axis)
    if word is not None and _converter(axis) in (_DATES | _PERIODS):
        return lambda at: _text(word(at))
    names: list[tuple[float, str]] = []
    if word is not None or _has_names(axis):
        ticks, labels = axis.get_majorticklocs(), axis.get_majorticklabels()
        names = [(float(at), each.get_text()) for at, each in zip(ticks, labels, strict=False)]
    if not names:
        return lambda at: f"{at:.6g}"

    places = sorted(place for place, _ in names)
    reach = min((b - a for a, b in itertools.pairwise(places) if b > a), default=1.0) / 2

    def name(at: float) -> str:
        place, text = min(names, key=lambda each: abs(each[0] - at))
        return _text(text) if text and abs(place - at) <= reach else f"{at:.6g}"

    return name


def _converter(axis: Any) -> str:
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return "" if converter is None else type(converter).__name__


def _is_data(artist: Any, ax: Any) -> bool:
    """Whether it stands at the data's coordinates in both directions, as no line across a whole axis does."""
    return bool(artist.get_visible()) and all(artist.get_transform().contains_branch_seperately(ax.transData))


def _kind(artist: Any) -> str:
    return next((each.__name__ for each in type(artist).__mro__ if each.__name__ in _KINDS), type(artist).__name__)


_KINDS: Final = frozenset({"BarContainer", "PathCollection", "PathPatch", "Wedge", "FixedLocator"})


def _span(points: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    xs, ys = points[:, 0], points[:, 1]
    return (float(xs.min()), float(xs.max())), (float(ys.min()), float(ys.max()))


def _within(values: Sequence[float], low: float, high: float) -> bool:
    return all(low <= each <= high for each in values)


def _some(items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    return enumerate(items[:_MOST_ELEMENTS])


def _label(label: Any, kind: str, number: int) -> str:
    text = _text(label)
    return f"{kind} {number}" if not text or text.startswith("_") else text


def _text(value: Any) -> str:
    return str(value)[:_MOST_CHARS]


def _text_or_none(value: Any) -> str | None:
    return _text(value) or None


def _value(value: Any) -> Any:
    """A coordinate for JSON: a number, a text, or None for what is none."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    np = sys.modules["numpy"]
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value.astype("datetime64[s]"))
    if isinstance(value, str):
        return _text(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return _text(value)
    return number if math.isfinite(number) else None
