"""Conformance: what two sandboxes know of each other, which is nothing."""

from __future__ import annotations

import secrets

import pytest

from groundbox.testing.base import Conformance


class ApartnessConformance(Conformance):
    """Two sandboxes side by side, and a sandbox and the host."""

    def test_random_numbers_differ_between_sandboxes(self) -> None:
        source = "import random, os, uuid; print(random.random(), os.urandom(8).hex(), uuid.uuid4())"
        boxes = [self.sandbox() for _ in range(3)]

        drawn = [box.run(source).stdout.split() for box in boxes]

        assert len({number for numbers in drawn for number in numbers}) == 9

    def test_random_numbers_of_numpy_differ_between_sandboxes(self) -> None:
        source = "import numpy as np; print(np.random.rand(), np.random.default_rng().random())"
        boxes = [self.sandbox(profile="science") for _ in range(2)]

        drawn = [box.run(source).stdout.split() for box in boxes]

        assert len({number for numbers in drawn for number in numbers}) == 4

    def test_random_numbers_differ_between_scripts_of_one_sandbox(self) -> None:
        box = self.sandbox()
        source = "import random; print(random.random())"

        assert box.run(source, mode="script").stdout != box.run(source, mode="script").stdout

    def test_a_seed_still_means_what_it_means(self) -> None:
        source = "import random; random.seed(7); random.random()"

        assert self.sandbox().run(source).text == self.sandbox().run(source).text

    def test_files_of_one_are_not_there_for_the_other(self) -> None:
        name = f"groundbox-{secrets.token_hex(8)}"
        one, other = self.sandbox(), self.sandbox()
        places = ["", "/tmp/", "/dev/shm/", "/var/tmp/"]

        for place in places:
            one.run(f"open('{place}{name}', 'w').write('secret')")

        look = f"import os; [p for p in {places} if os.path.exists(p + '{name}')]"
        assert other.run(look).text == "[]"

    def test_processes_of_one_are_not_seen_by_the_other(self) -> None:
        one, other = self.sandbox(), self.sandbox()
        one.run("import subprocess; subprocess.Popen(['sleep', '97531'])")

        look = """
import os
found = []
try: names = os.listdir('/proc')
except PermissionError: names = []
for pid in filter(str.isdigit, names):
    try:
        if b'97531' in open(f'/proc/{pid}/cmdline', 'rb').read(): found.append(pid)
    except OSError: pass
found
"""
        assert other.run(look).text == "[]"

    def test_the_hosts_environment_is_not_inherited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GROUNDBOX_TEST_NONCE", "secret")

        execution = self.sandbox().run("import os; print('\\n'.join(os.environ))")

        assert "GROUNDBOX_TEST_NONCE" not in execution.stdout.split()

    def test_the_network_is_off(self) -> None:
        source = """
import socket
try:
    with socket.create_connection(('127.0.0.1', 9), timeout=2): print('connected')
except OSError as error:
    print(type(error).__name__)
"""
        execution = self.sandbox().run(source)

        assert execution.stdout in ("PermissionError\n", "OSError\n")
