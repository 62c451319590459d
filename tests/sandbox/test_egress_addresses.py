"""Which addresses the proxy connects to."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.network import Network
from groundbox.sandbox.egress import addresses
from groundbox.sandbox.egress.addresses import SystemResolver, is_outside, is_own, is_public, permits


@pytest.mark.parametrize(
    "text",
    ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "168.63.129.17",
     "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2001:200::1", "2a00::1",
     "64:ff9b::8.8.8.8"],
)  # fmt: skip
def test_addresses_of_the_public_internet_are_allowed(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.0", "100.100.100.200", "100.127.255.255", "127.0.0.1",
     "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.0",
     "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1",
     "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
     "255.255.255.255",
     "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "100::1",
     "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8",
     "2001::1", "2001:0:102:304::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::",
     "2002:808:808::1", "3ffe::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254",
     "fe80::1", "fe80::1%1", "2606:4700::1%1", "fec0::1", "ff02::1", "ff0e::1"],
)  # fmt: skip
def test_all_other_addresses_are_refused(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@given(st.ip_addresses())
def test_nothing_is_public_that_the_standard_library_calls_private(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return  # newer than some patch releases of Python know

    assert not (is_public(address) and (address.is_private or address.is_multicast or address.is_reserved))


def test_an_address_of_this_machine_is_known_as_its_own() -> None:
    assert is_own(ipaddress.ip_address("127.0.0.1"))
    assert not is_outside(ipaddress.ip_address("127.0.0.1"))


@pytest.mark.parametrize("own", [True, False])
def test_a_public_address_of_this_machine_is_not_outside(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    # Few machines have one, so that it is patched in.
    monkeypatch.setattr(addresses, "is_own", lambda address: own)

    assert is_outside(ipaddress.ip_address("1.1.1.1")) is not own


ALL_RANGES = ["0.0.0.0/0", "::/0"]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "0.0.0.0", "169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1",
     "::1", "::", "fe80::1", "ff02::1", "fd00:ec2::254", "fd20:ce::254", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
     "64:ff9b::169.254.169.254", "64:ff9b::127.0.0.1"],
)  # fmt: skip
def test_no_private_range_opens_the_host_itself_or_its_metadata(address: str) -> None:
    permitted = permits(Network(private_ranges=ALL_RANGES))

    assert not permitted(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("ranges", "address", "allowed"),
    [
        (["10.1.0.0/16"], "10.1.2.3", True),
        (["10.1.0.0/16"], "10.2.2.3", False),
        (["10.1.0.0/16"], "64:ff9b::10.1.2.3", True),
        (["fd12::/16"], "fd12::1", True),
        (["fd12::/16"], "fd13::1", False),
        ([], "10.1.2.3", False),
        ([], "1.1.1.1", True),
    ],
)
def test_a_private_range_opens_what_is_in_it(ranges: list[str], address: str, allowed: bool) -> None:
    assert permits(Network(private_ranges=ranges))(ipaddress.ip_address(address)) is allowed


def test_the_system_resolver_gives_addresses() -> None:
    async def look_up() -> set[str]:
        resolver = SystemResolver()
        try:
            return {str(address) for address in await resolver("localhost")}
        finally:
            resolver.close()

    assert asyncio.run(look_up()) <= {"127.0.0.1", "::1"}
