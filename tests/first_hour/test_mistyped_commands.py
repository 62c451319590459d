"""A command or an option that there is not: what was meant is named, by its meaning or its spelling."""

import pytest

MISTYPED = {
    "run --mem 512 x.py": "No such option: --mem; did you mean `--memory-mib`?",
    "run --memory_limit 512 x.py": "No such option: --memory_limit; did you mean `--memory-mib`?",
    "run --timeout 5 x.py": "No such option: --timeout; did you mean `--wall-s`?",
    "run --wal-s 5 x.py": "No such option: --wal-s; did you mean `--wall-s`?",
    "run --network x.py": "No such option: --network; did you mean `--allow-host`?",
    "run --lang sh x.py": "No such option: --lang; did you mean `--language`?",
    "run --output d x.py": "No such option: --output; did you mean `--out`?",
    "run -o d x.py": "No such option: -o; did you mean `--out`?",
    "run --code 1": "No such option: --code; did you mean `-c`?",
    "run --memroy 5 x.py": "No such option: --memroy; did you mean `--memory-mib`?",
    "run x.py --args 1": "No such option: --args; what the program is given comes last, after --",
    "run --zzz": "No such option: --zzz",
    "run --with altair x.py": "No such option: --with; did you mean `--environment`?",
    "run --unsafe x.py": "No such option: --unsafe",
    "run --add-file f x.py": "No such option: --add-file; did you mean `--file`?",
    "run --in f x.py": "No such option: --in; did you mean `--stdin`?",
    "run --model m x.py": "No such option: --model; "
    "it belongs to `groundbox ask` or `groundbox train` or `groundbox serve`",
    "ask --base-url u q": "No such option: --base-url; did you mean `--endpoint`?",
    "ask --llm m q": "No such option: --llm; did you mean `--model`?",
    "ask --max-steps 4 q": "No such option: --max-steps; did you mean `--max-turns`?",
    "ask --page p q": "No such option: --page; did you mean `--html`?",
    "ask --database d q": "No such option: --database; did you mean `--db`?",
    "trace --output o x.py": "No such option: --output; did you mean `--html` or `--json`?",
    "mcp --input f": "No such option: --input; did you mean `--file`?",
    "a2a --bind a": "No such option: --bind; did you mean `--host`?",
    "doctor --fix": "No such option: --fix; did you mean `--delegate`?",
    "dataset build --count 3": "No such option: --count; it belongs to `groundbox dataset generate`",
    "dataset build --colour 3": "No such option: --colour",
    "dataset build --input f": "No such option: --input; did you mean `--problems`?",
    "environment create plots --package altair": "No such option: --package; did you mean `--requirement`?",
    "environment create plots --base default": "No such option: --base; did you mean `--from`?",
    "repl --envirnment plots": "No such option: --envirnment; did you mean `--environment`?",
    "mcp --timeout 5": "No such option: --timeout; did you mean `--wall-s`?",
    "-c 1": "No such option: -c; it belongs after the command, as in `groundbox run -c …`",
    "--timeout 5 run x.py": "No such option: --timeout; it belongs after the command, as in `groundbox run --wall-s …`",
    "exec x.py": "No such command: exec; did you mean `groundbox run`?",
    "shell": "No such command: shell; did you mean `groundbox repl`?",
    "pyhton x.py": "No such command: pyhton; did you mean `groundbox run`?",
    "doctr": "No such command: doctr; did you mean `groundbox doctor`?",
    "server": "No such command: server; did you mean `groundbox serve`?",
    "report.py": "No such command: report.py; did you mean `groundbox run report.py`?",
    "help": "No such command: help; write `groundbox --help`",
    "dataset make": "No such command: make; did you mean `groundbox dataset build`?",
    "dataset create": "No such command: create; did you mean `groundbox dataset build`?",
    "environment rm plots": "No such command: rm; did you mean `groundbox environment remove`?",
    "environment install altair": "No such command: install; did you mean `groundbox environment add`?",
    "pip install altair": "No such command: pip; did you mean `groundbox environment add`?",
    "verify demo": "No such command: verify; did you mean `groundbox dataset verify`?",
    "rnu x.py": "No such command: rnu; did you mean `groundbox run`?",
    "version": "No such command: version; write `groundbox --version`",
    "stop": "No such command: stop; did you mean `groundbox engine stop`?",
    "finish": "No such command: finish; there is: run, repl, ask, trace, prove, dataset, train, eval, serve, gateway, "
    "fleet, engine, mcp, a2a, jupyter, languages, environment, doctor, bench",
    "environment new plots": "No such command: new; did you mean `groundbox environment create`?",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_what_was_meant_is_named(called, line):
    code, text = called(*line.split())

    assert (code, text.splitlines()[-1]) == (2, f"Error: {MISTYPED[line]}")


def test_an_unknown_command_like_no_other_lists_those_there_are(called):
    _, text = called("zzz")

    assert text.endswith("Error: No such command: zzz; there is: " + text.rpartition("there is: ")[2])
    assert "run, repl, ask" in text


@pytest.mark.parametrize("words", [(), ("run",), ("repl",), ("mcp",), ("dataset",), ("dataset", "build"), ("doctor",)])
def test_h_is_help(called, words):
    assert called(*words, "-h") == called(*words, "--help")


@pytest.fixture
def called(capsys, monkeypatch):
    """The command line in this process: exit status, and all that it writes."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words):
        from groundbox.cli.main import main

        with pytest.raises(SystemExit) as left:
            main(words)
        out, err = capsys.readouterr()
        return left.value.code, (out + err).rstrip("\n")

    return call
