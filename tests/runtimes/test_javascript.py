"""JavaScript: what a cell is, what is said about its errors, and the process that keeps its state."""

import json
import subprocess
import sys

import pytest

from groundbox import InvalidArgument, Limits, Outcome, Sandbox, run
from groundbox.sandbox import languages

pytestmark = pytest.mark.skipif(
    languages.missing("javascript") is not None, reason=str(languages.missing("javascript"))
)


@pytest.fixture
def box():
    with Sandbox(profile="node") as made:
        yield made


def js(box, source, **options):
    return box.run(source, language="javascript", **options)


VALUES = {
    "1 + 1": ("2", 2),
    "let a = 1; a": ("1", 1),
    "({ a: [1, 'b'], c: null })": ("{ a: [ 1, 'b' ], c: null }", {"a": [1, "b"], "c": None}),
    "{ a: 1 }": ("{ a: 1 }", {"a": 1}),
    "{ 3 };": ("3", 3),
    "await new Promise(resolve => setTimeout(resolve, 5, 'late'))": ("'late'", "late"),
    "(await import('node:os')).EOL": (r"'\n'", "\n"),
    "require('node:path').join('a', 'b')": ("'a/b'", "a/b"),
    "Buffer.from('a') instanceof Uint8Array": ("true", True),
    "'import(1) `'": ("'import(1) `'", "import(1) `"),
    r"'\ud800'": (r"'\ud800'", "?"),
}
NO_DATA = {
    "10n": "10n",
    "new Map([[1, 2]])": "Map(1) { 1 => 2 }",
    "NaN": "NaN",
    "[undefined]": "[ undefined ]",
    "new Date(0)": "1970-01-01T00:00:00.000Z",
    "const o = {}; o.o = o; o": "<ref *1> { o: [Circular *1] }",
    "new Proxy({}, { ownKeys() { throw 1 } })": "{}",
}


@pytest.mark.parametrize("source", VALUES)
def test_the_last_expression_is_the_value_as_text_and_as_data(box, source):
    execution = js(box, source)

    assert execution.error is None
    assert (execution.text, execution.value["application/json"]) == VALUES[source]


@pytest.mark.parametrize("source", NO_DATA)
def test_what_is_no_data_is_text_only(box, source):
    assert js(box, source).value == {"text/plain": NO_DATA[source]}


@pytest.mark.parametrize("source", ["undefined", "const n = 1", "function f() {}", "if (false) 1"])
def test_a_cell_without_a_value_has_none(box, source):
    assert js(box, source).value is None


def test_a_name_may_be_declared_again_by_a_later_cell(box):
    js(box, "let a = 1; const b = 2; class C {}; function f() { return a + b }")

    assert js(box, "let a = 10; const b = 20; class C {}; f()").text == "30"


@pytest.mark.parametrize(
    ("statement", "expression"),
    [
        ("import os from 'node:os';", "typeof os.EOL"),
        ('import * as path from "path"', "typeof path.sep"),
        ("import { sep, join as glue } from 'node:path'", "typeof sep + typeof glue"),
        ("import fs, {\n  readFileSync,\n} from 'node:fs';", "typeof fs.statSync + typeof readFileSync"),
        ("import 'node:os'", "1"),
    ],
)
def test_modules_are_imported_by_statements(box, statement, expression):
    imported = js(box, f"{statement}\nnull.x")

    assert (imported.error.type, imported.error.line) == ("TypeError", statement.count("\n") + 2)
    assert js(box, expression).text in ("'string'", "'stringfunction'", "'functionfunction'", "1")


ERRORS = {
    "let q = 1\n\nthrow new TypeError('bad')": ("TypeError", "bad", 3, 7),
    "function f() {\n  null.x\n}\nf()": ("TypeError", "Cannot read properties of null (reading 'x')", 2, 8),
    "let a\nlet b = 3 3": ("SyntaxError", "Unexpected number", 2, 11),
    "JSON.parse('{')": ("SyntaxError", None, 1, 6),
    "throw 5": ("Uncaught", "5", None, None),
    "Promise.reject(new RangeError('q'))": ("RangeError", "q", 1, 16),
    "await Promise.reject(new RangeError('q'))": ("RangeError", "q", 1, 22),
    "{ a: missing }": ("ReferenceError", "missing is not defined", 1, 6),
    "class Own extends Error { name = 'Own' }\nthrow new Own('x')": ("Own", "x", 2, 7),
    "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('shy') } })": ("Error", "shy", 1, None),
}


@pytest.mark.parametrize("source", ERRORS)
def test_an_error_has_the_place_in_the_cell(box, source):
    error = js(box, source).error

    kind, message, line, column = ERRORS[source]
    assert (error.type, error.line) == (kind, line)
    assert column is None or error.column == column
    assert message is None or error.message == message
    assert "node:" not in error.traceback
    assert "[eval]" not in error.traceback


