"""Warming a template: the imports of a profile, and each code path that a first use would make slow."""

import importlib
import importlib.util
import os
import shutil
import site
import sys
from collections.abc import Iterable


def enter_environment(caches: str | None, folder: str) -> None:
    """Put the environment's packages on the path, and its prepared caches where libraries look for them.

    Args:
        folder: The template's own, for what libraries keep. A worker does not see it, and needs it no more.
            Without a mount namespace /tmp is everybody's: what others have put there, such as a list of fonts or
            settings of matplotlib, would be taken for the environment's.
    """
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
    site.main()
    sys.argv = [""]
    sys.path[:] = [entry for entry in sys.path if entry]
    _offer_font()
    own = os.environ.get("PIP_TARGET", "")
    if own and own not in sys.path:
        sys.path.append(own)
    if caches and os.path.isdir(caches):
        shutil.copytree(caches, f"{folder}/caches")
        os.environ["MPLCONFIGDIR"] = f"{folder}/caches/matplotlib"


def _offer_font() -> None:
    """Let Pillow and fontconfig find the environment's font, by the XDG Base Directory Specification."""
    spec = importlib.util.find_spec("paperang_p2_fonts_cjk")
    if spec is not None and spec.origin is not None:
        os.environ["XDG_DATA_DIRS"] = f"/usr/local/share:/usr/share:{os.path.dirname(spec.origin)}"


def import_all(modules: Iterable[str]) -> None:
    """Import a profile's modules."""
    for module in modules:
        importlib.import_module(module)
