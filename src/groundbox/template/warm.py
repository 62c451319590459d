"""Warming a template: the imports of a profile, and each code path that a first use would make slow."""

import importlib
import importlib.util
import os
import shutil
import site
import sys
from collections.abc import Iterable
from typing import Final

_OWN_CACHES: Final = "/tmp/caches"


def enter_environment(caches: str | None) -> None:
    """Put the environment's packages on the path, and its prepared caches where libraries look for them.

    The template's /tmp is its own; a worker's hides it, and needs it no more.
    """
    site.main()
    sys.argv = [""]
    sys.path[:] = [entry for entry in sys.path if entry]
    _offer_font()
    own = os.environ.get("PIP_TARGET", "")
    if own and own not in sys.path:
        sys.path.append(own)
    if caches and os.path.isdir(caches) and not os.path.isdir(_OWN_CACHES):
        shutil.copytree(caches, _OWN_CACHES)
        os.environ["MPLCONFIGDIR"] = f"{_OWN_CACHES}/matplotlib"


def _offer_font() -> None:
    """Let Pillow and fontconfig find the environment's font, by the XDG Base Directory Specification."""
    spec = importlib.util.find_spec("paperang_p2_fonts_cjk")
    if spec is not None and spec.origin is not None:
        os.environ["XDG_DATA_DIRS"] = f"/usr/local/share:/usr/share:{os.path.dirname(spec.origin)}"


def import_all(modules: Iterable[str]) -> None:
    """Import a profile's modules."""
    for module in modules:
        importlib.import_module(module)
