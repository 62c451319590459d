"""Settings of IPython that programs use are heeded."""

import pytest

import groundbox as gb

ALL = "from IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.ast_node_interactivity = 'all'"


def _shown(box, source):
    ran = box.run(source)
    assert ran.ok, ran.error
    values = [each.data["text/plain"] for each in ran.displays]
    return values if ran.value is None else [*values, ran.value["text/plain"]]


@pytest.mark.parametrize(
    "setting",
    [
        ALL,
        "%config InteractiveShell.ast_node_interactivity = 'all'",
        "get_ipython().ast_node_interactivity = 'all'",
    ],
)
def test_all_values_of_a_cell_are_shown_if_the_program_asks_for_it(setting):
    with gb.Sandbox() as box:
        box.run(setting)

        assert _shown(box, "1\n2") == ["1", "2"]
        assert _shown(box, "for i in range(2): i\nx = 4") == ["0", "1"]
        assert _shown(box, "import asyncio\nawait asyncio.sleep(0, 'a')\nawait asyncio.sleep(0, 'b')") == ["'a'", "'b'"]
        assert _shown(box, "x\nx + 1;") == ["4"]


@pytest.mark.parametrize(("value", "shown"), [("last_expr_or_assign", ["3"]), ("none", []), ("last_expr", [])])
def test_a_last_assignment_is_shown_if_the_program_asks_for_it(value, shown):
    with gb.Sandbox() as box:
        box.run(f"%config InteractiveShell.ast_node_interactivity = {value!r}")

        assert _shown(box, "1\nx = 3") == shown


def test_what_was_shown_once_is_not_shown_when_the_setting_is_gone():
    with gb.Sandbox() as box:
        box.run("get_ipython().ast_node_interactivity = 'all'")
        box.run("get_ipython().ast_node_interactivity = 'last_expr'")

        assert _shown(box, "1\n2") == ["2"]
