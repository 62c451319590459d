"""What programs do with locks, sockets and limits goes on working where attackers are held off them.

The attacks are in tests/escape/test_kernel_memory.py and test_exhaustion.py.
"""

import pytest

import groundbox as gb

TWO_WRITERS = """
import os, sqlite3
sqlite3.connect("shop.db").execute("create table sale(writer, number)")
for writer in range(2):
    if os.fork() == 0:
        database = sqlite3.connect("shop.db", timeout=60)
        for number in range(100):
            with database: database.execute("insert into sale values(?, ?)", (writer, number))
        os._exit(0)
for _ in range(2): assert os.wait()[1] == 0
print(sqlite3.connect("shop.db").execute("select count(*), count(distinct number) from sale").fetchone())
"""
A_SERVER = """
import http.server, socket, threading, urllib.request
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)
        self.send_response(200); self.end_headers(); self.wfile.write(b"served")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read().decode())
"""
HABITS = """
import fcntl, os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
with open("file", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.write("x"); file.flush(); os.fsync(file.fileno()); os.fdatasync(file.fileno())
print("done")
"""


def test_two_processes_write_one_sqlite_database_and_no_row_is_lost():
    assert gb.run(TWO_WRITERS, mode="script", profile="bare").stdout == "(200, 100)\n"


def test_a_web_server_on_the_loopback_answers_with_the_usual_options():
    network = gb.Network(loopback=True)

    assert gb.run(A_SERVER, mode="script", profile="bare", network=network).stdout == "served\n"


@pytest.mark.parametrize("mode", ["cell", "script"])
def test_a_program_that_locks_flushes_and_forbids_cores_runs(mode):
    assert gb.run(HABITS, mode=mode, profile="bare").stdout == "done\n"
