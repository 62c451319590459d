"""Where a template's objects lie, and its interpreter's code: each tried in a process of its own."""

import subprocess
import sys

import pytest


def _python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_code_that_was_run_is_copied_and_still_runs() -> None:
    out = _python("""
from groundbox.template import layout

def inner(n): return n + 1
def outer(n): return inner(n) * 2
def other(): return 0

before = [f.__code__ for f in (inner, outer, other)]
codes = layout.code_run_by(lambda: outer(1))
layout.lay_together(codes)
after = [f.__code__ for f in (inner, outer, other)]
print([a is b for a, b in zip(before, after)], before == after, outer(20))
""")

    assert out == "[False, False, True] True 42\n"


def test_after_a_fresh_start_new_objects_lie_side_by_side() -> None:
    out = _python("""
import random
from groundbox.template import layout

older = [bytes(random.randrange(60)) for _ in range(20000)]
del older[::3]
layout.start_afresh()
new = [bytes(15) for _ in range(50)]
places = [id(item) for item in new]
print(sum(b - a != 48 for a, b in zip(places, places[1:])) <= 2)
""")

    assert out == "True\n"


def test_an_interpreter_runs_on_from_huge_pages() -> None:
    out = _python("""
from groundbox.template import memory

memory.settle()
import decimal, json
from groundbox.template import mappings
names = {one.name for one in mappings.all_now() if one.permissions == "r-xp" and one.size >= 2 << 20}
print(json.dumps({"sum": str(sum(decimal.Decimal(n) for n in range(1000)))}), names == {""})
""")

    result, _, on_huge_pages = out.rpartition(" ")
    assert result == '{"sum": "499500"}'
    if on_huge_pages != "True\n":
        pytest.skip("this kernel gives no huge pages on request, or the interpreter's code fills none")


def test_libraries_take_two_mappings_each_and_go_on_working() -> None:
    out = _python("""
import collections, ctypes, ctypes.util, decimal, hashlib, json, os, sqlite3, ssl, zlib
from groundbox.template import mappings

def of_libraries():
    return [m for m in mappings.all_now() if ".so" in m.name]

before, everything = len(of_libraries()), len(list(mappings.all_now()))
decimal.getcontext().prec = 77
random_engine = ssl.RAND_bytes(1)
mappings.join()
after = of_libraries()
each = collections.Counter(m.name for m in after if not os.path.basename(m.name).startswith(mappings._IN_USE))
print(len(after) < 0.5 * before, len(list(mappings.all_now())) < 0.6 * everything, set(each.values()) <= {1, 2})
print(decimal.getcontext().prec, len(hashlib.new("sha3_256", b"a").hexdigest()), len(ssl.RAND_bytes(3)))
import bz2, lzma
print(zlib.crc32(b"a"), sqlite3.connect(":memory:").execute("SELECT 1").fetchone())
""")

    assert out == "True True True\n77 64 3\n3904355907 (1,)\n"
