# ruff: noqa: E501  (the tables read best with one failure on a line)
"""Hints name what would have worked, found from the live objects."""

import pytest

ON: dict[str, str | bytes] = {
    "a.csv": "x\n1\n",
    "sub/sales_2024.csv": "x\n",
    "latin.txt": b"caf\xe9",
    "zip.csv": b"PK\x03\x04\xff",
}


@pytest.fixture
def hints_of(run_cells, workdir):
    (workdir / "sub").mkdir()
    for name, content in ON.items():
        (workdir / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def hints(*sources, **order):
        ran = run_cells(*sources, **order)
        assert ran.error is not None
        return ran.error["hints"]

    return hints


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("total_sum = 1\nprint(totalsum)", ["Did you mean `total_sum`?"]),
        ("pritn(1)", ["Did you mean `print`?"]),
        ("json.dumps(1)", ["`json` was not imported: add `import json`."]),
        ("Path('x')", ["`Path` was not imported: add `from pathlib import Path`."]),
        ("defaultdict(int)", ["`defaultdict` was not imported: add `from collections import defaultdict`."]),
        ("qqqqqq", []),
        ("'a'.uper()", ["Did you mean `upper` or `isupper`?"]),
        ("import math\nmath.squareroot", []),
        ("import math\nmath.squrt", ["Did you mean `sqrt` or `isqrt`?"]),
        ("import xml\nxml.etree", ["`xml.etree` is a module of its own: add `import xml.etree`."]),
        ("import datetime\ndatetime.now()", ["`now` belongs to the class: write `datetime.datetime.now`."]),
        ("d = {'Revenue': 1}\nd['revenue']", ["`d` has no key 'revenue'; did you mean `'Revenue'`?", "The keys of `d` are: 'Revenue'."]),
        ("d = {'1': 1}\nd[1]", ["The keys of `d` are: '1'.", "`d` has the text '1', not the number."]),
        ("d = {'a': {'b': 1}}\nd['a']['c']", ["The keys of `d['a']` are: 'b'."]),
        ("x = [1, 2]\nx[2]", ["`x` has 2 items: indexes go from 0 to 1."]),
        ("x = []\nx[0]", ["`x` is empty."]),
        ("def f(name, size=1): ...\nf(nam=1)", ["`f` has no argument `nam`; did you mean `name`?"]),
        ("def f(a, b): ...\nf(1)", ["Its signature: `f(a, b)`."]),
        ("list = [1]\nlist((1,))", ["The program assigned to `list`, which hides Python's own: use another name and `del list`."]),
        ("x = None\nx[0]", ["`x` is None here: look at where it was assigned."]),
        ("'a' + 1", ["Text and a number meet here: convert with `int(…)`, `float(…)` or `str(…)`, or use an f-string."]),
        ("int('1.5')", ["The text has a decimal point: use `int(float(…))`."]),
        ("import numpyy", None),
        ("open('b.csv')", ["Did you mean `a.csv`?"]),
        ("open('sales_2024.csv')", ["Did you mean `sub/sales_2024.csv`?"]),
        ("open('nothing like it')", ["The files in the working directory are: 'a.csv', 'latin.txt', 'sub/sales_2024.csv', 'zip.csv'."]),
        ("open('latin.txt', encoding='utf-8').read()", ['The data is not UTF-8: try `encoding="cp1252"` or `encoding="latin-1"`.']),
        ("open('zip.csv', encoding='utf-8').read()", ["The data is a zip archive, such as .xlsx or .docx, not text: open it with the library for that format."]),
        ("input()", ["A cell has no standard input, so `input()` fails: put the value into the code."]),
        ("```python\n1\n```", ["The source holds a Markdown fence: send only the code between the fences."]),
        ("1/0", []),
        ("import subprocess\nsubprocess.run(['no-such-program'])", ["There is no program `no-such-program` in this sandbox."]),
        ("raise OSError(28, 'No space left on device')", ["The working directory is full (limits.disk_bytes): remove files or write less."]),
        ("raise OSError(27, 'File too large')", ["No file can be larger than the disk (limits.disk_bytes): write less, or compress it."]),
        ("open('/sys/no-such-file')", ["`/sys/no-such-file` is not there: /proc shows this sandbox's processes only, and there is no /sys. psutil.virtual_memory(), os.sched_getaffinity(0) and resource.getrusage tell what programs may know."]),
        ("open('/proc/no-such-file')", ["`/proc/no-such-file` is not there: /proc shows this sandbox's processes only, and there is no /sys. psutil.virtual_memory(), os.sched_getaffinity(0) and resource.getrusage tell what programs may know."]),
        ("raise BlockingIOError(11, 'Resource temporarily unavailable')", ["The limit of processes and threads is reached (limits.process_count): use fewer workers."]),
        ("raise RuntimeError(\"can't start new thread\")", ["The limit of processes and threads is reached (limits.process_count): use fewer workers."]),
        ("raise OSError(30, 'Read-only file system', '/usr/x')", ["`/usr/x` cannot be written or opened here: files can be written only in the working directory."]),
        ("raise PermissionError(1, 'Operation not permitted')", ["The sandbox denies this system call. Programs can compute and use files in the working directory."]),
        ("import asyncio\nx = await asyncio.sleep(0)\nasync def f(): asyncio.run(asyncio.sleep(0))\nawait f()", ["An event loop runs already in this cell: `await` the coroutine instead of `asyncio.run`."]),
    ],
)  # fmt: skip
def test_a_failure_is_met_with(hints_of, source, expected):
    hints = hints_of(source)

    if expected is None:
        assert hints[-1] == "`numpyy` is not installed in this environment."
    else:
        assert hints == expected


