from groundbox.agent.outputs import MOST_RUNS, Outputs
from groundbox.sandbox.output import Output


def kept(made, text):
    output = Output(1000)
    output.add(text.encode())
    outputs = Outputs()
    outputs.keep(3, made.execution(stdout=output.text(), outputs={"stdout": output}))
    return outputs


def told(text):
    return text.split("\n")[2:-1]


LINES = "".join(f"line {i}\n" for i in range(1, 100_001))


def test_lines_that_were_cut_are_read_by_their_numbers(made):
    text = kept(made, LINES).read("3.stdout", lines="50000-50002")

    assert text.startswith("lines 50000 to 50002 of 100000\n<output ")
    assert told(text) == ["line 50000", "line 50001", "line 50002"]


def test_lines_are_found_by_words(made):
    outputs = kept(made, LINES + "ERROR at 7\nerror later: at 8\n")

    assert told(outputs.read("3.stdout", pattern="error*8|LINE 99999")) == [
        "99999: line 99999",
        "100002: error later: at 8",
    ]


def test_a_pattern_is_no_expression(made):
    outputs = kept(made, "a" * 50_000 + "\n(a+)+$ is here\n")

    assert told(outputs.read("3.stdout", pattern="(a+)+$")) == ["2: (a+)+$ is here"]


def test_more_matches_than_are_shown_are_counted(made):
    text = kept(made, LINES).read("3.stdout", pattern="line", max_tokens=500)

    assert text.startswith("100000 lines have it, the first 100 of them\n")


def test_what_is_read_is_within_the_tokens_too(made):
    text = kept(made, "x" * 900_000).read("3.stdout", max_tokens=500)

    assert len(text.encode()) <= 1500


def test_what_is_not_there_is_told(made):
    outputs = kept(made, LINES)

    assert "Held are the outputs of runs: 3." in outputs.read("9.stdout")
    assert "no such run" in outputs.read("x")
    assert "parts of a run are" in outputs.read("3.trace")
    assert "parts of a run are" in outputs.read("3.value")
    assert "counted from 1" in outputs.read("3.stdout", lines="from 3")
    assert outputs.read("3.stdout", lines="900000") == "There are 100000 lines; none from 900000."
    assert outputs.read("3.stdout", pattern="nowhere") == "No line has it."
    assert "words to be found" in outputs.read("3.stdout", pattern="|*")


def test_old_runs_are_let_go(made):
    outputs = Outputs()
    for number in range(MOST_RUNS + 1):
        outputs.keep(number, made.execution(stdout="x"))

    assert "no such run" in outputs.read("0.stdout")
    assert told(outputs.read("1.stdout")) == ["x"]
