"""The catalog that sandboxes give to their engine: environments, tracers and languages, by the names of a `Setup`.

It implements `groundbox.sandbox.engine.Catalog`, so that the engine knows none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groundbox.sandbox import environments, languages
from groundbox.sandbox.environments import store, tracer
from groundbox.sandbox.profiles import RESIDENTS

if TYPE_CHECKING:
    from groundbox.sandbox.template import Recipe

GUEST: Final = "groundbox.guest.entry"
TRACER: Final = "groundbox.guest.trace.tracer"


def version_link(name: str) -> str:
    """Return where the link to the current version of an environment points, or "" if there is none."""
    return environments.version_link(name)


def environment(name: str) -> environments.Environment:
    """Return the current version of an environment.

    Raises:
        EnvironmentFailed: The environment is not there, or cannot be used.
    """
    return environments.get(name)


def lease(found: environments.Environment) -> AbstractContextManager[object]:
    """Keep this version of an environment on disk until the context is left."""
    return environments.lease(found)


def native_folder() -> Path:
    """Return the folder of the native tracers of all environments. Guests can read it if there is one."""
    return tracer.folder()


def prepare_tracer(found: environments.Environment) -> Path | None:
    """Return the file of the native tracer, made ready first if groundbox brought one. May take seconds."""
    return tracer.for_a_trace(found)


def waiting_language(profile: str) -> str:
    """Return the language whose process waits in a worker of this profile, or "" if it is not installed."""
    language = RESIDENTS.get(profile, "")
    return language if language and languages.missing(language) is None else ""


def resident(language: str) -> Mapping[str, Any]:
    """Return the order that starts the waiting process of a language."""
    order: Mapping[str, Any] = languages.optional(languages.find(language), "resident")()
    return order


def native_tracer(recipe: Recipe) -> str:
    """Return the file of the native tracer that guests of this recipe can load, or ""."""
    if TRACER in recipe.modules:
        return recipe.tracer
    if str(tracer.folder()) not in recipe.readable:
        return ""
    return str(tracer.find(store.read(Path(recipe.environment))) or "")
