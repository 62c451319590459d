"""Each default is a value that its own option accepts, on machines of every size."""

import os
import random
import subprocess
import sys

import pytest

from groundbox.limits import GiB, Limits, MiB, usual_memory_bytes
from groundbox.server.settings import Settings

EVERY_DEFAULT = """
import contextlib, os, sys

pages = int(sys.argv[1]) // os.sysconf("SC_PAGE_SIZE")
asked = os.sysconf
os.sysconf = lambda name: pages if name == "SC_PHYS_PAGES" else asked(name)

import click
from groundbox.cli.main import root
from groundbox.limits import Limits
from groundbox.server.settings import Settings

def commands_below(context):
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            yield from commands_below(click.Context(context.command.get_command(context, name), context, name))

parsed = 0
for context in commands_below(click.Context(root, info_name="groundbox")):
    for parameter in context.command.params:
        with contextlib.suppress(click.MissingParameter):  # has no default
            value, _ = parameter.handle_parse_result(context, {}, [])
            parsed += 1
            if context.info_name == "run" and parameter.name in Limits.__slots__:
                assert value == getattr(Limits(), parameter.name), parameter.name
Settings().checked(Limits())
print(parsed)
"""


# The second is a machine of which a quarter is 749 MiB, half of which is no whole number of MiB.
@pytest.mark.parametrize("memory_bytes", [512 * MiB, 2996 * MiB, 3 * GiB + 4096, 6 * GiB - 12 * 4096, 1024 * GiB])
def test_each_option_of_each_command_accepts_its_own_default(memory_bytes):
    ended = subprocess.run(
        [sys.executable, "-c", EVERY_DEFAULT, str(memory_bytes)], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 100


def test_limits_and_settings_have_whole_mebibytes_for_any_memory(monkeypatch):
    sizes = random.Random(0)
    asked = os.sysconf
    try:
        for number in range(5000):
            memory_bytes = sizes.choice([sizes.randrange(512 * MiB, 9 * GiB), sizes.randrange(512 * MiB, 1024 * GiB)])
            pages = memory_bytes // asked("SC_PAGE_SIZE")
            monkeypatch.setattr(
                os, "sysconf", lambda name, pages=pages: {"SC_PHYS_PAGES": pages}.get(name) or asked(name)
            )
            usual_memory_bytes.cache_clear()

            limits = Limits()

            assert (limits.memory_bytes % MiB, limits.disk_bytes % MiB) == (0, 0), memory_bytes
            assert 512 * MiB <= limits.memory_bytes <= max(512 * MiB, min(memory_bytes // 4, 2 * GiB)), memory_bytes
            if number % 500 == 0:
                assert Settings().checked(limits) == limits
    finally:
        monkeypatch.undo()
        usual_memory_bytes.cache_clear()