OFF = (
    'The network is off in this sandbox. To allow it: Network(allow=["{0}"]). '
    "Or use data that is in the working directory."
)


@pytest.mark.parametrize(
    "source",
    [
        "import socket\nsocket.create_connection(('data.invalid', 80))",
        "import urllib.request\nurllib.request.urlopen('https://data.invalid/x.csv')",
        "import http.client\nhttp.client.HTTPConnection('data.invalid').request('GET', '/')",
        "import urllib.request\nurl = 'https://data.invalid/x'\n\ndef get(address):\n    return urllib.request.urlopen(address)\nget(url)",
    ],
)
def test_a_host_that_cannot_be_reached_is_named_with_the_setting(hints_of, source):
    expected = OFF.format("data.invalid")
    if "socket" in source:
        expected = expected.replace(" Or use", " It is reached by HTTP and HTTPS only. Or use")

    assert hints_of(source) == [expected]


@pytest.mark.parametrize(("library", "call"), [("requests", "requests.get"), ("pandas", "pandas.read_csv")])
def test_libraries_that_want_the_network_are_understood(hints_of, library, call):
    hints = hints_of(f"import {library}\n{call}('https://data.invalid/x.csv')", needs=(library,))

    assert hints == [OFF.format("data.invalid")]


def test_a_refusing_proxy_is_told_from_no_network(hints_of):
    hints = hints_of(
        "raise OSError('Tunnel connection failed: 403 groundbox: data.invalid:443 is not allowed; "
        'allow it with Network(allow=["data.invalid"]) or --allow-host data.invalid\')'
    )

    assert hints == ['`data.invalid` is not among the allowed hosts. To allow it: Network(allow=["data.invalid"]).']


def test_a_missing_module_names_the_environment_that_has_it(hints_of):
    hints = hints_of("import torch_of_this_test", packages={"torch_of_this_test": ["deep", "gpu"]})

    assert hints == ["`torch_of_this_test` is in the environment `deep` or `gpu`: run the program with that one."]


def test_a_module_s_package_may_have_another_name(hints_of, run_cells):
    hints = hints_of("import sys\nsys.modules['cv2'] = None\nimport cv2")

    assert "`cv2` is not installed in this environment (the package is called `opencv-python`)." in hints


def test_a_file_that_hides_a_library_module_is_named(hints_of, workdir):
    (workdir / "calendar.py").write_text("x = 1\n")

    assert hints_of("import calendar\ncalendar.month(2024, 1)") == [
        "The file calendar.py in the working directory hides the module `calendar`: rename it."
    ]


TABLE = "import pandas as pd, numpy as np\ndf = pd.DataFrame({'Revenue': [1.0], 'region': ['a']})\n"
NO_APPEND = "`DataFrame.append` is not in the installed version of pandas; instead: pd.concat([a, b])."


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("df['revenu']", ["`df` has no column 'revenu'; did you mean `'Revenue'`?", "The columns of `df` are: 'Revenue', 'region'."]),
        ("df[['region', 'Revenu']]", ["`df` has no column 'Revenu'; did you mean `'Revenue'`?", "The columns of `df` are: 'Revenue', 'region'."]),
        ("df.groupby('Region').sum()", ["`df` has no column 'Region'; did you mean `'region'`?", "The columns of `df` are: 'Revenue', 'region'."]),
        ("df.Regio", ["Did you mean `region`?", "Its columns are: 'Revenue', 'region'."]),
        ("df.iloc[3]", ["`df` has 1 item: indexes go from 0 to 0."]),
        ("df.loc[7]", ["The labels of `df` are: 0."]),
        ("df.append(df)", [NO_APPEND]),
        ("np.trapz([1])", ["`np.trapz` is not in the installed version of numpy; instead: np.trapezoid."]),
        ("from numpy import in1d", ["`np.in1d` is not in the installed version of numpy; instead: np.isin."]),
        ("df.fillna(method='ffill')", ["`fillna(method=…)` is gone: use `.ffill()` or `.bfill()`."]),
        ("pd.read_csv('a.csv', delim_whitespace=True)", ["`delim_whitespace` is gone: use `sep=r'\\s+'`."]),
        ("pd.date_range('2020', periods=2, freq='2H')", ["The frequency `H` is written `h` now."]),
        ("df.resample('M')", ["The frequency `M` is written `ME` now."]),
        ("if df: pass", ["Combine conditions on columns or arrays with `&`, `|` and `~`, each in brackets, or reduce with `.any()` or `.all()`."]),
    ],
)  # fmt: skip
def test_pandas_of_older_code_is_met_with(hints_of, source, expected):
    assert hints_of(TABLE + source, needs=("pandas",)) == expected
