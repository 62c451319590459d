"""The conformance suite: what every backend has to do, as a class to subclass.

    from groundbox.testing.conformance import BackendConformance

    class TestMine(BackendConformance):
        sandbox_options = {"backend": "mine"}
        lacking = {"test_the_number_of_files_is_bounded": "a plain folder has no such bound"}

Every sandbox is the real thing, and nothing is judged by how long it took: limits are checked by what came out.
"""

from __future__ import annotations

from groundbox.testing.apartness import ApartnessConformance
from groundbox.testing.bounds import BoundsConformance
from groundbox.testing.files import FilesConformance
from groundbox.testing.processes import ProcessConformance
from groundbox.testing.programs import DisplayConformance, ProgramConformance
from groundbox.testing.tools import ToolsConformance


class BackendConformance(
    ProgramConformance,
    DisplayConformance,
    ProcessConformance,
    BoundsConformance,
    FilesConformance,
    ApartnessConformance,
    ToolsConformance,
):
    """All of it."""
