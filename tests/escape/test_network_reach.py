"""Row 5: reaching anything by a socket. Judged by what the host's own listeners heard."""

import contextlib
import os
import socket
import threading
import time

import pytest

from groundbox import Network


class Listeners:
    """Sockets of the host, and the words that came in on any of them."""

    def __init__(self, folder, word):
        self.heard = []
        self._sockets = []
        tcp, tcp6 = self._tcp(socket.AF_INET, "127.0.0.1"), self._tcp(socket.AF_INET6, "::1")
        udp = self._bound(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.abstract = f"groundbox-{word}"
        self._bound(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.abstract}")
        self._bound(socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self.abstract}-datagram")
        self.path = f"{folder}/socket"
        self._bound(socket.AF_UNIX, socket.SOCK_STREAM, self.path)
        os.chmod(self.path, 0o777)
        self.ports = {"tcp": tcp, "tcp6": tcp6, "udp": udp.getsockname()[1]}
        self._threads = [threading.Thread(target=self._listen, args=(s,), daemon=True) for s in self._sockets]
        for thread in self._threads:
            thread.start()

    def _tcp(self, family, address):
        try:
            return self._bound(family, socket.SOCK_STREAM, (address, 0)).getsockname()[1]
        except OSError:
            return 9

    def _bound(self, family, kind, address):
        made = socket.socket(family, kind)
        self._sockets.append(made)
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made

    def _listen(self, listener):
        with contextlib.suppress(OSError):
            while True:
                if listener.type == socket.SOCK_DGRAM:
                    self.heard.append(listener.recv(100))
                else:
                    with listener.accept()[0] as one:
                        one.settimeout(5)
                        self.heard.append(one.recv(100))

    def close(self):
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def listeners(planted, nonce):
    made = Listeners(os.path.dirname(planted), nonce)
    yield made
    made.close()


SEND = """
import socket
def send(family, kind, address, options=()):
    with socket.socket(family, kind) as one:
        one.settimeout(3)
        for option in options: one.setsockopt(*option)
        if kind == socket.SOCK_DGRAM:
            one.sendto(WORD, address)
        else:
            one.connect(address)
            one.sendall(WORD)
    return 'sent'
"""
ROUTES = {
    "tcp": "send(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', PORTS['tcp']))",
    "tcp6": "send(socket.AF_INET6, socket.SOCK_STREAM, ('::1', PORTS['tcp6']))",
    "v4-mapped": "send(socket.AF_INET6, socket.SOCK_STREAM, ('::ffff:127.0.0.1', PORTS['tcp']))",
    "any address": "send(socket.AF_INET, socket.SOCK_STREAM, ('0.0.0.0', PORTS['tcp']))",
    "udp": "send(socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', PORTS['udp']))",
    "fast open": "socket.socket().sendto(WORD, 0x20000000, ('127.0.0.1', PORTS['tcp']))",
    "abstract": "send(socket.AF_UNIX, socket.SOCK_STREAM, '\\0' + ABSTRACT)",
    "abstract datagram": "send(socket.AF_UNIX, socket.SOCK_DGRAM, '\\0' + ABSTRACT + '-datagram')",
    "path": "send(socket.AF_UNIX, socket.SOCK_STREAM, PATH)",
}


def _source(listeners, nonce, route):
    return (
        f"WORD, PORTS, ABSTRACT, PATH = b'{nonce}', {listeners.ports}, '{listeners.abstract}', {listeners.path!r}\n"
        f"{SEND}\nprint(attempt(lambda: {ROUTES[route]}))"
    )


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "network", [Network(), Network(loopback=True), Network(allow=["example.org"])], ids=["off", "loopback", "proxy"]
)
def test_no_socket_of_the_host_is_reached(attack, listeners, nonce, route, network):
    execution = attack(_source(listeners, nonce, route), network=network)

    assert execution.error is None
    assert _heard(listeners, nonce) is False


def _heard(listeners, nonce):
    time.sleep(0.05)  # for a listener's thread to be woken; what was sent is in its socket already
    return nonce.encode() in listeners.heard


@pytest.mark.parametrize("route", ["tcp", "v4-mapped"])
@pytest.mark.layers(
    holds=["", "network_ns", "seccomp", "landlock", "network_ns seccomp", "network_ns landlock", "seccomp landlock"],
    breaks=["network_ns seccomp landlock"],
)
def test_three_layers_hold_off_tcp(attack, listeners, nonce, route, waive, breached):
    attack(_source(listeners, nonce, route), waive=waive)

    assert _heard(listeners, nonce) is breached


@pytest.mark.layers(holds=["", "network_ns", "seccomp", "network_ns landlock"], breaks=["network_ns seccomp"])
def test_two_layers_hold_off_udp(attack, listeners, nonce, waive, breached):
    attack(_source(listeners, nonce, "udp"), waive=waive)

    assert _heard(listeners, nonce) is breached


