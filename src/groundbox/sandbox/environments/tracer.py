"""The native tracer of an environment, by the tracer that is installed, in the folder that guests can read.

It is made ready when an environment is made, never when a program runs. Without it the plain tracer in Python is used,
which is slow and folds nothing, so that traces of long runs end at their limits; `groundbox environment list` tells
which, and `groundbox doctor` why.
"""

from __future__ import annotations

from pathlib import Path

from groundbox import tracer
from groundbox.sandbox.environments.store import Environment, data_home
from groundbox.tracer import Origin


def folder() -> Path:
    """Return the folder of the native tracers of all environments."""
    return data_home() / "tracers"


def find(environment: Environment) -> Path | None:
    """Return the native tracer that was made ready for this environment's interpreter."""
    return tracer.find().for_environment(environment, folder(), effort="find").file


def standing(environment: Environment) -> Origin:
    """Return where the native tracer is from, or why there is none."""
    return tracer.find().for_environment(environment, folder(), effort="find").origin


def ensure(environment: Environment) -> Path | None:
    """Make a native tracer ready if there is none. `standing` explains a failure; traces work without it."""
    return tracer.find().for_environment(environment, folder(), effort="build").file


def for_a_trace(environment: Environment) -> Path | None:
    """Return the native tracer, copied first if one came with groundbox. May take seconds, and needs no compiler."""
    return tracer.find().for_environment(environment, folder(), effort="copy").file
