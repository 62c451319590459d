"""A hint says what is so and what can be done: what was done, what the hint must say, what it must never say."""

import ipaddress
import shutil
from typing import NamedTuple

import pytest

import groundbox as gb
from groundbox.sandbox.egress import addresses


class Case(NamedTuple):
    """One thing that a program does.

    Attributes:
        says: Each text stands in some hint; nothing here means that there is no hint.
        never: None of these stands in any hint.
    """

    source: str
    says: tuple[str, ...]
    never: tuple[str, ...] = ()
    network: gb.Network | None = None


OFF = "The network is off"
INSTALLED = "is not installed in this environment"
SOME = gb.Network(allow=["data.test", "inner.test", "own.test", "gone.test"])
PLACES = {"data.test": "93.184.215.14", "inner.test": "10.1.2.3", "own.test": "127.0.0.1"}
FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\n"
IN_A_FOLDER = "import os\nopen('sales.csv', 'w').write('x')\nos.makedirs('deep')\n"

CASES = {
    "a host is asked for while the network is off": Case(
        "import requests\nrequests.get('https://data.test/x')",
        (OFF, 'Network(allow=["data.test"])'),
        ("not among the allowed hosts", "localhost"),
    ),
    "an address is asked for while the network is off": Case(
        "import requests\nrequests.get('http://93.184.215.14/')",
        (OFF, "an address cannot be allowed: name the host"),
        ('allow=["93.184.215.14"]',),
    ),
    "a host that is not allowed is asked for": Case(
        "import requests\nrequests.get('https://other.test/')",
        ('`other.test` is not among the allowed hosts. To allow it: Network(allow=["other.test"]).',),
        (OFF,),
        SOME,
    ),
    "an allowed host is asked for at another port": Case(
        "import urllib.request\nurllib.request.urlopen('https://data.test:8443/')",
        ('`data.test:8443` is not among the allowed hosts. To allow it: Network(allow=["data.test:8443"]).',),
        (OFF,),
        SOME,
    ),
    "an allowed host has a private address": Case(
        "import requests\nrequests.get('https://inner.test/')",
        ("`inner.test` is allowed", "an address that is not public", "Network(private_ranges="),
        (OFF, "not among the allowed hosts", "allow=["),
        SOME,
    ),
    "an allowed host has a private address, over HTTP": Case(
        "import urllib.request\nurllib.request.urlopen('http://inner.test/')",
        ("`inner.test` is allowed", "Network(private_ranges="),
        (OFF, "not among the allowed hosts"),
        SOME,
    ),
    "an allowed host turns out to be the host machine": Case(
        "import requests\nrequests.get('https://own.test/')",
        ("`own.test` is allowed", "which no setting allows"),
        (OFF, "private_ranges", "not among the allowed hosts"),
        SOME,
    ),
    "an allowed host has no address": Case(
        "import requests\nrequests.get('https://gone.test/')",
        ("`gone.test` is allowed, but has no address",),
        (OFF, "Network("),
        SOME,
    ),
    "a status that tells of a refusal is raised": Case(
        "import requests\nrequests.get('http://other.test/').raise_for_status()",
        ("`other.test` is not among the allowed hosts",),
        (OFF,),
        SOME,
    ),
    "a socket is opened to an allowed host": Case(
        "import socket\nsocket.create_connection(('data.test', 5432))",
        ("only by HTTP and HTTPS through the sandbox's proxy",),
        (OFF, "Network("),
        SOME,
    ),
    "127.0.0.1 is asked for while the network is off": Case(
        "import requests\nrequests.get('http://127.0.0.1:8000/')",
        ("not even a loopback", "never the host machine", "Network(loopback=True)"),
        ("allow=[", "Nothing listens"),
    ),
    "a server is started while the network is off": Case(
        "import http.server\nhttp.server.HTTPServer(('127.0.0.1', 8000), None)",
        ("not even a loopback", "Network(loopback=True)"),
        ("allow=[",),
    ),
    "localhost is asked for where nothing listens": Case(
        "import urllib.request\nurllib.request.urlopen('http://localhost:8000/')",
        ("Nothing listens on that port inside the sandbox", "services of the host machine cannot be reached so"),
        (OFF, "Network("),
        gb.Network(loopback=True),
    ),
    "localhost is asked for while other hosts are allowed": Case(
        "import requests\nrequests.get('http://127.0.0.1:8000/')",
        ("Nothing listens on that port inside the sandbox",),
        (OFF, "Network(", "proxy"),
        SOME,
    ),
    "pip installs while the network is off": Case(
        "%pip install example-package",
        (OFF, 'Network(allow=["pypi.org", "files.pythonhosted.org"])'),
    ),
    "pip installs while another host is allowed": Case(
        "%pip install example-package",
        ("`pypi.org` is not among the allowed hosts", 'Network(allow=["pypi.org"])'),
        (OFF,),
        SOME,
    ),
    "pip installs from an allowed index at a private address": Case(
        "%pip install --index-url https://inner.test/simple example-package",
        ("`inner.test` is allowed", "Network(private_ranges="),
        (OFF, "not among the allowed hosts"),
        SOME,
    ),
    "pip installs from an index of its own while the network is off": Case(
        "%pip install --index-url https://inner.test/simple example-package",
        ('Network(allow=["inner.test"])',),
        ("pypi.org",),
    ),
    "pip is misused": Case("%pip install --no-such-option", (), ("network",)),
    "a file is looked for after %cd": Case(
        f"{IN_A_FOLDER}%cd deep\nopen('sales.csv')",
        ("Did you mean `../sales.csv`?", "The current directory is"),
        ("Did you mean `sales.csv`",),
    ),
    "a file is looked for after os.chdir": Case(
        f"{IN_A_FOLDER}os.chdir('deep')\nopen('other.csv')",
        ("The files in the working directory are: 'sales.csv'", "The current directory is"),
        ("Did you mean", "is empty"),
    ),
    "a file of the workdir is looked for elsewhere": Case(
        f"{IN_A_FOLDER}open('/content/sales.csv')", ("Did you mean `sales.csv`?",), ("is empty", "current directory")
    ),
    "a file is written into a folder that is not there": Case(
        "open('out/table.csv', 'w')",
        ("There is no folder `out`", "os.makedirs"),
        ("is empty", "written into the sandbox"),
    ),
    "pandas writes into a folder that is not there": Case(
        f"{FRAME}df.to_csv('out/table.csv')", ("There is no folder `out`", "os.makedirs")
    ),
    "a file is written into somebody's home": Case(
        "open('/home/ada/table.csv', 'w')", ("There is no folder `/home/ada` in this sandbox",), ("is empty",)
    ),
    "data is given as a path": Case(
        f"{FRAME}pd.read_html('<table><tr><td>1</td></tr></table>')", ("io.StringIO",), ("is empty",)
    ),
    "a URL is given as a path": Case("open('https://data.test/x.csv')", ("This is an address",), ("is empty",)),
    "parsel is missing, and parso is not it": Case("import parsel", (f"`parsel` {INSTALLED}",), ("Did you mean",)),
    "torch is missing": Case("import torch", (f"`torch` {INSTALLED}",), ("Did you mean",)),
    "httpx is missing, and http is not it": Case(
        "import sys; sys.modules['httpx'] = None\nimport httpx", (f"`httpx` {INSTALLED}",), ("Did you mean",)
    ),
    "polars is missing, and parso is not it": Case(
        "import sys; sys.modules['polars'] = None\nimport polars", (f"`polars` {INSTALLED}",), ("Did you mean",)
    ),
    "pypdf is missing, and pypdfium2 is not it": Case(
        "import sys; sys.modules['pypdf'] = None\nimport pypdf", (f"`pypdf` {INSTALLED}",), ("Did you mean",)
    ),
    "a module of an installed package is missing": Case(
        "import pandas.foo", ("`pandas` is installed but has no module `pandas.foo`",), ("The environment",)
    ),
    "opencv is imported by its everyday name": Case("import opencv", ("is imported as `cv2`",), ("--requirement",)),
    "Image is not skimage": Case("import Image", ("It is written `from PIL import Image`",), ("skimage",)),
    "a package has another name than its module": Case(
        "import googleapiclient", ("called `google-api-python-client`", "--requirement google-api-python-client")
    ),
    "a module of one's own is missing": Case(
        "import utils",
        ("If `utils` is a module of your own, its file has to be in the working directory.",),
        ("--requirement",),
    ),
    "a name that packages share is missing": Case(
        "from google.colab import files", ("Several packages share the name `google`",), ("--requirement google",)
    ),
    "what Python has dropped is imported": Case(
        "raise ModuleNotFoundError(\"No module named 'distutils'\", name='distutils')",
        ("`distutils` is in Python no more",),
        ("--requirement",),
    ),
    "Mapping is imported from collections": Case(
        "from collections import Mapping", ("`Mapping` is in `collections.abc`.",)
    ),
    "a sandbox is made inside a sandbox": Case(
        "import groundbox as gb\ngb.run('1')", ("inside groundbox already, where no further sandbox can be made",)
    ),
    "await stands in a plain function": Case("def f(): await g()", ("`async def`",), ("asyncio.run",)),
    "a password is asked for": Case("import getpass; getpass.getpass()", ("no standard input, so `getpass()` fails",)),
    "a file is looked for at home": Case(
        "open('~/sales.csv')", ("`~` is not expanded where a file is opened",), ("os.makedirs",)
    ),
    "a file is looked for on a drive": Case(
        "open('sales.csv', 'w').close(); open('C:\\\\Users\\\\me\\\\sales.csv')", ("Did you mean `sales.csv`?",)
    ),
    "pandas is misspelt": Case("import panda", ("Did you mean `pandas`?",)),
    "matplotlib is misspelt": Case("import mathplotlib", ("Did you mean `matplotlib`?",), ("matplotlib_inline",)),
    "a package is imported by its own name": Case(
        "import scikit_learn", ("The package `scikit_learn` is imported as `sklearn`.",), ("Did you mean",)
    ),
    "df.style needs what is missing": Case(
        f"import sys; sys.modules['jinja2'] = None\n{FRAME}df.style",
        (f"This needs `jinja2`, which {INSTALLED}.",),
        ("astype", "Its columns"),
    ),
    "to_markdown needs what is missing": Case(
        f"import sys; sys.modules['tabulate'] = None\n{FRAME}df.to_markdown()",
        (f"This needs `tabulate`, which {INSTALLED}.",),
    ),
    "an attribute's own code fails": Case(
        "class Price:\n    @property\n    def net(self): raise AttributeError('no rate is set', name='net', obj=self)\n"
        "    nett = 1\nPrice().net",
        (),
        ("Did you mean",),
    ),
    "there are too many files": Case(
        "for n in range(100_000): open(str(n), 'w').close()", ("limits.file_count",), ("limits.disk_bytes",)
    ),
    "the files are too large": Case(
        "with open('big', 'wb') as file:\n    for _ in range(300): file.write(bytes(1 << 20))",
        ("limits.disk_bytes",),
        ("limits.file_count",),
    ),
}


