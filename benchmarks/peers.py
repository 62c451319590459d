"""What a user would take instead of groundbox, each as a function from a program to its printed text.

A peer that is not installed is left out by name. All run on the same interpreter and packages
as groundbox's guests, so that only the way of running differs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from groundbox.sandbox import environments

Runner = Callable[[str], str]

PRINT = "print(1+1)"
PANDAS = """\
import pandas as pd
df = pd.DataFrame({"k": [i % 7 for i in range(1000)], "v": range(1000)})
print(df.groupby("k").v.sum())
"""
SCATTER = """\
import random
import matplotlib.pyplot as plt
plt.scatter([random.random() for _ in range(50)], [random.random() for _ in range(50)])
plt.savefig("scatter.png")
print("saved")
"""
SNIPPETS = {"print": PRINT, "pandas": PANDAS, "scatter": SCATTER}


def _environ(folder: str, caches: Path) -> dict[str, str]:
    """A writable copy of the font cache, so that no peer rebuilds it for 3 s on every run."""
    config = f"{folder}/matplotlib"
    if not os.path.isdir(config):
        shutil.copytree(caches / "matplotlib", config)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": folder,
        "MPLCONFIGDIR": config,
        "MPLBACKEND": "agg",
        "OPENBLAS_NUM_THREADS": "1",
    }


@contextlib.contextmanager
def peers() -> Iterator[dict[str, Runner]]:
    """The peers that are here, by name. Folders and processes they need live as long as the context."""
    environment = environments.get()
    python = str(environment.python)
    roots = [str(root) for root in environment.readable_roots()]
    with tempfile.TemporaryDirectory(prefix="groundbox-peers-") as folder, contextlib.ExitStack() as stack:
        environ = _environ(folder, environment.caches)
        found: dict[str, Runner] = {"python -I": lambda code: _run([python, "-I", "-c", code], folder, environ)}
        if bwrap := shutil.which("bwrap"):
            wrapped = [*_bwrap(bwrap, roots, folder), python]
            found["bubblewrap"] = lambda code: _run([*wrapped, "-I", "-c", code], folder, environ)
        if nsjail := shutil.which("nsjail"):
            jailed = [*_nsjail(nsjail, roots, folder), python]
            found["nsjail"] = lambda code: _run([*jailed, "-I", "-c", code], folder, environ)
        with contextlib.suppress(ImportError):
            found["sandlock"] = _sandlock(python, roots, folder, environ)
        with contextlib.suppress(ImportError):
            found["monty"] = stack.enter_context(_monty())
        yield found


def _run(command: list[str], folder: str, environ: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout


def _bwrap(bwrap: str, roots: list[str], folder: str) -> list[str]:
    binds = [part for root in ("/usr", *roots) if os.path.exists(root) for part in ("--ro-bind", root, root)]
    links = [part for name in ("bin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")]
    own = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    return [bwrap, *own, *links, "--tmpfs", "/tmp", *binds, "--bind", folder, folder, "--chdir", folder]


def _nsjail(nsjail: str, roots: list[str], folder: str) -> list[str]:
    binds = [part for root in ("/usr", "/lib", "/lib64", *roots) if os.path.exists(root) for part in ("-R", root)]
    limits = ["--rlimit_as", "hard", "--rlimit_fsize", "hard", "--rlimit_nofile", "1024", "-t", "60"]
    return [nsjail, "-Mo", "-q", *limits, *binds, "-B", folder, "--cwd", folder, "--keep_env", "--"]


def _sandlock(python: str, roots: list[str], folder: str, environ: dict[str, str]) -> Runner:
    """Landlock and seccomp around a process, by the package of that name; without limits, as they are not asked for."""
    import sandlock

    readable = [
        path for path in ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev", *roots) if Path(path).exists()
    ]

    def run(code: str) -> str:
        box = sandlock.Sandbox(fs_readable=readable, fs_writable=[folder], cwd=folder, clean_env=True, env=environ)
        done = box.run([python, "-I", "-c", code], timeout=60)
        assert done.success, done.error
        return str(done.stdout.decode())

    return run


@contextlib.contextmanager
def _monty() -> Iterator[Runner]:
    """A subset of Python without imports of any library: it can run `print` and nothing else here."""
    import pydantic_monty

    with pydantic_monty.Monty() as pool:

        def run(code: str) -> str:
            printed: list[str] = []
            with pool.checkout() as session:
                session.feed_run(code, print_callback=lambda stream, text: printed.append(text))
            return "".join(printed)

        run(PRINT)
        yield run


@contextlib.contextmanager
def ipykernel() -> Iterator[Runner | None]:
    """A live Jupyter kernel of this interpreter, driven as jupyter_client does; None when not installed."""
    try:
        from jupyter_client import KernelManager
    except ImportError:
        yield None
        return
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)

        def run(code: str) -> str:
            printed: list[str] = []

            def hear(message: dict[str, Any]) -> None:
                if message["header"]["msg_type"] == "stream":
                    printed.append(message["content"]["text"])

            reply = client.execute_interactive(code, output_hook=hear, timeout=60)
            assert reply["content"]["status"] == "ok", reply
            return "".join(printed)

        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
