"""The libraries of the extra `data`, imported when they are needed and nowhere else."""

from __future__ import annotations

import importlib
from typing import Any

from groundbox.errors import ExtraMissing


def need(module: str, purpose: str, *, install: str = "pyarrow duckdb rensa httpx") -> Any:
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


def parquet() -> Any:
    """`pyarrow.parquet`."""
    return need("pyarrow.parquet", "to read and write samples.parquet")


def duckdb() -> Any:
    """`duckdb`."""
    return need("duckdb", "to group near-duplicate programs")


def pyarrow() -> Any:
    """`pyarrow`."""
    return need("pyarrow", "to hold tables")


def rensa() -> Any:
    """`rensa`."""
    return need("rensa", "to find near-duplicate programs")


def check() -> None:
    """Make sure before hours of work that all are there.

    Raises:
        ExtraMissing: One is not installed.
    """
    for library in (parquet, duckdb, pyarrow, rensa):
        library()
