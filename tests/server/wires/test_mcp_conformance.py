"""The protocol's own conformance suite, against our transport with the tools that the suite calls.

What fails is what is not offered: the suite compares it with the lists below, and a scenario that fails and stands in
none of them is an error, as is one that stands there and passes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITE = HERE / "js" / "node_modules" / ".bin" / "conformance"
TOKEN = "a-key-of-some-length-for-tests"
NOT_OFFERED = {
    "completion": ["completion-complete"],
    "prompts": [
        "prompts-list",
        *(f"prompts-get-{which}" for which in ("simple", "with-args", "embedded-resource", "with-image")),
    ],
    "resources": ["resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read"],
}
ONLY_IN_SESSIONS = {
    "logging": ["logging-set-level", "tools-call-with-logging"],
    "sampling": ["tools-call-sampling"],
    "elicitation": ["tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"],
    "subscriptions": ["resources-subscribe", "resources-unsubscribe"],
}
ONLY_SINCE = {
    "a tool that needs a client's capability": ["server-stateless"],
    "hints on lists of prompts and resources": ["caching"],
    "resources": ["sep-2164-resource-not-found"],
    "asking the client for input": [
        f"input-required-result-{which}"
        for which in (
            "basic-elicitation", "basic-sampling", "basic-list-roots", "request-state", "multiple-input-requests",
            "multi-round", "non-tool-request", "result-type", "tampered-state", "capability-check",
            "missing-input-response", "ignore-extra-params",
        )
    ],
    "tasks": [
        f"tasks-{which}"
        for which in (
            "lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input",
            "request-headers", "dispatch-and-envelope", "required-task-error", "mrtr-composition",
        )
    ],
    "parameters of tools as headers": ["http-custom-header-server-validation"],
}  # fmt: skip
VERSIONS = {
    "in sessions": (["--suite", "all", "--spec-version", "2025-11-25"], ONLY_IN_SESSIONS),
    "without sessions": (["--requirements", "2026-07-28"], ONLY_SINCE),
}


def node_version():
    """The major version of Node, or 0 where there is none."""
    if shutil.which("node") is None:
        return 0
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(told.removeprefix("v").partition(".")[0])


pytest.importorskip("starlette", reason="the extra `server` is not installed here")
pytestmark = [
    pytest.mark.skipif(node_version() < 22, reason="Node 22, which the suite needs, is not installed here"),
    pytest.mark.skipif(not SUITE.exists(), reason="the conformance suite of MCP is not installed: make clients"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Where the suite's tools are served."""
    words = [sys.executable, str(HERE / "mcp_suite_server.py"), "--port", "0"]
    log = tmp_path_factory.mktemp("suite") / "stderr"
    environ = {**os.environ, "GROUNDBOX_API_KEY": TOKEN}
    with (
        log.open("w") as errors,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ) as process,
    ):
        try:
            line = process.stdout.readline().strip()
            assert line, log.read_text()
            # by this name, because the suite checks that others are refused only where a server is a local one
            yield line.replace("127.0.0.1", "localhost").rstrip("/") + f"/with-key/{TOKEN}/mcp"
        finally:
            process.terminate()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_suite_fails_nothing_but_what_is_not_offered(url, tmp_path, version):
    options, more = VERSIONS[version]
    expected = sorted(name for group in (NOT_OFFERED, more) for names in group.values() for name in names)
    baseline = tmp_path / "expected.yml"
    baseline.write_text("server:\n" + "".join(f"  - {name}\n" for name in expected))

    done = subprocess.run(
        ["node", SUITE, "server", "--url", url, *options, "--expected-failures", baseline, "-o", tmp_path / "results"],
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
