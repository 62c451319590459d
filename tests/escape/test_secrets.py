"""Row 2: secrets. Environment, command lines, keyrings, the memory of other processes.

A secret is planted in two halves. The guest is told the first and prints what stands behind it in memory,
so that its own copy of the first half proves nothing.
"""

import asyncio
import ctypes
import platform
import secrets

import pytest

from groundbox import AsyncSandbox
from groundbox.jail.syscalls import NUMBERS

SCAN = """
import re
found = set()
for pid in [p for p in os.listdir('/proc') if p.isdigit() or p == 'self']:
    for name in ('environ', 'cmdline'):
        found.update(re.findall(FIRST + rb'[0-9a-f]{32}', slurp(f'/proc/{pid}/{name}')))
    try:
        maps = open(f'/proc/{pid}/maps').read().splitlines()
        memory = os.open(f'/proc/{pid}/mem', os.O_RDONLY)
    except OSError:
        continue
    for line in maps:
        start, end = (int(part, 16) for part in line.split()[0].split('-'))
        for offset in range(start, end, 1 << 22):
            try:
                data = os.pread(memory, min((1 << 22) + 64, end - offset), offset)
            except (OSError, OverflowError):
                break
            found.update(re.findall(FIRST + rb'[0-9a-f]{32}', data))
print(sorted(found))
"""


@pytest.fixture
def halves():
    return secrets.token_hex(16), secrets.token_hex(16)


def test_the_hosts_environment_is_nowhere_inside(attack, everything, halves, monkeypatch):
    """A hash seed of its own makes a template of its own, started after the secret was planted."""
    first, second = halves
    monkeypatch.setenv("GROUNDBOX_TEST_SECRET", first + second)

    execution = attack(f"FIRST = b'{first}'\n" + SCAN, hash_seed=secrets.randbelow(1 << 32))

    assert execution.error is None
    assert second.encode() not in everything(execution)


def test_the_scan_finds_what_is_there(attack, halves):
    """The control: the same scan, of a secret that the guest does hold, in its own memory and environment."""
    first, second = halves
    hold = f"held = bytes.fromhex('{(first + second).encode().hex()}'); os.environ['HELD'] = held.decode()\n"

    execution = attack(hold + f"FIRST = b'{first}'\n" + SCAN)

    assert second in execution.stdout


def test_a_secret_of_one_sandbox_is_nowhere_in_the_next(sandbox, prelude, halves):
    first, second = halves
    with_secret, other = sandbox(), sandbox()
    with_secret.run(f"held = '{first + second}'")

    execution = other.run(prelude + f"FIRST = b'{first}'\n" + SCAN)

    assert execution.error is None
    assert second not in execution.stdout


READ_KEYRINGS = """
buffer = ctypes.create_string_buffer(4096)
for ring in (-1, -2, -3, -4, -5):  # thread, process, session, user, user session
    key = call('keyctl', 10, ring, b'user', NAME, 0)
    if key > 0 and call('keyctl', 11, key, buffer, 4096) > 0: print(buffer.raw)
    if call('keyctl', 11, ring, buffer, 4096) > 0: print('listed')
key = call('request_key', b'user', NAME, None, 0)
if key > 0 and call('keyctl', 11, key, buffer, 4096) > 0: print(buffer.raw)
"""


@pytest.mark.layers(holds=["", "keyring", "seccomp"], breaks=["keyring seccomp"])
def test_the_hosts_session_keyring_cannot_be_read(prelude, nonce, waive, breached):
    """Credentials belong to a thread, so the sandbox is started from this one."""
    name = f"groundbox-test-{secrets.token_hex(4)}".encode()
    _plant_key(name, nonce.encode())
    source = f"NAME = {name!r}\n" + READ_KEYRINGS

    async def attack():
        seed = secrets.randbelow(1 << 32)
        async with AsyncSandbox(profile="bare", waive=waive, hash_seed=seed) as box:
            return await box.run(prelude + source)

    execution = asyncio.run(attack())

    assert execution.error is None
    assert (nonce in execution.stdout) is breached


def _plant_key(name, payload):
    numbers = NUMBERS[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(numbers["keyctl"], 1, None) < 0:
        pytest.skip("this kernel has no keyrings")
    key = libc.syscall(numbers["add_key"], b"user", name, payload, len(payload), -3)
    assert key > 0
    # Readable to whoever possesses it, whatever the user id: the worst case.
    libc.syscall(numbers["keyctl"], 5, key, 0x3F3F3F3F)


def test_process_one_holds_nothing_but_the_allowed_environment(attack):
    execution = attack("print(sorted(p.split(b'=')[0].decode() for p in slurp('/proc/1/environ').split(b'\\0') if p))")

    assert set(eval(execution.stdout)) <= {*ENVIRONMENT, "GLIBC_TUNABLES", "PYTHONHASHSEED"}


ENVIRONMENT = frozenset(
    [
        "PATH",
        "HOME",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "XDG_DATA_DIRS",
        "LANG",
        "LC_ALL",
        "TZ",
        "TERM",
        "MPLBACKEND",
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "ARROW_DEFAULT_MEMORY_POOL",
        "JE_ARROW_MALLOC_CONF",
        "PYTHONDONTWRITEBYTECODE",
        "PIP_DISABLE_PIP_VERSION_CHECK",
        "PIP_TARGET",
        "PYTHONPATH",
        "MPLCONFIGDIR",
    ]
)


@pytest.mark.parametrize("mode", ["cell", "script"])
def test_the_environment_is_an_allow_list(attack, mode):
    execution = attack("print('\\n'.join(os.environ))", mode=mode)

    assert set(execution.stdout.split()) <= ENVIRONMENT


def test_children_inherit_no_more(attack):
    execution = attack("import subprocess; r = subprocess.run(['/usr/bin/env', '-0'])")

    names = {line.partition("=")[0] for line in execution.stdout.split("\0") if line}
    assert names <= ENVIRONMENT