def test_an_error_in_an_earlier_cells_function_is_at_the_line_that_called_it(box):
    js(box, "\n\nfunction f() { null.x }")

    error = js(box, "1\nf()").error

    assert error.line == 2
    assert error.traceback.splitlines()[1:] == ["    at f (cell-1.js:3:21)", "    at cell-2.js:2:1"]


def test_an_error_between_cells_is_printed_and_loses_nothing(box):
    js(box, "let kept = 1; setTimeout(() => { throw new Error('late') }, 500); 0")
    printed = ""
    for _ in range(100):
        if printed := box.run("import time; time.sleep(0.2)").stderr:
            break

    assert printed.splitlines()[:1] == ["Uncaught Error: late"]
    assert js(box, "kept").text == "1"


def test_an_error_outside_of_any_call_fails_the_cell_that_runs(box):
    execution = js(box, "setTimeout(() => null.x, 1); await new Promise(done => setTimeout(done, 200))")

    assert (execution.outcome, execution.error.type, execution.error.line) == (Outcome.ERROR, "TypeError", 1)


def test_console_writes_to_the_streams(box):
    execution = js(box, "console.log('out', {a: 1}); console.error('err')")

    assert (execution.stdout, execution.stderr) == ("out { a: 1 }\n", "err\n")


def test_a_picture_can_be_displayed(box):
    execution = js(box, "display({ 'image/png': Buffer.from('\\x89PNG', 'latin1').toString('base64') }); display([1])")

    assert execution.displays[0].png == b"\x89PNG"
    assert execution.displays[1].data == {"text/plain": "[ 1 ]", "application/json": [1]}


def test_the_deadline_interrupts_and_keeps_the_variables(box):
    js(box, "let kept = 7")

    for source in ("while (true) {}", "await new Promise(() => {})", "require('child_process').execSync('sleep 600')"):
        execution = js(box, source, wall_s=0.7)
        assert (execution.outcome, list(execution.warnings)) == (Outcome.TIMEOUT, [])

    assert js(box, "kept").text == "7"


def test_a_loop_after_an_await_is_ended_and_only_javascripts_variables_are_lost(box):
    box.run("kept = 1")

    execution = js(box, "await 1; while (true) {}", wall_s=0.7)

    assert execution.outcome is Outcome.TIMEOUT
    assert [warning.code for warning in execution.warnings] == ["session.state_lost"]
    assert (box.run("kept").text, js(box, "1").text) == ("1", "1")


@pytest.mark.parametrize(
    ("source", "code", "number"),
    [
        ("process.exit(3)", 3, None),
        ("process.exit(0)", 0, None),
        ("process.kill(process.pid, 'SIGKILL')", None, 9),
        ("process.abort()", None, 6),
    ],
)
def test_the_end_of_the_process_is_told_and_the_sandbox_goes_on(box, source, code, number):
    execution = js(box, source + "; await new Promise(() => {})")

    assert (execution.exit_code, execution.exit_signal, execution.state) == (code, number, "kept")
    assert [warning.code for warning in execution.warnings] == ["session.state_lost"]
    assert js(box, "6 * 7").text == "42"


def test_an_end_between_two_cells_is_told_by_the_next(box):
    js(box, "setTimeout(() => process.exit(), 1); 0")
    box.run("import time; time.sleep(0.3)")

    execution = js(box, "1")

    assert (execution.text, [warning.code for warning in execution.warnings]) == ("1", ["session.state_lost"])


def test_the_variables_outlive_programs_of_other_languages(box):
    js(box, "let kept = 5")
    box.run("print(1)", mode="script")
    box.run("sleep 60 & true", language="shell")

    assert js(box, "kept").text == "5"
    seen = box.run("ls /proc > seen; grep -c '^[0-9]' seen", language="shell")
    assert seen.stdout == "4\n"  # the first process, Node, bash, ls


FORGED = {
    "no JSON": "not json\n",
    "no object": "[1]\n",
    "no number": '{"ev": "done", "id": NaN}\n',
    "nested too deeply for us": "[" * 100_000 + "\n",
    "nested too deeply for the host": '{"ev": "display", "data": {"a/b": ' + "[" * 60 + "]" * 60 + "}}\n",
    "a number that is too large": '{"ev": "display", "data": {"a/b": 1e999}}\n',
}


@pytest.mark.parametrize("name", FORGED)
def test_what_the_process_says_against_the_protocol_ends_it_alone(box, name):
    execution = js(box, f"require('fs').writeSync(3, {json.dumps(FORGED[name])}); await new Promise(() => {{}})")

    assert execution.error.type == "ProtocolViolation"
    assert (js(box, "1").text, box.run("1").text) == ("1", "1")


def test_what_the_process_says_without_end_is_cut_off(box):
    source = "const b = Buffer.alloc(1 << 20, 32); for (;;) { try { require('fs').writeSync(3, b) } catch {} }"

    execution = js(box, source)

    assert execution.error.type == "ProtocolViolation"
    assert execution.error.message == "it sent more than 16777216 bytes at once"