@pytest.mark.parametrize("route", ["abstract", "abstract datagram"])
@pytest.mark.layers(holds=["", "network_ns", "landlock", "network_ns seccomp"], breaks=["network_ns landlock"])
def test_two_layers_hold_off_abstract_sockets(attack, listeners, nonce, route, waive, breached):
    attack(_source(listeners, nonce, route), waive=waive)

    assert _heard(listeners, nonce) is breached


@pytest.mark.layers(holds=["", "network_ns seccomp landlock"], breaks=["mount_ns"])
def test_a_socket_with_a_path_is_held_off_by_not_being_there(attack, listeners, nonce, waive, breached):
    """No second layer: Landlock of this ABI does not cover connecting to a path. No socket is ever bound in."""
    source = _source(listeners, nonce, "path").replace("PATH)", "('/host' if os.path.isdir('/host') else '') + PATH)")

    attack(source, waive=waive)

    assert _heard(listeners, nonce) is breached


# Family, type, protocol.
FAMILIES = {
    "netlink": (16, 3, 0),
    "netlink audit": (16, 3, 9),
    "vsock": (40, 1, 0),
    "crypto": (38, 5, 0),
    "packet": (17, 3, 768),
    "raw": (2, 3, 1),
    "raw6": (10, 3, 58),
    "ping": (2, 2, 1),
    "bluetooth": (31, 3, 1),
    "can": (29, 3, 1),
    "tipc": (30, 1, 0),
    "rds": (21, 5, 0),
    "xdp": (44, 3, 0),
    "smc": (43, 1, 0),
    "kcm": (41, 2, 0),
    "qipcrtr": (42, 2, 0),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_socket_of_another_family_can_be_made(attack, family):
    assert attack(f"call('socket', *{FAMILIES[family]})").text == "-1"


@pytest.mark.parametrize("family", ["raw", "raw6", "ping", "packet", "netlink"])
def test_a_loopback_of_its_own_gives_no_raw_sockets(attack, family):
    execution = attack(f"call('socket', *{FAMILIES[family]})", network=Network(loopback=True))

    assert execution.text in ("-1", "-13", "-93")


@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_without_seccomp_other_families_are_there(attack, waive, breached):
    """The control of the one above: this kernel does have netlink."""
    text = attack(f"call('socket', *{FAMILIES['netlink']})", waive=waive).text

    assert (int(text) >= 0) is breached


def test_no_datagram_goes_through_a_pair_to_somewhere_else(attack, listeners, nonce):
    source = f"""
import socket
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
print(attempt(left.sendto, b'{nonce}', '\\0{listeners.abstract}-datagram'))
"""
    attack(source)

    assert _heard(listeners, nonce) is False


@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_io_uring_cannot_be_set_up(attack, waive, breached):
    """It would make sockets that no filter sees."""
    disabled = _read("/proc/sys/kernel/io_uring_disabled") not in ("", "0")
    if breached and disabled:
        pytest.skip("this kernel has io_uring switched off for everyone")

    text = attack("call('io_uring_setup', 4, bytes(120))", waive=waive).text

    assert (int(text) >= 0) is breached


def test_no_socket_is_inherited(attack, sandbox, prelude):
    """A script has its three streams and the pipe it reports by; a cell has its own connection to the host.

    Unless it is the last of its sandbox, it has one to the copy from which scripts are forked, too (test_snapshots.py).
    """
    source = """
import stat
kinds = {}
for fd in range(1024):
    try: kinds[fd] = stat.S_IFMT(os.fstat(fd).st_mode)
    except OSError: pass
print([fd for fd, kind in kinds.items() if kind == stat.S_IFSOCK])
"""
    assert attack(source, mode="script").stdout == "[]\n"
    assert len(eval(sandbox().run_last(prelude + source).stdout)) == 1


def test_name_resolution_ends_at_once_and_not_by_a_timeout(attack):
    source = "import socket\nprint(attempt(socket.getaddrinfo, 'example.org', 80))"

    execution = attack(source, wall_s=10)

    assert execution.stdout == "gaierror\n"


def test_the_loopback_of_one_is_not_that_of_another(sandbox, prelude):
    one, other = (sandbox(network=Network(loopback=True)) for _ in range(2))
    one.run("import socket\nserver = socket.create_server(('127.0.0.1', 4711))")

    assert (
        one.run(prelude + "import socket\nprint(type(attempt(socket.create_connection, ('127.0.0.1', 4711))))").stdout
        == "<class 'socket.socket'>\n"
    )
    assert (
        other.run(prelude + "import socket\nprint(attempt(socket.create_connection, ('127.0.0.1', 4711)))").stdout
        == "ECONNREFUSED\n"
    )


def _read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
