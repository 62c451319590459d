"""Displays and values: every rich form, once, checked, within its size."""

import base64

import pytest

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n"


def is_png(content):
    return base64.b64decode(content).startswith(PNG)


@pytest.mark.parametrize("ipython", [False, True])
def test_display_shows_values_in_all_their_forms(run_cells, ipython):
    source = (
        "class Rich:\n"
        "    def __repr__(self): return 'rich'\n"
        "    def _repr_html_(self): return '<b>rich</b>'\n"
        "    def _repr_png_(self): return b'bytes'\n"
        "    def _repr_json_(self): return {'a': [1]}\n"
        "display(Rich(), 'text')"
    )

    ran = run_cells(source, ipython=ipython)

    assert ran.displays == [
        [
            {
                "ev": "display",
                "data": {
                    "text/plain": "rich",
                    "text/html": "<b>rich</b>",
                    "image/png": base64.b64encode(b"bytes").decode(),
                    "application/json": {"a": [1]},
                },
            },
            {"ev": "display", "data": {"text/plain": "'text'"}},
        ]
    ]


@pytest.mark.parametrize("ipython", [False, True])
def test_a_display_can_be_replaced_and_cleared(run_cells, ipython):
    clear = "from IPython.display import clear_output\nclear_output()" if ipython else "display(clear=True)"

    ran = run_cells("handle = display('a', display_id=True)\nhandle.update('b')", clear, ipython=ipython)

    first, second = ran.displays[0]
    assert first["data"] == {"text/plain": "'a'"}
    assert second == {**first, "data": {"text/plain": "'b'"}, "update": True}
    assert ran.displays[1] == [{"ev": "clear", "wait": False}] if ipython else [{"ev": "clear"}]


def test_forms_that_lie_or_raise_are_left_out_with_a_note(run_cells):
    source = (
        "class Liar:\n"
        "    def __repr__(self): return 'liar'\n"
        "    def _repr_html_(self): return 5\n"
        "    def _repr_png_(self): raise ValueError('no')\n"
        "    def _repr_svg_(self): raise SystemExit\n"
        "    def _repr_json_(self): return {1, 2}\n"
        "    def _repr_latex_(self): return '$x$'\n"
        "Liar()"
    )

    ran = run_cells(source)

    assert ran.value == {
        "text/plain": "liar\n"
        "(text/html left out: _repr_html_ returned int, not str)\n"
        "(_repr_svg_ left out: it raised SystemExit: )\n"
        "(_repr_png_ left out: it raised ValueError: no)\n"
        "(application/json left out: _repr_json_ returned what JSON cannot hold: "
        "Object of type set is not JSON serializable)",
        "text/latex": "$x$",
    }


@pytest.mark.parametrize(("length", "kept"), [(8 * 1024 * 1024, True), (8 * 1024 * 1024 + 1, False)])
def test_a_form_over_the_limit_is_replaced_by_its_size(run_cells, length, kept):
    ran = run_cells(f"class Big:\n  __repr__ = lambda s: 'big'\n  _repr_html_ = lambda s: 'x' * {length}\nBig()")

    expected = {"text/plain": "big", "text/html": "x" * length}
    if not kept:
        expected = {"text/plain": "big\n(text/html left out: 8388609 bytes, over 8388608)"}
    assert ran.value == expected


def test_text_over_the_limit_is_replaced_by_its_size(run_cells):
    ran = run_cells("'x' * (8 * 1024 * 1024)")

    assert ran.value == {"text/plain": "(8388610 bytes of text left out: over 8388608 bytes)"}


@pytest.mark.parametrize("body", ["raise ValueError('no')", "raise KeyError", "return 5", "return repr(self)"])
def test_a_repr_that_fails_is_told(run_cells, body):
    ran = run_cells(f"class Bad:\n    def __repr__(self): {body}\nBad()")

    assert ran.last["ok"]
    assert ran.value["text/plain"].startswith("<Bad object; its __repr__ raised ")


def test_a_value_that_hides_its_class_is_no_failure(run_cells):
    ran = run_cells("class V:\n    __module__ = 5\n    __class__ = property(lambda s: 1/0)\nV()")

    assert ran.last["ok"]


def test_long_containers_count_what_they_leave_out(run_cells):
    ran = run_cells("list(range(1005))", "dict.fromkeys(range(1001))")

    assert ran.results[0]["value"]["text/plain"].endswith("998, 999, … 5 more]")
    assert ran.results[1]["value"]["text/plain"].endswith("999: None, … 1 more}")


