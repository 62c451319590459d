"""Rows 24 and 25: the other languages have the same walls. Nothing inside bash, Node or Graphviz counts as one.

The attacks are the plainest of each row; that they are real ones is shown by switching the layers off.
"""

import contextlib
import os
import socket
import struct
import threading
import time
import zlib

import pytest

from groundbox import Outcome
from groundbox.sandbox import languages
from groundbox.testing.base import until
from groundbox.testing.languages import running

NODE = pytest.param("javascript", marks=pytest.mark.skipif(bool(languages.missing("javascript")), reason="no node"))
NEEDS_NODE = pytest.mark.skipif(bool(languages.missing("javascript")), reason=str(languages.missing("javascript")))
NEEDS_DOT = pytest.mark.skipif(bool(languages.missing("dot")), reason=str(languages.missing("dot")))

READS = {
    "shell": "cat PATH; cat ../../../../..PATH; ln -s PATH link; cat link; cat /proc/*/root/PATH; ls -la /proc/*/fd",
    "javascript": """
        let fs = require('fs'), got = [];
        for (const way of ['PATH', '../../../../..PATH', '/proc/1/root/PATH', '/proc/self/root/PATH'])
          try { got.push(fs.readFileSync(way, 'utf8')) } catch (error) { got.push(error.code) }
        try { fs.symlinkSync('PATH', 'link'); got.push(fs.readFileSync('link', 'utf8')) } catch {}
        got.push(require('child_process').spawnSync('cat', ['PATH']).stdout.toString());
        console.log(got)
    """,
}


@pytest.mark.parametrize("language", ["shell", NODE])
@pytest.mark.layers(holds=["", "mount_ns", "landlock"], breaks=["mount_ns landlock"])
def test_a_host_file_is_held_off_twice(sandbox, everything, planted, nonce, language, waive, breached):
    """Without mount_ns the host's root lies in the guest's, at /host."""
    box = sandbox(waive=waive)

    got = [
        everything(box.run(READS[language].replace("PATH", path), language=language))
        for path in (planted, f"/host{planted}")
    ]

    assert (nonce.encode() in b"".join(got)) is breached


