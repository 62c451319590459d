"""Programs written for other interpreters find the workdir at /mnt/data, and hear of files that they left elsewhere."""

import pytest

import groundbox as gb


@pytest.fixture(scope="module")
def box():
    with gb.Sandbox() as box:
        box.files.write("sales.csv", "region,sum\nnorth,3\n")
        yield box


@pytest.mark.parametrize(
    ("language", "source", "made"),
    [
        ("python", "import pandas as pd\npd.read_csv('/mnt/data/sales.csv').to_csv('/mnt/data/py.csv')", "py.csv"),
        ("bash", "cp /mnt/data/sales.csv /mnt/data/sh.csv", "sh.csv"),
        ("sql", "COPY (SELECT * FROM '/mnt/data/sales.csv') TO '/mnt/data/sql.csv'", "sql.csv"),
        ("js", "const fs = require('fs'); fs.copyFileSync('/mnt/data/sales.csv', '/mnt/data/js.csv')", "js.csv"),
    ],
)
def test_a_program_reads_and_writes_in_mnt_data(box, language, source, made):
    execution = box.run(source, language=language)

    assert execution.error is None
    assert (list(execution.artifacts), list(execution.warnings)) == ([made], [])
    assert b"north" in box.files.read(f"/mnt/data/{made}")


def test_a_file_is_put_where_the_program_will_look(box):
    box.files.write("/mnt/data/in/put.txt", "x")

    assert box.run("open('in/put.txt').read() + open('/work/in/put.txt').read()").text == "'xx'"


@pytest.mark.parametrize("folder", ["/home/user", "/workspace", "/app"])
def test_the_workdir_is_where_programs_for_other_sandboxes_have_it(box, folder):
    box.files.write(f"{folder}/put.txt", "x")

    kept = box.run(f"open('{folder}/put.txt').read() + open('/mnt/data/put.txt').read()").text
    made = box.run(f"mkdir -p {folder}/sub && cd {folder} && pwd && touch sub/made", language="shell")

    assert kept == "'xx'"
    assert (made.stdout, box.files.read("sub/made")) == (f"{folder}\n", b"")


@pytest.mark.parametrize("path", ["/mnt/data/../x", "/mnt/other", "/mnt/data/", "/mnt/database.csv"])
def test_mnt_data_leads_nowhere_else(box, path):
    with pytest.raises(gb.GroundboxError):
        box.files.read(path)


def test_a_report_left_at_home_is_told_once(box):
    source = (
        "import os, tempfile\nopen(os.path.expanduser('~/report.csv'), 'w').write('x')\n"
        "os.makedirs('/tmp/outputs', exist_ok=True)\nopen('/tmp/outputs/plot.png', 'w').write('x')\n"
        "kept = tempfile.NamedTemporaryFile('w', suffix='.csv'); kept.write('x'); kept.flush()\n"
        "open('/tmp/lock', 'w').write('x'); open('/tmp/empty.csv', 'w').close(); open('here.csv', 'w').write('x')"
    )

    first, second = box.run(source), box.run("open('/tmp/report.csv').read()")

    assert [(each.code, each.tier, each.message) for each in first.warnings] == [
        (
            "run.file_outside",
            "note",
            "'/tmp/outputs/plot.png', '/tmp/report.csv' lie outside the working directory, whose files alone are kept "
            "as results",
        )
    ]
    assert first.warnings[0].hint == "Write to the working directory, by a relative path such as 'plot.png'."
    assert (second.text, list(second.warnings)) == ("'x'", [])


def test_a_script_and_a_shell_are_told_as_well():
    script = gb.run("open('/tmp/a.json', 'w').write('1')", mode="script")
    shell = gb.run("echo 1 > ~/b.txt", language="bash")

    assert ["'/tmp/a.json' lies" in script.warnings[0].message, "'/tmp/b.txt' lies" in shell.warnings[0].message] == [
        True,
        True,
    ]


def test_many_files_or_strange_names_outside_make_no_long_story():
    source = (
        "for n in range(3000): open(f'/tmp/{n}.csv', 'w').write('x')\nopen('/tmp/a\\x1b[2J\\n.csv', 'w').write('x')"
    )

    (warning,) = gb.run(source).warnings

    assert len(warning.evidence["paths"]) == 10
    assert warning.message.isprintable()
