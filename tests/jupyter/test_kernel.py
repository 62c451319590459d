"""The kernel over ZeroMQ: Jupyter's own suite for kernels, notebooks that nbclient runs, and what nobody may do."""

import contextlib
import json
import os
import queue
import signal
import stat
import subprocess
import sys
import time

import pytest

MISSING = "is not installed here: make clients"
jupyter_kernel_test = pytest.importorskip("jupyter_kernel_test", reason=f"jupyter-kernel-test {MISSING}")
nbformat = pytest.importorskip("nbformat", reason=f"nbformat {MISSING}")
nbclient = pytest.importorskip("nbclient", reason=f"nbclient {MISSING}")
from jupyter_client.manager import KernelManager, start_new_kernel  # noqa: E402

NAME = "groundbox"


class TestKernel(jupyter_kernel_test.KernelTests):  # type: ignore[name-defined]  # not in every venv
    """All that the suite can check but a pager: help is printed here."""

    kernel_name = NAME
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "x = 1\nimport colle", "matches": {"collections"}},
        {"text": "'a'.isupp", "matches": set()},
        {"text": "print.__nam", "matches": {"__name__"}},
    ]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n", "%time 1"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2", "for i in x:"]
    invalid_code_samples = ["import = 7q", "1 +* 2"]
    code_generate_error = "raise"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        {"code": "import pandas as pd; pd.DataFrame({'a': [1]})", "mime": "text/html"},
    ]
    code_display_data = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "from IPython.display import Math, display; display(Math(r'\\frac{1}{2}'))", "mime": "text/latex"},
        {"code": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", "mime": "image/png"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


@pytest.fixture
def kernel():
    """A client of a kernel of its own, and the manager that started it."""
    manager, client = start_new_kernel(kernel_name=NAME)
    client.manager = manager
    yield client
    client.stop_channels()
    if manager.is_alive():
        manager.shutdown_kernel(now=True)


def run(client, code, **options):
    """Type and content of each message that a cell published, and its reply."""
    told = []
    options.setdefault("timeout", 60)
    reply = client.execute_interactive(code, output_hook=lambda each: told.append(each), **options)
    shown = [
        (each["msg_type"], each["content"]) for each in told if each["msg_type"] not in ("status", "execute_input")
    ]
    return shown, reply["content"]


def value(client, code):
    """The text of a cell's value."""
    shown, _ = run(client, code)
    return dict(shown)["execute_result"]["data"]["text/plain"]


# Notebooks


def test_nbclient_runs_a_notebook_with_a_plot_a_table_and_an_error(tmp_path, data_folder):
    cells = [
        "import pandas as pd\ntable = pd.read_csv('handed.csv')\ntable",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()",
        "table.to_csv('made.csv')\n1 / 0",
        "print('after')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])

    nbclient.NotebookClient(notebook, kernel_name=NAME, timeout=120, allow_errors=True).execute()

    outputs = [cell["outputs"] for cell in notebook.cells]
    nbformat.validate(notebook)
    assert "<table" in outputs[0][0]["data"]["text/html"]
    assert outputs[1][0]["data"]["image/png"].startswith("iVBOR")
    assert (outputs[2][0]["output_type"], outputs[2][0]["ename"]) == ("error", "ZeroDivisionError")
    assert outputs[3][0]["text"] == "after\n"
    assert notebook.metadata.language_info["name"] == "python"
    assert notebook.metadata.language_info["version"].startswith("3.")
    assert (data_folder / "out" / "made.csv").read_text() == ",a,b\n0,1,2\n"


def test_a_notebook_that_fails_stops_and_says_why():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("undefined")])

    with pytest.raises(nbclient.exceptions.CellExecutionError, match="NameError"):
        nbclient.NotebookClient(notebook, kernel_name=NAME, timeout=120).execute()