@pytest.fixture
def names(monkeypatch):
    """Names that lead where the table says."""

    def look_up(host):
        if host not in PLACES:
            raise OSError(f"no such name: {host}")
        return [ipaddress.ip_address(PLACES[host])]

    monkeypatch.setattr(addresses, "_look_up", look_up)


@pytest.mark.parametrize("did", CASES)
def test_a_hint_is_true_and_helps_when(names, did):
    case = CASES[did]
    limits = gb.Limits(memory_bytes=1024 * gb.MiB, disk_bytes=256 * gb.MiB)

    execution = gb.run(case.source, network=case.network, limits=limits, profile="science")

    assert execution.error is not None, execution.stdout
    hints = "\n".join(execution.error.hints)
    assert [text for text in case.says if text not in hints] == [], hints
    assert [text for text in case.never if text in hints] == [], hints
    assert case.says or not hints


def test_a_program_that_takes_a_refusal_for_an_answer_is_told(names):
    source = (
        "import requests\n"
        "for host in ('other.test', 'inner.test', 'other.test:8080'): requests.get(f'http://{host}/').status_code"
    )

    with gb.Sandbox(network=SOME) as box:
        first, second = box.run(source), box.run("1")

    (warning,) = first.warnings
    assert (first.ok, warning.code, list(second.warnings)) == (True, "run.host_refused", [])
    assert warning.message == (
        "the sandbox's proxy refused 'other.test:80' (not among the allowed hosts), "
        "'inner.test:80' (allowed, and its address is not public), 'other.test:8080' (not among the allowed hosts)"
    )
    assert warning.hint == 'To allow it: Network(allow=["other.test"]).'


