"""The libraries of the extra `data`, imported when they are needed and nowhere else."""

from __future__ import annotations

import importlib
from typing import Any, Final

from groundbox.errors import ExtraMissing


def need(module: str, purpose: str, *, install: str = "pyarrow rensa httpx") -> Any:
    """A module of the extra, or of another package.

    Args:
        purpose: What for, such as `to write samples.parquet`.
        install: What brings it.

    Raises:
        ExtraMissing: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        # By the package that is installed, which is what an installer is asked for.
        raise ExtraMissing(module.partition(".")[0], purpose, install) from None


_PURPOSES: Final = {
    "pyarrow.parquet": "to read and write samples.parquet",
    "pyarrow": "to hold tables",
    "rensa": "to find near-duplicate programs",
}


def data(module: str) -> Any:
    """A module of the extra that builds need."""
    return need(module, _PURPOSES[module])


def parquet() -> Any:
    """`pyarrow.parquet`."""
    return data("pyarrow.parquet")


def check() -> None:
    """Make sure before hours of work that all are there.

    Raises:
        ExtraMissing: One is not installed.
    """
    for module in _PURPOSES:
        data(module)
