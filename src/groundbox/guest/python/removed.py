"""APIs that pandas, numpy and scipy once had and what to write today.

Models learnt them from older code. An entry is used only after the live library has
refused it, so an entry for what an older installed version still has does no harm.
"""

from __future__ import annotations

import types
from typing import Any, Final

_PANDAS: Final = {
    "append": "pd.concat([a, b])",
    "applymap": "DataFrame.map",
    "as_matrix": "DataFrame.to_numpy()",
    "backfill": "bfill()",
    "bool": "item()",
    "first": "df.loc[: df.index[0] + offset]",
    "get_value": "df.at[row, column]",
    "hide_index": "Styler.hide(axis='index')",
    "is_monotonic": "is_monotonic_increasing",
    "iteritems": "items()",
    "ix": "df.loc or df.iloc",
    "last": "df.loc[df.index[-1] - offset :]",
    "lookup": "melt() or numpy indexing with get_indexer()",
    "mad": "(s - s.mean()).abs().mean()",
    "pad": "ffill()",
    "ravel": "to_numpy()",
    "set_value": "df.at[row, column] = value",
    "slice_shift": "shift()",
    "sort": "sort_values()",
    "swapaxes": "transpose()",
    "tshift": "shift(freq=…)",
    "view": "astype()",
    "weekofyear": "isocalendar().week",
    "week": "isocalendar().week",
}
_PANDAS_MODULE: Final = {
    "Float64Index": "pd.Index(…, dtype='float64')",
    "Int64Index": "pd.Index(…, dtype='int64')",
    "UInt64Index": "pd.Index(…, dtype='uint64')",
    "Panel": "a DataFrame with a MultiIndex",
    "TimeGrouper": "pd.Grouper(freq=…)",
    "datetime": "from datetime import datetime",
    "ewma": "s.ewm(…).mean()",
    "np": "import numpy as np",
    "rolling_mean": "s.rolling(n).mean()",
    "rolling_std": "s.rolling(n).std()",
    "scatter_matrix": "pd.plotting.scatter_matrix",
    "value_counts": "pd.Series(…).value_counts()",
}
_NUMPY: Final = {
    "Inf": "np.inf",
    "NAN": "np.nan",
    "NINF": "-np.inf",
    "NZERO": "-0.0",
    "NaN": "np.nan",
    "PINF": "np.inf",
    "PZERO": "0.0",
    "alltrue": "np.all",
    "asfarray": "np.asarray(a, dtype=float)",
    "asscalar": "a.item()",
    "bool": "bool",
    "bool8": "np.bool_",
    "cast": "np.asarray(a, dtype=…)",
    "cfloat": "np.complex128",
    "chararray": "np.strings on arrays of text",
    "complex": "complex",
    "complex_": "np.complex128",
    "cumproduct": "np.cumprod",
    "find_common_type": "np.promote_types or np.result_type",
    "float": "float or np.float64",
    "float_": "np.float64",
    "in1d": "np.isin",
    "infty": "np.inf",
    "int": "int or np.int64",
    "long": "int",
    "longfloat": "np.longdouble",
    "mat": "np.asmatrix",
    "msort": "np.sort(a, axis=0)",
    "object": "object",
    "product": "np.prod",
    "rank": "np.linalg.matrix_rank for the rank, a.ndim for dimensions",
    "round_": "np.round",
    "row_stack": "np.vstack",
    "singlecomplex": "np.complex64",
    "sometrue": "np.any",
    "str": "str",
    "string_": "np.bytes_",
    "trapz": "np.trapezoid",
    "unicode_": "np.str_",
    "recfromcsv": "np.genfromtxt(…, delimiter=',', names=True)",
    "recfromtxt": "np.genfromtxt",
    "AxisError": "np.exceptions.AxisError",
    "ComplexWarning": "np.exceptions.ComplexWarning",
    "RankWarning": "np.exceptions.RankWarning",
    "VisibleDeprecationWarning": "np.exceptions.VisibleDeprecationWarning",
}
_SCIPY: Final = {
    ("scipy", "misc"): "scipy.datasets for sample pictures, PIL or imageio for files",
    ("scipy.integrate", "cumtrapz"): "scipy.integrate.cumulative_trapezoid",
    ("scipy.integrate", "quadrature"): "scipy.integrate.quad",
    ("scipy.integrate", "romberg"): "scipy.integrate.quad",
    ("scipy.integrate", "simps"): "scipy.integrate.simpson",
    ("scipy.integrate", "trapz"): "scipy.integrate.trapezoid",
    ("scipy.interpolate", "interp2d"): "scipy.interpolate.RegularGridInterpolator or RectBivariateSpline",
    ("scipy.linalg", "kron"): "numpy.kron",
    ("scipy.linalg", "pinv2"): "scipy.linalg.pinv",
    ("scipy.linalg", "tri"): "numpy.tri",
    ("scipy.signal", "cwt"): "PyWavelets",
    ("scipy.signal", "gaussian"): "scipy.signal.windows.gaussian",
    ("scipy.signal", "hann"): "scipy.signal.windows.hann",
    ("scipy.signal", "ricker"): "PyWavelets",
    ("scipy.special", "sph_harm"): "scipy.special.sph_harm_y (with other argument order)",
    ("scipy.stats", "binom_test"): "scipy.stats.binomtest",
    ("scipy.stats", "chisqprob"): "scipy.stats.chi2.sf",
    ("scipy.stats", "itemfreq"): "numpy.unique(a, return_counts=True)",
    ("scipy.stats", "median_absolute_deviation"): "scipy.stats.median_abs_deviation",
}