OFF = 'The network is off in this sandbox. To allow it: Network(allow=["example.org"]).'
MEMORY = "/proc shows this sandbox's processes only, and there is no /sys. It may use 320 MiB of memory."
COMMANDS = {
    "curl https://example.org/": OFF,
    "git clone https://example.org/a/b": OFF,
    "echo 'ssh: Could not resolve hostname example.org: Name or service not known' >&2; false": OFF,
    "echo 'E: Temporary failure resolving example' >&2; false": OFF.replace("example.org", "HOST"),
    "cat /proc/meminfo": MEMORY,
    "free -m": MEMORY,
    "head -1 /proc/sys/kernel/osrelease": MEMORY,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_needs_what_no_sandbox_has_is_explained(command):
    program = command.split()[0]
    if program != "echo" and shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    with gb.Sandbox(limits=gb.Limits(memory_bytes=320 * gb.MiB)) as box:
        alone = box.run(command, language="shell")
        called = box.run(f"!{command}")

    assert alone.error.hints == (COMMANDS[command],)
    (warning,) = called.warnings
    assert (called.ok, warning.code, warning.tier) == (True, "run.not_in_a_sandbox", "note")
    assert warning.hint == COMMANDS[command]
    said = alone.stderr.strip().splitlines()[-1].partition("curl: ")[-1] or alone.stderr.strip().splitlines()[-1]
    assert warning.evidence["line"].endswith(said)
    assert warning.message == f"a command said {warning.evidence['line']!r}"


@pytest.mark.parametrize(
    "said", ["could not resolve the conflict", "/proc/meminfo was read", "network is fine", "/srv/proc/a: No such file"]
)
def test_what_only_sounds_like_it_is_not_explained(said):
    execution = gb.run(f"echo {said!r} >&2; false", language="shell")

    assert execution.error.hints == ()
