"""The version of groundbox itself, which cards, reports and servers tell."""

from importlib import metadata
from typing import Final

UNKNOWN: Final = "0"


def own_version() -> str:
    """As its package says; `UNKNOWN` where it runs from a folder and was never installed."""
    try:
        return metadata.version("groundbox")
    except metadata.PackageNotFoundError:
        return UNKNOWN