def test_an_answer_of_wrong_types_is_taken_for_what_it_is(box):
    answer = '{"ev": "done", "id": ID, "ok": "yes", "value": [1], "error": {"type": 5}}\n'

    execution = js(
        box, f"for (let i = 0; i < 50; i++) require('fs').writeSync(3, {json.dumps(answer)}.replace('ID', i))"
    )

    assert (execution.outcome, execution.value, execution.error.type) == (Outcome.ERROR, None, "SystemExit")


def test_a_script_tells_its_error():
    execution = run("let x = 1;\n\n  null.x", language="javascript", mode="script")

    error = execution.error
    assert (error.type, error.line, error.column) == ("TypeError", 3, 8)
    assert error.message == "Cannot read properties of null (reading 'x')"


@pytest.mark.parametrize("source", ["import os from 'node:os'\nawait 1\nconsole.log(typeof os.EOL)", "await 1"])
def test_a_script_with_import_statements_is_a_module(source):
    assert run(source, language="javascript", mode="script").error is None


def test_a_script_finds_what_lies_beside_it(box):
    box.files.write("tool.js", "exports.name = 'tool'")

    execution = js(box, "console.log(require('./tool').name, __dirname)", mode="script")

    assert execution.stdout == "tool /box/work\n"


def test_a_package_is_not_there_and_the_hint_says_so(box):
    assert js(box, "require('lodash')").error.hints == (
        "There is no npm here: Node's own modules and files of the workdir can be loaded.",
    )


def test_a_cell_takes_no_arguments(box):
    with pytest.raises(InvalidArgument, match="mode='script'"):
        js(box, "1", argv=["a"])


def test_a_pooled_sandbox_has_the_process_already():
    with Sandbox(profile="node") as box:
        becoming = "while not (line := open('/proc/2/cmdline').read()): pass"  # its exec may not be through
        waiting = box.run(f"{becoming}\nline[:5]").text

        assert (waiting, js(box, "process.pid").text) == (repr("node\0"), "2")


def test_only_cells_have_a_process_wait_for_them():
    chosen = [languages.profile_for("javascript", "1", mode) for mode in (None, "cell", "script")]

    assert chosen == ["node", "node", "bare"]


def test_threads_of_node_work(box):
    source = """
    const { Worker } = require('node:worker_threads');
    await new Promise(done => new Worker('require("worker_threads").parentPort.postMessage(6 * 7)', { eval: true })
      .on('message', done))
    """
    assert js(box, source).text == "42"


def test_too_few_processes_for_node_are_an_outcome():
    with Sandbox(profile="bare", limits=Limits(process_count=4, wall_s=5)) as box:
        execution = js(box, "1")

        assert not execution.ok
        assert box.run("1").text == "1"


def test_a_full_heap_is_told(box):
    source = """
    const { signal } = require('child_process').spawnSync(process.execPath, ['--max-old-space-size=20', '-e',
      'const all = []; while (true) all.push(new Array(1000).fill({}))'], { stdio: 'inherit' });
    process.kill(process.pid, signal)
    """

    execution = js(box, source, mode="script")

    assert (execution.outcome, execution.exit_signal) == (Outcome.SIGNAL, 6)
    assert execution.error.hints == ("Node ended itself at the limit of its heap: work on the data in pieces.",)


def test_all_that_a_cell_wrote_is_there_when_it_is_done(box):
    for _ in range(3):
        execution = js(box, "console.log('x'.repeat(300_000)); console.error('y'.repeat(300_000)); 1")

        lengths = [len(execution.outputs[name].read()) for name in ("stdout", "stderr")]
        assert (lengths, execution.text) == ([300_001, 300_001], "1")


def test_a_script_that_imitates_nodes_last_words_keeps_its_result():
    source = "process.stderr.write('Node.js v1\\n/x/main.js:1\\n'); process.exitCode = 1"

    execution = run(source, language="javascript", mode="script")

    assert (execution.outcome, execution.exit_code) == (Outcome.ERROR, 1)
    assert execution.stderr == "Node.js v1\n/x/main.js:1\n"


def test_the_code_of_node_is_memory_of_the_host_and_not_of_the_first_guest_that_runs_it(box):
    """Else a run that comes to `memory_bytes` reads it again and again up to `wall_s`, and is told as a timeout."""
    if "cgroup" not in box.run("1").isolation.layers:
        pytest.skip("there are no control groups here")
    code = """import os, shutil
node = os.open(shutil.which("node"), os.O_RDONLY)
os.posix_fadvise(node, 0, 0, os.POSIX_FADV_DONTNEED)
import groundbox as gb
told = gb.run("1", language="javascript", mode="script").usage.peak_memory_bytes
print(told, os.fstat(node).st_size)"""
    peak, size = map(int, subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split())

    if size < 50 << 20:
        pytest.skip("the code of this node lies in libraries, or is small")
    assert peak < size // 3
