"""Builtins of our own: a program may put functions in the place of the real ones.

A function looks builtins up in the `__builtins__` that its module had when it was defined, so each module of this
package calls `protect` before its first definition.
"""

import builtins
from typing import Any

# A copy: `builtins.len = None` of the program changes the module, and not this.
_OWN = dict(vars(builtins))


def protect(module: dict[str, Any]) -> None:
    """Let functions that are defined in `module` from now on use builtins that nobody changes.

    Args:
        module: Its `globals()`.
    """
    module["__builtins__"] = _OWN
