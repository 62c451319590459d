"""What the plan takes from bytecode is what `dis` says of it, on each interpreter."""

import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"
COMPARE = """
import dis, importlib.util, sys, types
for name in ("groundbox", "groundbox.guest"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
from groundbox.guest.trace.bytecode import LOADS, STORES, inner_codes, instructions

def told(code):
    ours = {i.offset: i for i in instructions(code)}
    for i in dis.get_instructions(code):
        if i.opname in STORES or i.opname in LOADS or i.opname in ("LOAD_FAST_AND_CLEAR", "FOR_ITER", "LOAD_CONST"):
            assert ours.pop(i.offset)[:3] == (i.opname, i.arg, i.argval), (code, i)
        elif i.offset in ours:
            assert ours.pop(i.offset).opname == i.opname, (code, i)
    assert not ours, (code, ours)
    return 1 + sum(map(told, inner_codes(code)))

count = 0
for name in ("asyncio.tasks", "collections", "dataclasses", "decimal", "typing", "_pydecimal", "turtle", "this"):
    with open(importlib.util.find_spec(name).origin) as file:
        count += told(compile(file.read(), name, "exec"))
many = "\\n".join(f"name{n} = name{n - 1}" for n in range(1, 600))
count += told(compile("name0 = 0\\n" + many + "\\ndef f(x):\\n    return [name599 for y in x]", "many", "exec"))
print(count > 1000)
"""


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_instructions_are_read_as_by_dis(pythons, version):
    if version not in pythons:
        pytest.skip(f"there is no Python {version} here")

    told = subprocess.run([pythons[version], "-c", COMPARE, SOURCE], capture_output=True, text=True)

    assert (told.stdout, told.stderr) == ("True\n", "")