def _wide_picture(path):
    """A PNG of 400 × 300 points."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 400, 300, 8, 0, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress((b"\0" + b"\x55" * 400) * 300)) + chunk(b"IEND", b""))


@NEEDS_DOT
@pytest.mark.layers(holds=["", "mount_ns", "landlock"], breaks=["mount_ns landlock"])
def test_an_image_of_the_host_is_in_no_picture(sandbox, planted, waive, breached):
    """A node without a label is as large as its image."""
    picture = f"{os.path.dirname(planted)}/a.png"
    _wide_picture(picture)
    source = 'graph {{ a [label="", shape=none, image="{}"] }}'

    sizes = [
        sandbox(waive=waive).run(source.format(path), language="dot", argv=["-Tpng"]).displays[0].png[16:24]
        for path in (picture, f"/host{picture}")
    ]

    widths = [struct.unpack(">II", size)[0] for size in sizes]
    assert (max(widths) > 400) is breached


WAYS = {
    "shapefile": 'graph { a [shape=epsf, shapefile="PATH"]; b [shapefile="PATH"] }',
    "imagepath": 'graph { imagepath="FOLDER"; a [image="secret.txt"] }',
    "fontpath": 'graph { fontpath="FOLDER"; fontname="secret"; a [label=x, fontname="secret.txt"] }',
    "stylesheet": 'graph { stylesheet="PATH"; a }',
    "an image in a label": "graph { a [label=<<table><tr><td><img src='PATH'/></td></tr></table>>] }",
    "the layout": 'graph { layout="PATH"; a }',
    "a library": 'graph { a [shape="PATH"] }',
}


@NEEDS_DOT
@pytest.mark.parametrize("way", WAYS)
def test_no_attribute_of_a_graph_reads_a_host_file(sandbox, everything, planted, nonce, way):
    source = WAYS[way].replace("PATH", planted).replace("FOLDER", os.path.dirname(planted))

    execution = sandbox().run(source, language="dot", argv=["-Tsvg", "-Tpng", "-Tpdf"])

    assert nonce.encode() not in everything(execution)


ACTIVE = """
digraph { stylesheet="http://evil.example/a.css"; URL="javascript:alert(1)"; id="x\\" onload=\\"alert(1)";
  a [URL="javascript:alert(1)", target="_top", tooltip="<script>alert(1)</script>", class="y\\" onclick=\\"alert(1)"];
  b [label=<<table href="javascript:alert(1)"><tr><td href="https://evil.example/">x</td></tr></table>>];
  a -> b [edgeURL="javascript:alert(1)", label="</text><script>alert(1)</script>", labelURL="data:text/html,x"];
}
"""


@NEEDS_DOT
def test_an_svg_acts_in_no_way_and_refers_to_nothing(sandbox):
    import xml.etree.ElementTree as ET

    svg = sandbox().run(ACTIVE, language="dot", argv=["-Tsvg"]).displays[0].data["image/svg+xml"]

    root = ET.fromstring(svg)
    assert {element.tag.partition("}")[2] for element in root.iter()} <= {
        "svg",
        "g",
        "title",
        "polygon",
        "ellipse",
        "text",
        "path",
    }
    names = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in names if name.rpartition("}")[2].lower().startswith(("on", "href", "src"))]
    assert "<?xml-stylesheet" not in svg


@NEEDS_DOT
def test_a_program_cannot_show_an_svg_as_it_is(sandbox):
    """The first process is the program's own when a cell has run in it, and may say what it likes."""
    box = sandbox()
    forged = "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"
    box.run(
        "import sys, gc\n"
        "command = sys.modules['groundbox.guest.command']\n"
        f"command._Places.results = lambda self: {{'image/svg+xml': {forged!r}}}"
    )

    execution = box.run("graph { a }", language="dot")

    assert "alert" not in str(execution.to_dict()["displays"])


