"""Sockets of the kernel: readers that do not read, and signatures."""

import asyncio
import logging
from typing import Any

import pytest

zmq = pytest.importorskip("zmq", reason="the extra `jupyter` is not installed here: make clients")
from groundbox.jupyter import zeromq  # noqa: E402
from groundbox.jupyter.kernel import InvalidMessage  # noqa: E402
from groundbox.jupyter.zeromq import ConnectionFile, Signer, Sockets  # noqa: E402


def message(text):
    return {
        "header": {"msg_type": "stream"},
        "msg_type": "stream",
        "parent_header": {},
        "metadata": {},
        "content": {"text": text},
    }


def test_a_reader_that_reads_nothing_holds_the_kernel_for_a_while_and_loses_what_comes_then(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(zeromq, "_SLOW_S", 0.3)
    ports: dict[str, Any] = {
        f"{name}_port": number for number, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)
    }
    connection = ConnectionFile(**ports, key="secret", transport="ipc", ip=str(tmp_path / "s"))
    context = zmq.Context()
    reader = context.socket(zmq.SUB)
    reader.rcvhwm = 1
    reader.subscribe(b"")

    async def serve():
        sockets = Sockets(connection)
        try:
            reader.connect(connection.address(connection.iopub_port))
            await asyncio.sleep(0.3)
            for number in range(1500):
                await sockets.publish(message("x" * 2000 + str(number)))
            while reader.poll(200):
                reader.recv_multipart()
            await sockets.publish(message("after"))
            assert reader.poll(5000)
            return reader.recv_multipart()[-1]
        finally:
            reader.close(0)
            sockets.close()

    with caplog.at_level(logging.WARNING, logger="groundbox"):
        told = asyncio.run(serve())
    context.term()

    assert told == b'{"text":"after"}'
    assert [each.getMessage() for each in caplog.records] == [
        "a client read nothing for 0.3 s, and loses what is published until it reads"
    ]


def test_a_signature_is_taken_once_among_the_newest_ones():
    signer = Signer("secret", "sha256", most=2)
    parts = [[bytes([number])] * 4 for number in range(3)]
    signatures = [signer.sign(each) for each in parts]

    signer.check(signatures[0], parts[0])
    with pytest.raises(InvalidMessage, match="seen before"):
        signer.check(signatures[0], parts[0])
    with pytest.raises(InvalidMessage, match="wrong"):
        signer.check(signatures[0], parts[1])
    with pytest.raises(InvalidMessage, match="wrong"):
        signer.check(b"\xff", parts[1])
    signer.check(signatures[1], parts[1])
    signer.check(signatures[2], parts[2])

    signer.check(signatures[0], parts[0])  # as long as the newest are remembered
