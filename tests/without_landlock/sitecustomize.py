"""Waives Landlock in all programs of a test run, on a kernel that has none: PYTHONPATH=tests/without_landlock.

Sandboxes that ask for branching keep the refusal, since branching needs every layer.
"""

import importlib.util
import sys

WITHOUT = frozenset({"landlock"})


class Waiving:
    """Changes two modules of groundbox after they were loaded."""

    def find_spec(self, name, path=None, target=None):
        """Return the usual way to load one of the two, with a change afterwards."""
        if name not in CHANGES:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        load = spec.loader.exec_module

        def load_and_change(module):
            load(module)
            CHANGES[name](module)

        spec.loader.exec_module = load_and_change
        return spec


def waive_in_sandboxes(engine):
    """Have every setup of a sandbox waive what this kernel lacks."""
    check = engine.Setup.__post_init__

    def check_and_waive(setup):
        check(setup)
        if setup.backend == "namespaces" and not setup.branching:
            object.__setattr__(setup, "waive", setup.waive | WITHOUT)

    engine.Setup.__post_init__ = check_and_waive


def waive_in_the_probe(probe):
    """Have no command refuse before it makes a sandbox."""
    missing = probe.missing
    probe.missing = lambda findings, *, backend, waive: missing(findings, backend=backend, waive=waive | WITHOUT)


CHANGES = {"groundbox.sandbox.engine": waive_in_sandboxes, "groundbox.jail.probe": waive_in_the_probe}
sys.meta_path.insert(0, Waiving())
