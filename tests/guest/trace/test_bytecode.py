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
from groundbox.guest.trace.bytecode import LOADS, PAIRS, STORES, inner_codes, instructions, uses

def told(code):
    ours = instructions(code)
    theirs = list(dis.get_instructions(code))
    assert [(i.offset, i.opname, i.arg, i.position) for i in ours] == [
        (i.offset, i.opname, i.arg or 0, tuple(i.positions)[:4]) for i in theirs
    ], code
    assert [i.after for i in ours] == [i.offset for i in ours[1:]] + [len(code.co_code)], code
    for i, other in zip(ours, theirs):
        named = i.opname in STORES or i.opname in LOADS or i.opname in PAIRS
        names = other.argval if i.opname in PAIRS else (other.argval,)
        assert [use.name for use in uses(code, i)] == (list(names) if named else []), (code, i)
        assert other.opcode not in dis.hasjrel or i.target == other.argval, (code, i)
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
