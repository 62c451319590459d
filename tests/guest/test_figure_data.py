"""Numbers of matplotlib's figures, beside their pictures."""

import pytest

MIME = "application/vnd.groundbox.chart+json"
IMPORTS = "import datetime, numpy as np, matplotlib.pyplot as plt\n"
NO_LABELS = {"x_label": None, "x_unit": None, "y_label": None, "y_unit": None}


@pytest.fixture
def charts(run_cells):
    """The charts of the displays of one cell each, by one process."""

    def told(*sources):
        ran = run_cells(*(IMPORTS + each for each in sources), needs=("matplotlib",))
        assert [result["error"] for result in ran.results] == [None] * len(sources)
        assert ran.stderr == ""
        return [[event["data"].get(MIME) for event in events] for events in ran.displays]

    return told


def test_lines_tell_their_points_ticks_scales_and_units(charts):
    [[log], [dates], [words]] = charts(
        "plt.plot([1, 10, float('nan')], [10, 1000, 5], label='y')\nplt.yscale('log')\nplt.title('T')\n"
        "plt.xlabel('Time (s)')\nplt.ylabel('f(x) [kg]')\nplt.axhline(3)\nplt.xticks([1, 10], ['one', 'ten'])",
        "plt.plot([datetime.date(2024, 1, 1), datetime.date(2024, 1, 3)], [1, 2])",
        "plt.plot([1, 2], ['A', 'B'])",
    )

    ticks = log.pop("y_ticks"), log.pop("y_tick_labels")
    assert log == {
        "type": "line",
        "title": "T",
        "x_label": "Time (s)",
        "x_unit": "s",
        "y_label": "f(x) [kg]",
        "y_unit": "kg",
        "x_ticks": [1.0, 10.0],
        "x_tick_labels": ["one", "ten"],
        "x_scale": "linear",
        "y_scale": "log",
        "elements": [{"label": "y", "points": [[1.0, 10.0], [10.0, 1000.0], [None, 5.0]]}],
    }
    assert len(ticks[0]) == len(ticks[1]) > 0
    assert (dates["x_scale"], dates["x_ticks"][0]) == ("datetime", "2024-01-01T00:00:00")
    assert dates["elements"] == [{"label": "Line 0", "points": [["2024-01-01", 1.0], ["2024-01-03", 2.0]]}]
    assert (words["x_scale"], words["y_scale"], words["y_tick_labels"]) == ("linear", "categorical", ["A", "B"])
    assert words["elements"][0]["points"] == [[1.0, "A"], [2.0, "B"]]


def test_bars_have_the_names_below_them_also_where_they_stand_in_groups_or_lie(charts):
    [[grouped], [lying], [binned]] = charts(
        "at = np.arange(2)\nplt.bar(at - .2, [1, 2], .4, label='m')\nplt.bar(at + .2, [3, 4], .4)\n"
        "plt.xticks(at, ['a', 'b'])",
        "plt.barh(['a', 'b'], [-1, 2])\nplt.xlabel('long (m)')",
        "plt.hist([1, 1, 2], bins=[0.5, 1.5, 2.5])",
    )

    assert grouped == {
        "type": "bar",
        "title": None,
        **NO_LABELS,
        "elements": [
            {"label": "a", "group": "m", "value": 1.0},
            {"label": "b", "group": "m", "value": 2.0},
            {"label": "a", "group": "Group 1", "value": 3.0},
            {"label": "b", "group": "Group 1", "value": 4.0},
        ],
    }
    assert (lying["orientation"], lying["x_label"], lying["y_label"], lying["y_unit"]) == (
        *("horizontal", None, "long (m)", "m"),
    )
    assert [(each["label"], each["value"]) for each in lying["elements"]] == [("a", -1.0), ("b", 2.0)]
    assert [(each["label"], each["value"]) for each in binned["elements"]] == [("1", 2.0), ("2", 1.0)]


@pytest.mark.parametrize("form", ["patch_artist=True", "", "orientation='horizontal'"])
def test_boxes_tell_quartiles_whiskers_and_outliers(charts, form):
    [[chart]] = charts(
        "plt.boxplot([[85, 90, 78, 92, 88], [95, 89, 76, 91, 84, 87, 10]], "
        f"tick_labels=['A', 'B'], {form or 'notch=False'})"
    )

    assert (chart["type"], chart.get("orientation")) == (
        "box_and_whisker",
        "horizontal" if "horizontal" in form else None,
    )
    assert chart["elements"] == [
        {"label": "A", "min": 78.0, "first_quartile": 85.0, "median": 88.0}
        | {"third_quartile": 90.0, "max": 92.0, "outliers": []},
        {"label": "B", "min": 76.0, "first_quartile": 80.0, "median": 87.0}
        | {"third_quartile": 90.0, "max": 95.0, "outliers": [10.0]},
    ]


def test_pies_clouds_and_several_axes_are_told(charts):
    [[pie], [several], [unknown], [picture]] = charts(
        "plt.pie([90, 10], labels=['No', ''])",
        "fig, (a, b, c) = plt.subplots(1, 3)\nfig.suptitle('S')\n"
        "a.scatter([1, 2], [3, np.nan], label='d')\nb.plot([1, 2])\n"
        "fig.colorbar(a.collections[0], ax=a)",
        "plt.gca().add_artist(plt.Circle((0, 0), 1))\nplt.title('C')",
        "plt.imshow(np.eye(3))",
    )

    assert pie == {
        "type": "pie",
        "title": None,
        "elements": [
            {"label": "No", "angle": 324.0, "radius": 1.0},
            {"label": "Slice 1", "angle": 36.0, "radius": 1.0},
        ],
    }
    assert (several["type"], several["title"]) == ("superchart", "S")
    assert [each["type"] for each in several["elements"]] == ["scatter", "line"]
    assert several["elements"][0]["elements"] == [{"label": "d", "points": [[1.0, 3.0]]}]
    assert unknown == {"type": "unknown", "title": "C", "elements": []}
    assert picture == {"type": "unknown", "title": None, "elements": []}


def test_of_many_points_each_nth_is_told_and_the_others_are_counted(charts):
    [[chart], [many]] = charts(
        "plt.plot(np.arange(20_000))\nplt.plot([1, 2])",
        "plt.bar(range(6000), range(6000))",
    )

    long, short = chart["elements"]
    assert (long["points"][:2], len(long["points"]), long["left_out"]) == ([[0.0, 0.0], [8.0, 8.0]], 2500, 17_500)
    assert short == {"label": "Line 1", "points": [[0.0, 1.0], [1.0, 2.0]]}
    assert (len(many["elements"]), many["left_out"]) == (5000, 1000)


def test_figures_that_lie_or_raise_have_their_picture_and_no_numbers(run_cells):
    ran = run_cells(
        IMPORTS + "fig, ax = plt.subplots()\nax.plot([1])\nax.get_title = lambda *a: 1 / 0",
        IMPORTS + "fig, ax = plt.subplots()\nax.plot([1])\nfig.get_axes = lambda: [None]",
        IMPORTS + "plt.plot([1])\nplt.gca().lines[0].set_label('x' * 10_000)",
        needs=("matplotlib",),
    )

    [[first], [second], [third]] = ran.displays
    assert [sorted(each["data"]) for each in (first, second)] == [["image/png", "text/plain"]] * 2
    assert all("left out" not in each["data"]["text/plain"] for each in (first, second, third))
    assert len(third["data"][MIME]["elements"][0]["label"]) == 200