def test_a_table_has_text_html_and_data(run_cells):
    ran = run_cells(
        "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': [0.5, None], 'c': pd.to_datetime(['2020-01-02', None])})",
        needs=("pandas",),
    )

    data = ran.value["application/vnd.dataresource+json"]
    assert [(field["name"], field["type"]) for field in data["schema"]["fields"]] == [
        ("a", "integer"),
        ("b", "number"),
        ("c", "datetime"),
    ]
    assert data["data"] == [{"a": 1, "b": 0.5, "c": "2020-01-02T00:00:00"}, {"a": 2, "b": None, "c": None}]
    assert (data["row_count"], data["column_count"], data["truncated"]) == (2, 3, False)
    assert "<table" in ran.value["text/html"]
    assert ran.value["text/plain"].split()[:3] == ["a", "b", "c"]


def test_a_long_table_says_how_long_it_is(run_cells):
    ran = run_cells("import pandas as pd\npd.Series(range(101), name='n')", needs=("pandas",))

    data = ran.value["application/vnd.dataresource+json"]
    assert (len(data["data"]), data["row_count"], data["truncated"]) == (100, 101, True)


def test_columns_of_the_same_name_are_kept_apart(run_cells):
    ran = run_cells("import pandas as pd\npd.DataFrame([[1, 2]], columns=['a', 'a'])", needs=("pandas",))

    assert ran.value["application/vnd.dataresource+json"]["data"] == [{"a": 1, "a.1": 2}]


@pytest.mark.parametrize("ipython", [False, True])
@pytest.mark.parametrize(
    "source",
    [
        "plt.plot([1, 2]); plt.show()",
        "plt.plot([1, 2])",
        "fig, ax = plt.subplots(); ax.plot([1])\nax",
        "fig, ax = plt.subplots(); ax.plot([1])\nfig",
        "import matplotlib\nmatplotlib.use('TkAgg'); plt.plot([1]); plt.show()",
        "plt.plot([1]); plt.gcf().show()",
        "plt.ion(); plt.plot([1]); plt.pause(9)",
        "plt.plot([1])\n1/0",
    ],
)
def test_a_figure_is_shown_once(run_cells, source, ipython):
    ran = run_cells("import matplotlib.pyplot as plt\n" + source, "1", ipython=ipython, needs=("matplotlib",))

    shown = [event["data"] for event in ran.displays[0]]
    assert [sorted(data) for data in shown] == [["application/vnd.groundbox.chart+json", "image/png", "text/plain"]]
    assert is_png(shown[0]["image/png"])
    assert "image/png" not in (ran.results[0]["value"] or {})
    assert ran.displays[1] == []
    assert ran.stderr == ""


def test_a_figure_that_is_saved_and_closed_is_not_shown(run_cells, workdir):
    ran = run_cells(
        "import matplotlib.pyplot as plt\nplt.plot([1]); plt.savefig('a.png'); plt.close()",
        "import matplotlib.pyplot as plt\nplt.gcf();",
        needs=("matplotlib",),
    )

    assert ran.displays == [[], []]
    assert (workdir / "a.png").read_bytes().startswith(PNG)


def test_a_figure_of_an_earlier_cell_is_a_value_with_a_picture(run_cells):
    ran = run_cells(
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1]);",
        "fig",
        needs=("matplotlib",),
    )

    assert ran.displays[1] == []
    assert is_png(ran.value["image/png"])


def test_saving_draws_once(run_cells):
    ran = run_cells(
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); draws = []\n"
        "class Counted(type(ax.plot([1])[0])):\n"
        "    def draw(self, renderer): draws.append(1); super().draw(renderer)\n"
        "ax.add_line(Counted([0], [0])); fig.savefig('a.png'); count = len(draws); plt.close()",
        "count",
        needs=("matplotlib",),
    )

    assert ran.value == {"text/plain": "1"}


def test_plotly_figures_are_data_by_value_and_by_show(run_cells):
    ran = run_cells(
        "import plotly.graph_objects as go\nfig = go.Figure(go.Bar(y=[1, 2]))\nfig",
        "fig.show()",
        needs=("plotly",),
    )

    for bundle in (ran.results[0]["value"], ran.displays[1][0]["data"]):
        assert bundle["text/plain"] == "plotly figure: 1 bar"
        assert bundle["application/vnd.plotly.v1+json"]["data"][0]["type"] == "bar"


def test_pictures_are_png_by_value_and_by_show(run_cells):
    ran = run_cells("from PIL import Image\nim = Image.new('RGB', (2, 2))\nim", "im.show()", needs=("PIL",))

    for bundle in (ran.results[0]["value"], ran.displays[1][0]["data"]):
        assert sorted(bundle) == ["image/png", "text/plain"]
        assert is_png(bundle["image/png"])


def test_formulas_are_latex(run_cells):
    ran = run_cells("import sympy\nsympy.sqrt(sympy.Symbol('x')) / 2", needs=("sympy",))

    assert ran.value == {"text/plain": "sqrt(x)/2", "text/latex": r"$\displaystyle \frac{\sqrt{x}}{2}$"}
