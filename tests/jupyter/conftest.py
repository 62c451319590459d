"""Notebooks' own programs, and a kernelspec that `groundbox jupyter install` wrote for them."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("jupyter_client", reason="jupyter_client is not installed here: make clients")


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory):
    """Jupyter's data folder, with a kernel `groundbox`; nobody else's kernels are seen or touched."""
    folder = tmp_path_factory.mktemp("jupyter")
    environ = {"JUPYTER_DATA_DIR": str(folder / "data"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    before = {name: os.environ.get(name) for name in environ}
    os.environ.update(environ)
    (folder / "handed.csv").write_text("a,b\n1,2\n")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "groundbox",
            "jupyter",
            "install",
            "--file",
            folder / "handed.csv",
            "--out",
            folder / "out",
        ],
        check=True,
    )
    yield folder
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
