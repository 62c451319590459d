"""The profiles: which modules a template imports before its first fork, and where its guests look for programs."""

from __future__ import annotations

from typing import Final

PROFILES: Final = {
    "bare": (
        "bisect collections copy dataclasses datetime enum functools heapq itertools json math operator os random re "
        "string sys textwrap time traceback typing"
    ),
    "science": (
        "asyncio csv dataclasses datetime decimal json re statistics subprocess tempfile "
        "numpy pandas matplotlib.pyplot sympy duckdb"
    ),
}
RESIDENTS: Final = {"node": "javascript"}
"""Profiles that are like `bare`, with the process started that keeps a language's state."""
GUEST_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where guests look for programs, after the folder of their environment's own."""
