"""Programs run again under other circumstances."""

import datetime

import pytest

import groundbox as gb
from groundbox.check import check_determinism
from groundbox.check.determinism import _knows_of_time, _shuffle, _zone_of_another_day
from groundbox.errors import InvalidArgument

pytestmark = pytest.mark.slow

ORDERS = "id,customer,amount\n1,ann,10\n2,bob,30\n3,cid,30\n4,dan,5\n5,eve,7\n"


def codes(warnings):
    return [warning.code for warning in warnings]


def test_a_program_that_depends_on_nothing_else_has_no_warning():
    source = "import pandas as pd\ndf = pd.read_csv('o.csv')\nprint(df.amount.sum(), sorted(set(df.customer)))"

    assert check_determinism(source, files={"o.csv": ORDERS}, runs=2) == []


def test_the_order_of_a_set_varies_with_the_hash_seed():
    (warning,) = check_determinism("print('first')\nprint(list({'ann', 'bob', 'cid', 'dan', 'eve'}))")

    assert warning.code == "determinism.hash_seed"
    assert warning.evidence["outputs"] == ["line 2 of stdout"]
    assert warning.message.startswith("with another seed of string hashing, line 2 of stdout varies: \"['")


@pytest.mark.parametrize("draw", ["__import__('random').random()", "__import__('numpy').random.rand()"])
def test_chance_varies_with_the_random_seed_only(draw):
    (warning,) = check_determinism(draw)

    assert (warning.code, warning.evidence["outputs"]) == ("determinism.random_seed", ["value"])


def test_the_winner_of_a_tie_varies_with_the_order_of_rows():
    source = "import pandas as pd\ndf = pd.read_csv('o.csv')\nprint(df.loc[df.amount.idxmax(), 'customer'])"

    warnings = check_determinism(source, files={"o.csv": ORDERS}, runs=3)

    assert codes(warnings) == ["determinism.row_order"]
    assert warnings[0].message.endswith("varies: 'bob' became 'cid'")


def test_the_clock_varies_without_any_change_and_is_not_blamed_on_others():
    warnings = check_determinism("import time, random\nprint(time.time_ns())\nprint(random.random())")

    assert codes(warnings) == ["determinism.clock", "determinism.random_seed"]
    assert [warning.evidence["outputs"] for warning in warnings] == [["line 1 of stdout"], ["line 2 of stdout"]]


@pytest.mark.parametrize(
    "source",
    [
        "import datetime\nprint('first')\nprint(datetime.date.today())",
        "import pandas as pd\nprint('first')\nprint(pd.Timestamp.today().date())",
        "import time\nprint('first')\nprint(time.strftime('%d %H', time.localtime(0)))",
        "import subprocess\nprint('first')\nprint(subprocess.check_output(['date', '+%d'], text=True))",
    ],
)
def test_the_date_of_today_varies_with_the_time_zone(source):
    (warning,) = check_determinism(source, runs=2)

    assert (warning.code, warning.evidence["outputs"]) == ("determinism.time_zone", ["line 2 of stdout"])
    assert warning.evidence["runs"] == 1


def test_times_whose_zone_is_said_do_not_vary():
    source = "from datetime import datetime, timezone\nprint(datetime.fromtimestamp(0, timezone.utc).isoformat())"

    assert check_determinism(source) == []


def test_only_what_may_ask_for_the_time_is_run_in_another_zone():
    assert not _knows_of_time("print(sum(range(9)))", {"data.csv": b"date"})
    assert _knows_of_time("import helper", {"helper.py": b"from datetime import date"})


@pytest.mark.parametrize("later_m", [0, 59])
def test_it_is_another_day_in_the_other_zone_than_it_was_when_that_was_asked(later_m):
    ahead = {"<+14>-14": 14, "<-12>12": -12}
    start = datetime.datetime(2024, 2, 28, tzinfo=datetime.UTC)

    for minute in range(24 * 60):
        asked = start + datetime.timedelta(minutes=minute)
        run = asked + datetime.timedelta(minutes=later_m)
        there = run + datetime.timedelta(hours=ahead[_zone_of_another_day(asked)])
        assert there.date() != asked.date()


def test_artifacts_are_told_by_path():
    source = "import random\nopen('out.txt', 'w').write(str(random.random()))\nprint(1)"

    assert [warning.evidence["outputs"] for warning in check_determinism(source)] == [["artifact 'out.txt'"]]


def test_the_last_digits_of_a_sum_may_differ():
    rows = "".join(f"{number / 7}\n" for number in range(200))
    source = "print(sum(float(line) for line in list(open('n.csv'))[1:]))"

    assert check_determinism(source, files={"n.csv": f"x\n{rows}"}, runs=2) == []


def test_a_program_that_fails_in_another_order_varies_in_its_outcome():
    source = "rows = open('n.csv').read().split()\nassert rows[1] == '1'\nprint('ok')"

    (warning,) = check_determinism(source, files={"n.csv": "x\n1\n2\n3\n4\n"}, runs=2)

    assert warning.code == "determinism.row_order"
    assert "outcome" in warning.evidence["outputs"]


def test_the_same_question_gets_the_same_answer_word_by_word():
    source = "print({'ann', 'bob', 'cid', 'dan'}, __import__('random').random())"

    assert check_determinism(source, runs=2) == check_determinism(source, runs=2)


def test_a_call_is_checked_too():
    warnings = check_determinism(
        "import random\ndef f(n):\n    return random.randrange(10 ** n)", mode="call", call="f", args=[9]
    )

    assert codes(warnings) == ["determinism.random_seed"]


def test_a_program_that_fails_is_not_compared():
    assert check_determinism("1 / 0") == []


def test_rows_are_shuffled_beneath_the_header_and_whole():
    data = b'a,b\r\n1,"x\r\ny"\r\n2,z\r\n3,w'

    shuffled = _shuffle(data, 1)

    assert shuffled != data
    assert shuffled.startswith(b"a,b\r\n")
    assert not shuffled.endswith(b"\n")
    assert b'1,"x\r\ny"' in shuffled
    assert sorted(shuffled) == sorted(data)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mode": "script"}, "mode: must be 'cell' or 'call'"),
        ({"runs": 0}, "runs: must be a whole number from 1 to 10"),
        ({"runs": True}, "runs: must be"),
        ({"hash_seed": 1}, "hash_seed: is what is changed here"),
    ],
)
def test_arguments_that_cannot_be_meant(options, match):
    with pytest.raises(InvalidArgument, match=match):
        check_determinism("1", **options)


def test_limits_are_those_of_the_caller():
    assert check_determinism("while True: pass", limits=gb.Limits(wall_s=0.3)) == []
