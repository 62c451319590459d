"""Controls: honest programs. A sandbox that runs nothing would pass every other test of this folder."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import pytest

from groundbox import Limits, MiB, Network, Outcome

CELLS = {
    "numpy": "import numpy as np; assert (np.arange(12).reshape(3, 4) @ np.ones(4)).tolist() == [6, 22, 38]",
    "linear algebra in threads": "import numpy as np; a = np.random.rand(300, 300); assert np.allclose(np.linalg.inv(a) @ a, np.eye(300), atol=1e-4)",
    "pandas": "import pandas as pd; assert pd.DataFrame({'a': [1, 2]}).groupby('a').size().sum() == 2",
    "a csv and a parquet file": "import pandas as pd; d = pd.DataFrame({'a': range(1000)}); d.to_csv('a.csv'); d.to_parquet('a.parquet'); assert len(pd.read_parquet('a.parquet')) == len(pd.read_csv('a.csv'))",
    "an excel file": "import pandas as pd; pd.DataFrame({'a': [1]}).to_excel('a.xlsx'); assert pd.read_excel('a.xlsx').a[0] == 1",
    "matplotlib": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('a.png'); assert open('a.png', 'rb').read(4) == b'\\x89PNG'",
    "sympy": "import sympy; x = sympy.Symbol('x'); assert sympy.integrate(x, x) == x**2 / 2",
    "scikit-learn": "from sklearn.linear_model import LinearRegression as L; assert abs(L().fit([[1], [2]], [2, 4]).predict([[3]])[0] - 6) < 1e-9",
    "duckdb": "import duckdb; assert duckdb.sql('select sum(i) from range(10) t(i)').fetchall() == [(45,)]",
    "multiprocessing": "import multiprocessing as m\nctx = m.get_context('fork')\nwith ctx.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]",
    "a manager": "import multiprocessing as m\nwith m.get_context('fork').Manager() as manager: assert manager.list([1])[0] == 1",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory as S; s = S(create=True, size=100); s.buf[0] = 7; t = S(s.name); assert t.buf[0] == 7; t.close(); s.close(); s.unlink()",
    "threads": "from concurrent.futures import ThreadPoolExecutor as T\nwith T(8) as pool: assert sum(pool.map(len, ['ab'] * 100)) == 200",
    "processes in futures": "from concurrent.futures import ProcessPoolExecutor as P\nimport multiprocessing as m\nwith P(2, mp_context=m.get_context('fork')) as pool: assert list(pool.map(abs, [-1])) == [1]",
    "subprocess": "import subprocess; assert subprocess.run('echo a | tr a b', shell=True, capture_output=True, text=True).stdout == 'b\\n'",
    "asyncio": "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1); return (await p.communicate())[0]\nassert await f() == b'x\\n'",
    "sqlite": "import sqlite3; c = sqlite3.connect('a.db'); c.execute('create table t(a)'); c.execute('insert into t values (1)'); c.commit(); assert sqlite3.connect('a.db').execute('select * from t').fetchall() == [(1,)]",
    "tempfile": "import tempfile\nwith tempfile.NamedTemporaryFile() as f, tempfile.TemporaryDirectory() as d: f.write(b'x'); open(d + '/a', 'w').write('x')",
    "recursion": "import sys; sys.setrecursionlimit(50000)\ndef f(n): return n and 1 + f(n - 1)\nassert f(20000) == 20000",
    "zipfile": "import zipfile\nwith zipfile.ZipFile('a.zip', 'w') as z: z.writestr('a', 'x')\nassert zipfile.ZipFile('a.zip').read('a') == b'x'",
    "a unix socket": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('s')",
    "file locks": "import fcntl; f = open('a', 'w'); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)",
    "signals and timers": "import signal, time\nhit = []\nsignal.signal(signal.SIGALRM, lambda *a: hit.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.1); assert hit",
    "native code": "import ctypes; assert ctypes.CDLL(None).abs(-3) == 3",
    "hashes and randomness": "import hashlib, secrets, uuid; hashlib.sha256(b'x').hexdigest(); secrets.token_bytes(8); uuid.uuid4()",
    "locale and time zones": "import datetime, zoneinfo; assert datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset().seconds == 7200",
    "os information": "import os, platform, getpass; os.cpu_count(); platform.platform(); getpass.getuser(); os.listdir('/'); os.getcwd(); os.path.expanduser('~')",
    "pip says what is there": "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', '--version'], capture_output=True)",
}


@pytest.mark.parametrize("name", CELLS)
def test_an_honest_cell_succeeds(sandbox, name):
    execution = sandbox(profile="science", limits=Limits(memory_bytes=1024 * MiB, wall_s=120, cpu_s=120)).run(
        CELLS[name]
    )

    assert (execution.outcome, execution.error) == (Outcome.OK, None)


SCRIPTS = {
    "input and output": "import sys\nfor line in sys.stdin: print(line.strip()[::-1])",
    "processes by spawn": "import multiprocessing as m\nif __name__ == '__main__':\n    with m.get_context('spawn').Pool(1) as p: print(p.map(abs, [-1]))",
    "processes by forkserver": "import multiprocessing as m\nif __name__ == '__main__':\n    with m.get_context('forkserver').Pool(1) as p: print(p.map(abs, [-1]))",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\nunittest.main(exit=False)",
    "argparse": "import argparse; p = argparse.ArgumentParser(); p.add_argument('--n', type=int, default=3); print(p.parse_args().n)",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_honest_script_succeeds(sandbox, name):
    box = sandbox(limits=Limits(wall_s=60))
    box.files.write("main.py", SCRIPTS[name])  # those that spawn read it again

    execution = box.run(SCRIPTS[name], mode="script", stdin="abc\n")

    assert (execution.outcome, execution.exit_code) == (Outcome.OK, 0), execution.stderr


def test_a_server_on_the_own_loopback_works_where_it_was_asked_for(sandbox):
    source = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/').status
"""
    assert sandbox(network=Network(loopback=True)).run(source).text == "200"