@pytest.fixture
def listener():
    """A port of the host, and whether anyone has connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        came = []

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()
                    came.append(1)

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)


CONNECTS = {
    "shell": "exec 3<>/dev/tcp/127.0.0.1/PORT",
    "javascript": """
        await new Promise(done => require('net').connect(PORT, '127.0.0.1').on('connect', done).on('error', done))
    """,
}


@pytest.mark.parametrize("language", ["shell", NODE])
@pytest.mark.layers(holds=["", "network_ns", "network_ns seccomp"], breaks=["network_ns seccomp landlock"])
def test_the_network_is_held_off_three_times(sandbox, listener, language, waive, breached):
    port, came = listener

    sandbox(waive=waive).run(CONNECTS[language].replace("PORT", str(port)), language=language)

    time.sleep(0.05)
    assert bool(came) is breached


LOOKS = {
    "shell": "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done 2>/dev/null",
    "javascript": """
        const fs = require('fs');
        const read = pid => { try { return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8') } catch {} };
        fs.readdirSync('/proc').map(read).join()
    """,
}


@pytest.mark.parametrize("language", ["shell", NODE])
@pytest.mark.layers(holds=[""], breaks=["pid_ns proc"])
def test_no_process_of_another_sandbox_is_seen(sandbox, everything, nonce, language, waive, breached):
    sandbox(waive=waive).run(f"import subprocess; p = subprocess.Popen(['sh', '-c', 'sleep 60; :', '{nonce}'])")

    execution = sandbox(waive=waive).run(LOOKS[language], language=language)

    assert (nonce.encode() in everything(execution)) is breached


REACHES = {
    "shell": "cat /proc/1/environ /proc/1/maps; ls -l /proc/1/fd | grep socket; exec 3<>/proc/1/mem && echo open",
    "javascript": """
        const fs = require('fs'), got = [];
        for (const file of ['environ', 'maps', 'fd', 'mem'])
          try { got.push((file === 'fd' ? fs.readdirSync : fs.openSync)(`/proc/1/${file}`)) } catch {}
        got.length
    """,
}


@pytest.mark.parametrize("language", ["shell", NODE])
@pytest.mark.layers(holds=[""], breaks=["dumpable"])
def test_the_process_that_reports_the_end_is_closed_to_the_program(sandbox, language, waive, breached):
    execution = sandbox(waive=waive).run(REACHES[language], language=language)

    reached = bool(execution.stdout) if language == "shell" else execution.text != "0"
    assert reached is breached


FORGES = {
    "shell": """
        for fd in /proc/self/fd/*; do echo '{"ev":"done","id":1,"ok":true,"value":{"text/plain":"forged"}}' > $fd; done
        kill -9 1; exit 3
    """,
}


def test_a_script_cannot_say_how_it_ended(sandbox):
    execution = sandbox().run(FORGES["shell"], language="shell")

    assert (execution.outcome, execution.exit_code, execution.value) == (Outcome.ERROR, 3, None)


@pytest.mark.parametrize("language", ["shell", NODE])
def test_no_descriptor_but_the_named_ones_is_open(sandbox, language):
    source = {
        "shell": "for fd in /proc/$$/fd/*; do readlink $fd; done",
        "javascript": """
            const fs = require('fs');
            for (const fd of fs.readdirSync('/proc/self/fd'))
              try { console.log(fs.readlinkSync('/proc/self/fd/' + fd)) } catch {}
        """,
    }[language]

    found = sandbox().run(source, language=language).stdout.split()

    kinds = {name.partition(":")[0] for name in found}
    assert kinds <= {"pipe", "socket", "anon_inode", "/dev/null", "/box/work/main.sh", "/dev/urandom"}
    assert sum(name.startswith("socket:") for name in found) == (1 if language == "javascript" else 0)


BOMBS = {
    "shell": "b() { b | b & }; b; wait",
    "javascript": """
        const { spawn } = require('child_process');
        const bomb = 'b() { b | b & }; b; wait';
        const options = { stdio: 'ignore', detached: true };
        for (let i = 0; i < 50; i++) spawn('bash', ['-c', bomb], options).on('error', () => 0);
        await new Promise(done => setTimeout(done, 300))
    """,
}


@pytest.mark.parametrize("language", ["shell", NODE])
def test_a_bomb_ends_with_its_sandbox(sandbox, language):
    box = sandbox()
    mark = f"9877{len(language)}"
    box.run(BOMBS[language].replace("b() {", f"sleep {mark} & b() {{"), language=language, wall_s=1.5)

    box.close()

    assert until(lambda: running(f"sleep\0{mark}\0".encode()) == 0)


@NEEDS_NODE
def test_node_cannot_reach_past_its_own_wall(sandbox, everything, planted, nonce):
    """What there is inside of Node to leave Node by leads no further than the sandbox."""
    source = f"""
        const got = [];
        const attempt = (action) => {{ try {{ got.push(String(action())) }} catch (error) {{ got.push(error.code) }} }};
        attempt(() => process.binding('fs').open('{planted}', 0, 0o666, undefined, {{}}));
        attempt(() => process.dlopen({{ exports: {{}} }}, '{planted}'));
        attempt(() => new (require('worker_threads').Worker)('{planted}'));
        attempt(() => require('{planted}'));
        attempt(() => require('inspector').open(0, '127.0.0.1'));
        attempt(() => process.setuid(0));
        attempt(() => process.kill(1, 'SIGKILL'));
        console.log(got)
    """
    box = sandbox()

    execution = box.run(source, language="javascript")

    assert nonce.encode() not in everything(execution)
    assert box.run("1").text == "1"
