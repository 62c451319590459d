"""What a sandbox can leave for the one that gets its network namespace after it: nothing.

A worker without network may get a namespace that an ended worker had (template/networks.py).
"""

import json

import pytest

MOST_SANDBOXES = 40
"""More than the pool keeps ready and spare; among so many, some have had a namespace used before."""

WHERE = "import socket; print(socket.socket(socket.AF_UNIX).getsockopt(1, 71, 8).hex())"
"""SO_NETNS_COOKIE: unlike the number in /proc/self/ns/net it is given only once."""

SEEN = """
import json, os, re
seen = {}
for folder, _, names in os.walk('/proc/self/net'):
    for name in names:
        text = slurp(f'{folder}/{name}', 1 << 16).decode(errors='replace')
        seen[os.path.join(folder, name)] = text
print(json.dumps(seen))
"""

OF_THE_WHOLE_KERNEL = ("softnet_stat", "protocols", "sockstat", "sockstat6", "psched", "ptype")
"""These files count over all namespaces, or hold such counts."""

LEAVE = """
import socket
def listener(name):
    made = socket.socket(socket.AF_UNIX)
    made.bind('\\0' + name)
    made.listen()
    return made
held = [listener(f'{NONCE}-{n}') for n in range(20)]
dialled = [socket.socket(socket.AF_UNIX) for n in range(20)]
for n, one in enumerate(dialled): one.connect(f'\\0{NONCE}-{n}')
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagrams.bind('\\0' + NONCE + '-datagram')
datagrams.sendto(b'for you', '\\0' + NONCE + '-datagram')
ring = socket.socketpair()                       # held by nothing but each other's queue:
for one in ring:                                 # only the kernel's own search for such rings ends them
    socket.send_fds(one, [b'x'], [ring[0].fileno(), ring[1].fileno(), held[0].fileno()])
for n in range(3, 40):                           # and on its way to the host, which does not take it
    try:
        socket.send_fds(socket.socket(fileno=os.dup(n)), [b'\\0'], [held[1].fileno()])
    except OSError:
        pass
if os.fork() == 0:
    import time
    time.sleep(60)
print('left')
"""


def _seen(text: str) -> dict[str, str]:
    return {path: seen for path, seen in json.loads(text).items() if path.rpartition("/")[2] not in OF_THE_WHOLE_KERNEL}


@pytest.mark.parametrize("leave", ["LEAVE", "nothing"])
def test_a_network_namespace_used_again_shows_nothing_of_before(sandbox, prelude, nonce, leave):
    first = sandbox()
    where = first.run(WHERE).stdout
    before = _seen(first.run(prelude + SEEN).stdout)
    if leave == "LEAVE":
        first.run(f"NONCE = '{nonce}'\n" + prelude + LEAVE)
    first.close()

    for _ in range(MOST_SANDBOXES):
        box = sandbox()
        if box.run(WHERE).stdout == where:
            after = _seen(box.run(prelude + SEEN).stdout)
            assert after == before
            assert nonce not in json.dumps(after)
            return
        box.close()
    assert leave == "LEAVE", "no namespace was used again, so that this test shows nothing"


def test_two_that_live_at_once_never_have_one_network_namespace(sandbox):
    for _ in range(8):
        sandbox().run(WHERE)

    living = [sandbox() for _ in range(8)]

    assert len({box.run(WHERE).stdout for box in living}) == len(living)


def test_where_a_layer_is_waived_every_sandbox_has_a_new_network_namespace(sandbox):
    seen = set()
    for _ in range(10):
        box = sandbox(waive=["landlock"])
        seen.add(box.run(WHERE).stdout)
        box.close()

    assert len(seen) == 10