def test_a_cell_sees_neither_the_notebooks_folder_nor_the_hosts_files(kernel, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("host")

    assert value(kernel, f"import os; os.path.exists({str(secret)!r}), os.listdir()") == "(False, ['handed.csv'])"


# Messages


def test_messages_come_in_the_order_of_jupyter_with_the_header_of_their_request(kernel):
    name = kernel.execute("1 + 1")
    told = until_idle(kernel, name)
    while (reply := kernel.get_shell_msg(timeout=30))["msg_type"] != "execute_reply":
        pass  # answers to what the client asked until the kernel was ready

    assert [each["msg_type"] for each in told] == ["status", "execute_input", "execute_result", "status"]
    assert [each["content"]["execution_state"] for each in (told[0], told[3])] == ["busy", "idle"]
    assert {each["parent_header"]["msg_id"] for each in (*told, reply)} == {name}
    assert reply["content"] == {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
    assert reply["metadata"]["groundbox"]["outcome"] == "ok"


def test_input_and_passwords_are_asked_of_the_client(kernel):
    asked = []

    def answer(message):
        asked.append(message["content"])
        kernel.input("blue")

    shown, _ = run(
        kernel, "import getpass\n(input('colour? '), getpass.getpass('key? '))", allow_stdin=True, stdin_hook=answer
    )

    assert dict(shown)["execute_result"]["data"]["text/plain"] == "('blue', 'blue')"
    assert asked == [{"prompt": "colour? ", "password": False}, {"prompt": "key? ", "password": True}]


def test_input_of_a_client_that_answers_nothing_fails_at_once(kernel):
    run(kernel, "1", allow_stdin=True)

    _, reply = run(kernel, "input()", allow_stdin=False)

    assert (reply["ename"], reply["status"]) == ("EOFError", "error")


def test_a_cell_that_waits_in_input_is_interrupted(kernel):
    name = kernel.execute("try:\n    input()\nexcept KeyboardInterrupt:\n    print('stopped')", allow_stdin=True)
    kernel.get_stdin_msg(timeout=60)

    kernel.manager.interrupt_kernel()

    assert {"name": "stdout", "text": "stopped\n"} in [each["content"] for each in until_idle(kernel, name)]


def test_a_display_is_replaced_and_output_cleared_as_the_program_says(kernel):
    shown, _ = run(kernel, "handle = display('a', display_id='x')\nhandle.update('b')")
    cleared, _ = run(kernel, "from IPython.display import clear_output\nprint(1)\nclear_output(wait=True)\nprint(2)")

    assert [(kind, each["data"]["text/plain"], each["transient"]) for kind, each in shown] == [
        ("display_data", "'a'", {"display_id": "x"}),
        ("update_display_data", "'b'", {"display_id": "x"}),
    ]
    assert cleared == [
        ("stream", {"name": "stdout", "text": "1\n"}),
        ("clear_output", {"wait": True}),
        ("stream", {"name": "stdout", "text": "2\n"}),
    ]


def test_completion_and_help_know_the_live_variables(kernel):
    run(kernel, "import collections\nwords = {'alpha': 1}\ndef twice(n):\n    'Two of it.'\n    return 2 * n")

    completed = kernel.complete("x = 1\nprint(words.ke", 20, reply=True, timeout=30)["content"]
    magic = kernel.complete("%%tim", reply=True, timeout=30)["content"]
    described = kernel.inspect("twice(3)", 2, reply=True, timeout=30)["content"]
    unknown = kernel.inspect("nothing_of_this_name", reply=True, timeout=30)["content"]

    assert (completed["matches"], completed["cursor_start"], completed["cursor_end"]) == (["keys"], 18, 20)
    assert {"%%time", "%%timeit"} <= set(magic["matches"])
    assert "Two of it." in described["data"]["text/plain"]
    assert (unknown["found"], unknown["data"]) == (False, {})


def test_nothing_that_a_cell_shows_acts_in_the_notebooks_page(kernel):
    shown, _ = run(
        kernel,
        "from IPython.display import display\n"
        "display({'text/html': '<b onclick=x>bold</b><script>evil()</script><img src=x onerror=evil()>', "
        "'application/javascript': 'evil()', 'text/plain': 'plain'}, raw=True)\n"
        "display({'text/markdown': '# <script>evil()</script>', 'text/plain': 'md'}, raw=True)\n"
        "display({'image/svg+xml': '<svg onload=\"evil()\"/>', 'text/plain': 'svg'}, raw=True)\n"
        "display({'text/latex': r'$\\href{javascript:evil()}{x}$', 'text/plain': 'latex'}, raw=True)\n"
        "display({'application/vnd.plotly.v1+json': {}, 'application/pdf': 'eA==', 'text/plain': 'fig'}, raw=True)",
    )

    assert [content["data"] for _, content in shown] == [
        {"text/plain": "plain", "text/html": "<b>bold</b>"},
        {"text/plain": "# <script>evil()</script>"},
        {"text/plain": "svg", "text/html": '<img src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImV2aWwoKSIvPg==">'},
        {"text/plain": "latex"},
        {"text/plain": "fig"},
    ]


def test_comms_are_closed_at_once(kernel):
    message = kernel.session.msg("comm_open", {"comm_id": "c", "target_name": "widget", "data": {}})
    kernel.shell_channel.send(message)

    told = until_idle(kernel, message["header"]["msg_id"])

    assert ("comm_close", {"comm_id": "c", "data": {}}) in [(each["msg_type"], each["content"]) for each in told]
    assert kernel.comm_info(reply=True, timeout=30)["content"] == {"status": "ok", "comms": {}}


def until_idle(client, name):
    """What was published for a request."""
    told = []
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == name:
            told.append(message)
            if message["content"].get("execution_state") == "idle":
                return told


# Interrupt, restart, end


def test_an_interrupt_stops_the_cell_and_keeps_the_variables(kernel):
    run(kernel, "x = 20")
    name = kernel.execute("import time\nprint('runs', flush=True)\nwhile True: time.sleep(0.01)")
    while kernel.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass

    kernel.manager.interrupt_kernel()
    told = until_idle(kernel, name)

    assert [each["content"]["ename"] for each in told if each["msg_type"] == "error"] == ["KeyboardInterrupt"]
    assert value(kernel, "x + 1") == "21"


def test_a_restart_of_the_kernel_begins_afresh(kernel):
    run(kernel, "x = 1")

    kernel.manager.restart_kernel()
    kernel.wait_for_ready(timeout=60)
    _, reply = run(kernel, "x")

    assert (reply["ename"], reply["execution_count"]) == ("NameError", 1)


def test_a_process_that_ended_is_replaced_and_files_stay(kernel):
    run(kernel, "x = 1\nopen('kept', 'w').write('here')")
    _, ended = run(kernel, "import os\nos._exit(3)")

    shown, _ = run(kernel, "'x' in globals(), open('kept').read()")

    assert ended["status"] == "error"
    assert dict(shown)["execute_result"]["data"]["text/plain"] == "(False, 'here')"
    assert "this run began in a fresh process" in dict(shown)["stream"]["text"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_kernel_that_is_ended_leaves_no_process(kernel, number):
    mark = f"left-{os.getpid()}-{number}"
    run(kernel, f"import subprocess\nsubprocess.Popen(['bash', '-c', 'exec -a {mark} sleep 600'])")
    assert ends(lambda: is_there(mark))

    os.kill(kernel.manager.provisioner.pid, number)

    assert ends(lambda: not kernel.manager.is_alive())
    assert ends(lambda: not is_there(mark))


def test_a_kernel_ends_with_the_process_that_started_it(tmp_path):
    program = (
        "import sys, time\nfrom jupyter_client.manager import start_new_kernel\n"
        f"manager, client = start_new_kernel(kernel_name={NAME!r})\n"
        "print(manager.provisioner.pid, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        pid = int(starter.stdout.readline())
        starter.kill()

    assert ends(lambda: not os.path.exists(f"/proc/{pid}") or is_zombie(pid))


def is_there(mark):
    """Whether a process of this machine is called so."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            if file.read().startswith(mark.encode()):
                return True
    return False


def is_zombie(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"
    return True


def ends(condition, within_s=20):
    """Whether something becomes true in time."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


# Signatures and connection files


def test_messages_with_a_wrong_signature_and_repeated_ones_are_dropped(kernel):
    session, socket = kernel.session, kernel.shell_channel.socket
    right = session.serialize(session.msg("execute_request", {"code": "print('once')", "allow_stdin": False}))
    wrong = [right[0], b"0" * len(right[1]), *right[2:]]
    changed = [*right[:-1], right[-1].replace(b"once", b"evil")]

    for frames in (wrong, changed, right, right):
        socket.send_multipart(frames)
    run(kernel, "print('last')")
    shown = []
    with contextlib.suppress(queue.Empty):
        while True:
            shown.append(kernel.get_iopub_msg(timeout=1))
    history = kernel.history(hist_access_type="tail", n=10, output=False, raw=True, reply=True, timeout=30)

    assert [each[2] for each in history["content"]["history"]] == ["print('once')", "print('last')"]


def test_the_connection_file_is_a_secret_and_its_ports_are_on_loopback(kernel):
    path = kernel.manager.connection_file
    ports = {kernel.manager.shell_port, kernel.manager.iopub_port}
    listening = {}
    with open("/proc/net/tcp") as file:
        for line in file.readlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            host, port = address.split(":")
            if state == "0A":
                listening[int(port, 16)] = host

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert {listening[port] for port in ports} == {"0100007F"}


@pytest.mark.parametrize(
    ("changes", "mode", "told"),
    [
        ({}, 0o644, "others may read it"),
        ({"key": ""}, 0o600, "has no key"),
        ({"ip": "0.0.0.0"}, 0o600, "is not of this machine's loopback"),
        ({"signature_scheme": "hmac-md5"}, 0o600, "signatures are hmac-"),
        ({"shell_port": 0}, 0o600, "is no connection file"),
    ],
)
def test_connection_files_that_let_others_in_are_refused(tmp_path, changes, mode, told):
    ports = {f"{name}_port": 40000 for name in ("shell", "iopub", "stdin", "control", "hb")}
    path = tmp_path / "kernel.json"
    path.write_text(json.dumps({**ports, "key": "secret", "ip": "127.0.0.1", "transport": "tcp", **changes}))
    path.chmod(mode)

    ran = subprocess.run(
        [sys.executable, "-m", "groundbox", "jupyter", "kernel", "-f", path], capture_output=True, text=True
    )

    assert ran.returncode == 2
    assert told in ran.stderr


def test_a_kernel_over_unix_sockets_works(tmp_path):
    manager = KernelManager(kernel_name=NAME, transport="ipc", ip=str(tmp_path / "socket"))
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)

        assert value(client, "6 * 7") == "42"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
