"""What a newcomer has: the commands, as in tests/cli."""

import importlib.util
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location(
    "commands_for_first_hour", Path(__file__).parents[1] / "cli" / "conftest.py"
)
_COMMANDS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_COMMANDS)

command, nothing_left, scratch = _COMMANDS.command, _COMMANDS.nothing_left, _COMMANDS.scratch
terminal = _COMMANDS.terminal
