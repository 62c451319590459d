"""Random numbers of what a template makes, each tried in a process of its own."""

import subprocess

import pytest

from tests.guest.conftest import CLEAN, INTERPRETER, SOURCE, skip_without


@pytest.fixture(autouse=True)
def _numpy():
    skip_without("numpy")


START = """
import ctypes, os, random, sys, types, numpy
from groundbox.guest.python import reseed

def draw():
    return [random.random(), random.gauss(0, 1), numpy.random.rand(), numpy.random.normal()]

def in_a_copy(seed):
    reader, writer = os.pipe()
    if ctypes.CDLL(None).fork() == 0:  # Python's own gives `random` another seed
        seed()
        os.write(writer, repr(draw()).encode())
        os._exit(0)
    os.wait()
    return eval(os.read(reader, 1000))
"""


def _python(program):
    done = subprocess.run(
        [INTERPRETER, "-c", START + program],
        env={**CLEAN, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_number_of_a_launched_copy_is_another_ones():
    """Also of those that a generator keeps for the next time: `gauss` and `normal` make two at once."""
    out = _python("""
draw()
reseed.prepare()
copies = [in_a_copy(reseed.reseed_launched) for _ in range(20)]
same = [in_a_copy(lambda: None) for _ in range(2)]
print([len(set(each)) for each in zip(*copies)], same[0] == same[1])
""")

    assert out == "[20, 20, 20, 20] True\n"


def test_numbers_are_spread_as_before():
    out = _python("""
reseed.prepare()
reseed.reseed_launched()
drawn = numpy.random.rand(100_000)
print(abs(drawn.mean() - 0.5) < 0.01, abs(drawn.std() - 12 ** -0.5) < 0.01, numpy.random.get_state()[0])
""")

    assert out == "True True MT19937\n"


def test_a_numpy_whose_state_looks_otherwise_is_asked_to_seed_itself():
    out = _python("""
class Shared:
    _bit_generator = None

class Module:
    _rand = Shared()

seeded = []
sys.modules["numpy.random"] = types.SimpleNamespace(mtrand=Module, seed=seeded.append)
reseed.prepare()
before = len(seeded)
reseed.reseed_launched()
print(len(seeded) - before, len(set(seeded)) == len(seeded))
""")

    assert out == "1 True\n"
