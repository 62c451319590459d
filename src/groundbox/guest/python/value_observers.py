"""What the observers look at when values may have changed on the way: read from a file, aligned, or computed.

See observers.py. Here, too, nothing is changed, and work is linear in the rows, which are counted. A text file that was
read is read once more, to compare what stands in it with what pandas made of it.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .label_observers import codes_as_numbers, order_undone, partly_aligned

if TYPE_CHECKING:
    from .watching import Watch

Observer = Callable[["Watch", int, dict[str, Any], Any], None]

EXACT: Final = 2**53
"""From here on, floating point has not every whole number."""
_MOST_FILE_BYTES: Final = 5_000_000
_MOST_COLUMNS: Final = 200
_WORDS: Final = frozenset(
    ["NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan", "<NA>", "#NA", "#N/A", "#N/A N/A"]
)
_OPERATORS: Final = {
    "__add__": lambda one, other: one + other,
    "__sub__": lambda one, other: one - other,
    "__mul__": lambda one, other: one * other,
    "__pow__": lambda one, other: one**other,
    "__radd__": lambda one, other: other + one,
    "__rmul__": lambda one, other: other * one,
}


def value_observers(pandas: Any) -> dict[Any, Observer]:
    """Functions of pandas, to what looks at them."""
    frame, series = pandas.DataFrame, pandas.Series
    found: dict[Any, Observer] = {
        frame.__setitem__: assigned,
        frame.reindex: reindexed,
        series.reindex: reindexed,
        frame.shift: reindexed,
        series.shift: reindexed,
        series.prod: lambda *told: reduced(*told, product=True),
        series.cumprod: lambda *told: reduced(*told, product=True),
        series.cumsum: lambda *told: reduced(*told, product=False),
        frame.sum: lambda *told: reduced_frame(*told, product=False),
        frame.prod: lambda *told: reduced_frame(*told, product=True),
        series.__truediv__: lambda *told: aligned(*told),
    }
    for name, work in _OPERATORS.items():
        found[getattr(series, name)] = _computing(work)
    return found


def array_observers(numpy: Any) -> dict[Any, Observer]:
    """Functions of numpy, to what looks at them."""
    methods: Any = sys.modules.get("numpy._core._methods") or sys.modules["numpy.core._methods"]
    return {
        methods._prod: lambda *told: _reduced_array(*told, product=True),
        methods._sum: lambda *told: _reduced_array(*told, product=False),
        numpy.prod: lambda *told: _reduced_array(*told, product=True),
        numpy.sum: lambda *told: _reduced_array(*told, product=False),
        numpy.cumprod: lambda *told: _reduced_array(*told, product=True),
        numpy.cumsum: lambda *told: _reduced_array(*told, product=False),
    }


def blank_keys(watch: Watch, line: int, left: Any, right: Any, keys: tuple[list[Any], list[Any]], rows: int) -> None:
    """Rows whose key is blank match rows whose key is blank."""
    for one, other in zip(*keys, strict=True):
        ones, others = int(left[one].isna().sum()), int(right[other].isna().sum())
        if ones and others:
            watch.tell("merge_blank_keys", line, [one], lost=ones, left=len(left), right=len(right), rows=rows)
            return


def rounded(watch: Watch, line: int, sources: list[Any], result: Any) -> None:
    """Whole numbers that became floating point, for the blanks among them, and are no longer exact."""
    columns = {name: result[name] for name in list(result.columns)[:_MOST_COLUMNS]} if result.ndim == 2 else None
    for source in sources:
        pairs = (
            [(result.name, source, result)]
            if columns is None
            else [(name, source[name], columns[name]) for name in source.columns if name in columns]
        )
        for name, old, new in pairs:
            if getattr(old.dtype, "kind", "") not in "iu" or getattr(new.dtype, "kind", "") != "f":
                continue
            lost = int((old.abs() > EXACT).sum())
            if lost and watch.may_look_at(len(old)):
                watch.tell("integers_rounded", line, [name], rows=len(old), lost=lost)


def reindexed(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """See `rounded`."""
    if hasattr(result, "ndim") and watch.may_look_at(given["self"].size):
        rounded(watch, line, [given["self"]], result)


def assigned(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """A column that was assigned from labels of which the frame has none."""
    own, value = given["self"], given["value"]
    if type(value).__name__ != "Series":
        return
    if _matches_no_label(watch, own, value):
        watch.tell("misaligned", line, [given["key"]], rows=len(own), right=len(value))
    else:
        partly_aligned(watch, line, own, value, given["key"])
        order_undone(watch, line, given)


def aligned(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """Arithmetic of columns that have no label in common."""
    own, other = given["self"], given["other"]
    if not type(own).__name__ == type(other).__name__ == "Series":
        return
    if _matches_no_label(watch, own, other):
        watch.tell("misaligned", line, [own.name], rows=len(own), right=len(other))
    else:
        partly_aligned(watch, line, own, other, own.name)


def _matches_no_label(watch: Watch, one: Any, other: Any) -> bool:
    if not len(one) or not len(other) or one.index is other.index or not watch.may_look_at(len(one) + len(other)):
        return False
    return not one.index.isin(other.index).any()


def _computing(work: Callable[[Any, Any], Any]) -> Observer:
    def observe(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
        aligned(watch, line, given, result)
        own, other = given["self"], given["other"]
        if getattr(getattr(result, "dtype", None), "kind", "") not in ("i", "u") or getattr(own, "ndim", 0) != 1:
            return
        if not watch.may_look_at(len(own)):
            return
        numpy: Any = sys.modules["numpy"]
        with numpy.errstate(all="ignore"):
            expected = work(own.astype(float), other.astype(float) if hasattr(other, "astype") else other)
            wrong = int((abs(expected - result) > abs(expected) * 1e-6 + 1).sum())
        if wrong:
            watch.tell("overflow", line, [own.name], rows=len(own), lost=wrong)

    return observe


def reduced(watch: Watch, line: int, given: dict[str, Any], result: Any, *, product: bool) -> None:
    """A sum or a product of whole numbers that has more bits than its type."""
    own = given["self"]
    if getattr(own.dtype, "kind", "") in ("i", "u") and watch.may_look_at(len(own)) and _grows(own, product):
        watch.tell("overflow", line, [own.name], rows=len(own), lost=1)


def reduced_frame(watch: Watch, line: int, given: dict[str, Any], result: Any, *, product: bool) -> None:
    """See `reduced`."""
    own = given["self"]
    if given.get("axis") not in (0, None, "index") or not watch.may_look_at(own.size):
        return
    names = [
        name
        for number, name in enumerate(list(own.columns)[:_MOST_COLUMNS])
        if getattr(own.iloc[:, number].dtype, "kind", "") in ("i", "u") and _grows(own.iloc[:, number], product)
    ]
    if names:
        watch.tell("overflow", line, names, rows=len(own), lost=len(names))


def _reduced_array(watch: Watch, line: int, given: dict[str, Any], result: Any, *, product: bool) -> None:
    numpy: Any = sys.modules["numpy"]
    values = numpy.asarray(given["a"])
    kind = getattr(getattr(result, "dtype", None), "kind", "")
    whole = kind in ("i", "u") and values.dtype.kind in ("i", "u") and given.get("axis") is None
    if whole and watch.may_look_at(values.size) and _grows(values, product, bits=result.dtype.itemsize * 8):
        watch.tell("overflow", line, [], rows=values.size, lost=1)


def _grows(values: Any, product: bool, bits: int = 64) -> bool:
    numpy: Any = sys.modules["numpy"]
    with numpy.errstate(all="ignore"):
        numbers = numpy.asarray(values).astype(float)
        size = abs(float(numbers.prod() if product else numbers.sum()))
    unsigned = getattr(values.dtype, "kind", "") == "u"
    return not size < 2.0 ** (bits if unsigned else bits - 1)


def read_texts(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """What stands in a file of values and is not in the frame: zeros in front, words for blanks, whole numbers."""
    rows = _rows(given)
    if rows is None or len(rows) != len(result) + 1 or not watch.may_look_at(result.size):
        return
    header, *body = rows
    zeros, words, large, codes = [], [], [], []
    lost = {"zeros": 0, "words": 0, "large": 0, "codes": 0}
    for place, name in enumerate(header[:_MOST_COLUMNS]):
        if name not in result.columns or any(len(row) != len(header) for row in body):
            continue
        column, texts = result[name], [row[place].strip() for row in body]
        kind = getattr(column.dtype, "kind", "")
        is_code = max(map(len, texts), default=0) > 2  # `01` to `12` are months
        if kind in ("i", "u", "f") and is_code and (count := sum(_has_zero(text) for text in texts)):
            zeros.append(name)
            lost["zeros"] += count
        if kind == "f" and (count := codes_as_numbers(texts)):
            codes.append(name)
            lost["codes"] += count
        whole = [int(text) for text in texts if text] if all(_is_whole(text) for text in texts if text) else []
        if kind == "f" and (count := sum(abs(number) > EXACT for number in whole)):
            large.append(name)
            lost["large"] += count
        count = sum(text in _WORDS for text in texts) if kind not in ("i", "u", "f", "b", "M") else 0
        if count and int(column.isna().sum()) >= count and _reads_as_text(texts):
            words.append(name)
            lost["words"] += count
    for kind, names, count in (
        ("zeros_dropped", zeros, lost["zeros"]),
        ("text_blanked", words, lost["words"]),
        ("integers_rounded", large, lost["large"]),
        ("codes_as_numbers", codes, lost["codes"]),
    ):
        if names:
            watch.tell(kind, line, list(names), rows=len(result), lost=count)


def _rows(given: dict[str, Any]) -> list[list[str]] | None:
    """The file as text; None if it was read in a way that is not looked at here."""
    plain = all(given.get(name) is None for name in ("dtype", "skiprows", "usecols", "comment", "nrows", "thousands"))
    if not plain or given.get("header") != "infer" or type(given.get("names")).__name__ == "list":
        return None
    source, separator = given["filepath_or_buffer"], given.get("sep")
    separator = separator if isinstance(separator, str) else ","
    if len(separator) != 1 or given.get("keep_default_na") is False:
        return None
    if isinstance(source, io.StringIO):
        text = source.getvalue()
    elif (
        isinstance(source, str | os.PathLike) and os.path.isfile(source) and os.path.getsize(source) < _MOST_FILE_BYTES
    ):
        with open(source, encoding=given.get("encoding") or "utf-8-sig", newline="") as file:
            text = file.read()
    else:
        return None
    if len(text) > _MOST_FILE_BYTES:
        return None
    return [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]


def _has_zero(text: str) -> bool:
    return len(text) > 1 and text[0] == "0" and text.isascii() and text.isdigit() and text.strip("0") != ""


def _is_whole(text: str) -> bool:
    bare = text[1:] if text[0] in "+-" else text
    return bare.isascii() and bare.isdigit() and len(bare) < 400


def _reads_as_text(texts: list[str]) -> bool:
    """Whether the words stand among others of their kind, and so may be values: codes of one length, or few blanks."""
    others = {text for text in texts if text and text not in _WORDS}
    words = {text for text in texts if text in _WORDS}
    return bool(others) and (
        all(any(len(other) == len(word) for other in others) for word in words) or sum(t in _WORDS for t in texts) == 1
    )
