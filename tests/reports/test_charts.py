"""Charts with error bars are read as charts without."""

import pytest

import groundbox as gb

MIME = "application/vnd.groundbox.chart+json"
START = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\n"
SEGMENTS = "".join(f"ax.plot([{n}, {n}], [{n + 1}, {n + 2}], color='k')\n" for n in range(3))


def _chart(source):
    ran = gb.run(f"{START}{source}\nplt.show()")
    assert ran.ok, ran.error
    return ran.displays[0].data[MIME]


@pytest.mark.parametrize(
    "options",
    ["yerr=[0.1, 0.2, 0.3]", "yerr=0.1, capsize=4", "xerr=0.1, yerr=[[0.1] * 3, [0.2] * 3], capsize=3, ecolor='r'"],
)
def test_bars_with_error_bars_are_bars(options):
    chart = _chart(f"ax.bar(['a', 'b', 'c'], [1, 2, 3], {options})")

    assert chart["type"] == "bar"
    assert [(each["label"], each["value"]) for each in chart["elements"]] == [("a", 1), ("b", 2), ("c", 3)]


def test_horizontal_bars_and_groups_with_error_bars_are_bars():
    lying = _chart("ax.barh(['a', 'b'], [1, 2], xerr=0.2, capsize=2)")
    grouped = _chart(
        "import pandas as pd\n"
        "frame = pd.DataFrame({'p': [1, 2], 'q': [3, 4]}, index=['a', 'b'])\n"
        "frame.plot.bar(ax=ax, yerr=[[0.1, 0.2], [0.3, 0.4]], capsize=2)"
    )

    assert (lying["type"], [each["value"] for each in lying["elements"]]) == ("bar", [1, 2])
    assert grouped["type"] == "bar"
    assert sorted(each["value"] for each in grouped["elements"]) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "options", ["yerr=0.1", "yerr=0.1, xerr=0.2, capsize=4, fmt='o-'", "yerr=[0.1, 0.2, 0.3], fmt='s'"]
)
def test_a_line_with_error_bars_is_a_line_with_its_label(options):
    chart = _chart(
        f"ax.errorbar([1, 2, 3], [4, 5, 6], label='measured', {options})\nax.plot([1, 2, 3], [7, 8, 9], label='b')"
    )

    assert chart["type"] == "line"
    assert {each["label"]: each["points"] for each in chart["elements"]} == {
        "measured": [[1, 4], [2, 5], [3, 6]],
        "b": [[1, 7], [2, 8], [3, 9]],
    }


def test_points_with_error_bars_beside_them_are_points():
    chart = _chart("ax.errorbar([1, 2], [3, 4], yerr=0.1, fmt='none', capsize=3)\nax.scatter([1, 2], [3, 4])")

    assert chart["type"] == "scatter"
    assert chart["elements"][0]["points"] == [[1, 3], [2, 4]]


def test_segments_within_bars_are_their_error_bars_and_a_line_over_them_is_not():
    bars = "ax.bar([0, 1, 2], [1, 2, 3])\n"

    assert _chart(bars + SEGMENTS)["type"] == "bar"
    assert _chart(bars + "ax.plot([0, 1, 2], [1, 2, 3])")["type"] == "unknown"