REMOVED_ARGUMENTS: Final = {
    ("read_csv", "delim_whitespace"): "`delim_whitespace` is gone: use `sep=r'\\s+'`.",
    ("", "delim_whitespace"): "`delim_whitespace` is gone: use `sep=r'\\s+'`.",
    ("", "error_bad_lines"): "`error_bad_lines` is gone: use `on_bad_lines='skip'`.",
    ("", "warn_bad_lines"): "`warn_bad_lines` is gone: use `on_bad_lines='warn'`.",
    ("", "squeeze"): "`squeeze` is gone: call `.squeeze('columns')` on the result.",
    ("", "date_parser"): "`date_parser` is gone: use `date_format=…`, or `pd.to_datetime` afterwards.",
    ("", "infer_datetime_format"): "`infer_datetime_format` is gone: pandas infers by itself, remove it.",
    ("", "mangle_dupe_cols"): "`mangle_dupe_cols` is gone: pandas always renames duplicates, remove it.",
    ("", "line_terminator"): "`line_terminator` is called `lineterminator` now.",
    ("", "sheetname"): "`sheetname` is called `sheet_name` now.",
    ("", "join_axes"): "`join_axes` is gone: call `.reindex(…)` on the result.",
    ("", "how"): "`how` is gone here: call the method instead, such as `.resample(…).mean()`.",
    ("", "datetime_is_numeric"): "`datetime_is_numeric` is gone: remove it.",
    ("to_excel", "encoding"): "`to_excel` takes no `encoding`: remove it.",
    ("fillna", "method"): "`fillna(method=…)` is gone: use `.ffill()` or `.bfill()`.",
    ("replace", "method"): "`replace(method=…)` is gone: replace by NaN, then use `.ffill()` or `.bfill()`.",
    ("set_axis", "inplace"): "`set_axis` always returns a new object: assign its result.",
    ("groupby", "axis"): "`groupby(axis=1)` is gone: use `df.T.groupby(…)`.",
    ("rolling", "axis"): "`rolling(axis=1)` is gone: use `df.T.rolling(…)`.",
    ("", "level"): "`level` is gone from sums and means: use `.groupby(level=…).sum()`.",
}
"""By function and argument; an empty function stands for any of these libraries."""

_FREQUENCIES: Final = {
    "M": "ME", "Q": "QE", "Y": "YE", "A": "YE", "BM": "BME", "BQ": "BQE", "BA": "BYE", "BY": "BYE",
    "CBM": "CBME", "SM": "SME", "AS": "YS", "BAS": "BYS", "H": "h", "BH": "bh", "T": "min", "S": "s",
    "L": "ms", "U": "us", "N": "ns", "m": "ME", "q": "QE", "y": "YE",
}  # fmt: skip

REMOVED_VALUES: Final = (
    *(
        (rf"Invalid frequency: \d*{old}(-\w+)?[.,]", f"The frequency `{old}` is written `{new}` now.")
        for old, new in _FREQUENCIES.items()
    ),
    (
        r"errors must be one of 'raise', or 'coerce'|invalid error value specified",
        "`errors='ignore'` is gone: use `errors='coerce'`, or catch the exception and keep the input.",
    ),
    (r"fill_method must be None", "`fill_method` is gone: call `.ffill()` before `.pct_change()`."),
    (
        r"Can not interpolate with method=(pad|ffill|bfill|backfill)",
        "Use `.ffill()` or `.bfill()` instead of `interpolate`.",
    ),
    (
        r"include_groups=True is no longer allowed",
        "Remove `include_groups`: `apply` no longer passes the grouping columns.",
    ),
)
"""Patterns of ValueError messages and what to write instead."""


def removed_member(owner: Any, name: str) -> str | None:
    """What to write instead of `owner.name`, which the installed version lacks."""
    if isinstance(owner, types.ModuleType):
        return _removed_from_module(owner.__name__, name)
    kind = owner if isinstance(owner, type) else type(owner)
    if kind.__module__.partition(".")[0] == "pandas" and name in _PANDAS:
        return _sentence(f"{kind.__name__}.{name}", "pandas", _PANDAS[name])
    if kind.__module__.startswith("scipy.sparse") and name in ("A", "A1", "H"):
        instead = {"A": "toarray()", "A1": "toarray().ravel()", "H": "conj().T"}[name]
        return _sentence(f"{kind.__name__}.{name}", "scipy", instead)
    return None


def _removed_from_module(module: str, name: str) -> str | None:
    if module == "numpy" and name in _NUMPY:
        return _sentence(f"np.{name}", "numpy", _NUMPY[name])
    if module == "pandas" and name in _PANDAS_MODULE:
        return _sentence(f"pd.{name}", "pandas", _PANDAS_MODULE[name])
    instead = _SCIPY.get((module, name))
    return _sentence(f"{module}.{name}", "scipy", instead) if instead else None


def _sentence(gone: str, library: str, instead: str) -> str:
    return f"`{gone}` is not in the installed version of {library}; instead: {instead}."
