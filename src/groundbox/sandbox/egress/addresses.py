"""Which IP addresses the proxy may connect to.

An allowed name can point anywhere: its owner, or whoever answers for its DNS, chooses the address.
So the addresses of a name are judged before any is connected to, and the connection is made
to the very address that was judged (no second look-up, so no rebinding).

The ranges are those of IANA's special-purpose registries (RFC 6890 and updates) plus what clouds
use for machine metadata. They are listed here rather than asked of `ipaddress`, whose `is_global`
differs between patch releases of CPython.

Not covered: a NAT64 prefix of a network's own, which looks like any public range.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ipaddress
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from groundbox.network import Network, private_range

Address = IPv4Address | IPv6Address

_REFUSED_V4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # "this network"; 0.0.0.0 connects to the host itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier NAT, and metadata at 100.100.100.200
        "127.0.0.0/8",
        "168.63.129.16/32",  # metadata of a cloud, at an address that is otherwise public
        "169.254.0.0/16",  # link-local, and metadata at 169.254.169.254
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and metadata at 192.0.0.192
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
# Everything else is unspecified, loopback, v4-mapped, ULA (metadata at fd00:ec2::254 and
# fd20:ce::254), link-local, site-local, multicast or not assigned.
_GLOBAL_V6: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6: Final = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo (embeds IPv4), ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4 (embeds IPv4)
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation
    )
)
# RFC 6052: how an IPv6-only host sees IPv4 hosts, so public where the address within is.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Whether `address` is a unicast address of the public internet.

    IPv4 within IPv6 is judged as IPv4 for NAT64's well-known prefix, and refused whatever
    it holds for 6to4, Teredo, v4-mapped and v4-compatible addresses.
    """
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _REFUSED_V4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GLOBAL_V6 and not any(address in block for block in _REFUSED_V6)


def is_outside(address: Address) -> bool:
    """Whether `address` is public and not one of this machine's own.

    A connection to the machine's own public address never passes the firewall in front of it.
    """
    return is_public(address) and not is_own(address)


_METADATA: Final = frozenset(
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)


def permits(network: Network) -> Callable[[Address], bool]:
    """Judges an address by `network`: outside, or in a range that was named. Never loopback or link-local."""
    ranges = [private_range(entry) for entry in network.private_ranges]

    def permitted(address: Address) -> bool:
        if is_outside(address):
            return True
        if address.version == 6 and address in _NAT64:
            return permitted(IPv4Address(int(address) & 0xFFFF_FFFF))
        return not is_never_allowed(address) and any(address in block for block in ranges)

    return permitted


def is_never_allowed(address: Address) -> bool:
    """Whether no setting allows `address`: it is this machine's own, metadata's, or no unicast address of a network."""
    if address.version == 6 and address in _NAT64:
        return is_never_allowed(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _METADATA or (address.version == 6 and address.ipv4_mapped):
        return True
    closed = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    return closed or is_own(address)


def is_own(address: Address) -> bool:
    """Whether this machine has `address`: the kernel would then send from it too.

    Connecting a datagram socket looks up the route and sends nothing.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ipaddress.ip_address(probe.getsockname()[0]) == address
    except OSError:  # no route, so nothing there to reach either
        return False


class SystemResolver:
    """Looks names up as this machine does: getaddrinfo(3), hosts file and search list included.

    Has two threads of its own, because a look-up cannot be interrupted and the names are slow
    at their owners' will: they would fill the executor that the rest of the host works with.
    """

    def __init__(self) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="groundbox-resolver")

    async def __call__(self, host: str) -> Sequence[Address]:
        """Addresses in the order of preference (RFC 6724). Raises OSError if there is none."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str) -> list[Address]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    texts = dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found)
    return [ipaddress.ip_address(text) for text in texts]
