"""Callbacks that run right after a module was imported for the first time.

A guest library is adapted only when a program uses it: here, the moment its import
ends. What is already imported is adapted at once. One finder stands at the front of
`sys.meta_path`, answers only for watched names, and finds through the others.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

Adapt = Callable[[Any], None]


def after_import(name: str, adapt: Adapt) -> None:
    """Call `adapt` with the module `name`, now or when it is imported."""
    module = sys.modules.get(name)
    if module is not None:
        adapt(module)
        return
    _finder().watched[name] = adapt


def forget(name: str, adapt: Adapt) -> None:
    """Undo `after_import` for an import that has not come."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) and finder.watched.get(name) == adapt:
            del finder.watched[name]


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.watched: dict[str, Adapt] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        adapt = self.watched.pop(fullname, None)
        if adapt is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(fullname, path, target) if find and finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, adapt)
                return spec  # type: ignore[no-any-return]
        self.watched[fullname] = adapt
        return None


class _Loader(importlib.abc.Loader):
    """Loads as `loader` does, then gives itself up and calls `adapt`."""

    def __init__(self, loader: Any, adapt: Adapt) -> None:
        self._loader = loader
        self._adapt = adapt

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._adapt(module)


def _finder() -> _Finder:
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            return finder
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    return finder
