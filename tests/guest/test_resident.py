"""Residents, spoken to by hand: what is told of one that breaks the protocol."""

import pytest

from groundbox.guest.children import Children, Exit
from groundbox.guest.resident import Residents

DRIVER = "read -r question <&3; echo no json >&3; exec sleep 600"


def order():
    resident = {"name": "sh", "argv": ["sh", "-c", DRIVER], "environ": {}}
    limits = {"cpu_s": None, "private_bytes": None}
    return {"id": 1, "source": "1", "filename": "a", "limits": limits, "resident": resident}


@pytest.mark.parametrize("before", [None, Exit(0, None)], ids=["it is ended", "it has left with code 0 before"])
def test_what_is_against_the_protocol_is_no_success(monkeypatch, before):
    children = Children(alone=False, guarded=False)
    forget = children.forget
    monkeypatch.setattr(children, "forget", lambda pid: (forget(pid) and before) or Exit(None, 9))

    answer = Residents(children, lambda frame: None, lambda cpu_s, private_bytes: None).run(order(), [])

    assert not answer["ok"]
    assert answer["error"]["type"] == "ProtocolViolation"
