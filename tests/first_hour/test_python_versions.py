"""What a user meets whose sandboxes run another Python than the newest: here, that of the environment `default`."""

import groundbox as gb

DOUBLED_KEYS = """\
import pandas as pd
orders = pd.DataFrame({"customer": [1, 1, 2], "paid": [10, 20, 30]})
customers = pd.DataFrame({"customer": [1, 1, 2], "name": ["A", "A", "B"]})
print(orders.merge(customers).paid.sum())
"""


def test_a_user_who_asks_for_checks_gets_them_with_whatever_python_the_sandbox_runs():
    execution = gb.run(DOUBLED_KEYS, checks=True)

    assert execution.stdout == "90\n"
    assert [warning.code for warning in execution.warnings] == ["pandas.merge_multiplied"]
