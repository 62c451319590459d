"""Variables of their own for cells of one name, in one process."""

import pytest

import groundbox as gb


@pytest.fixture(scope="module")
def box():
    with gb.Sandbox(profile="science") as box:
        yield box


def test_cells_of_a_name_share_variables_that_others_do_not_see(box):
    box.run("x = 1")
    box.run("x = 2", namespace="other")

    texts = [box.run("x").text, box.run("x", namespace="other").text, box.run("x", namespace="third").error.type]

    assert texts == ["1", "2", "NameError"]


def test_a_function_keeps_the_globals_that_it_was_made_with(box):
    box.run("import builtins\nname = 'theirs'\nbuiltins.kept = lambda: name", namespace="maker")

    assert box.run("name = 'ours'\nkept()").text == "'theirs'"


def test_a_namespace_has_a_main_a_last_value_and_a_current_folder_of_its_own(box):
    box.run("import os\nos.makedirs('deeper', exist_ok=True)\nos.chdir('deeper')\n41", namespace="a")
    usual = box.run("import os\nos.path.basename(os.getcwd()), '_' in globals() and _ == 41").text
    own = box.run(
        "import __main__, os\n_ + 1, __main__.__dict__ is globals(), os.path.basename(os.getcwd())", namespace="a"
    )

    assert (usual, own.text) == ("('work', False)", "(42, True, 'deeper')")


def test_magics_and_shell_lines_see_the_variables_of_their_namespace(box):
    box.run("word = 'usual'")
    box.run("word = 'own'", namespace="magic")

    assert box.run("!echo {word}", namespace="magic").stdout == "own\n"
    assert box.run("!echo {word}").stdout == "usual\n"


@pytest.mark.parametrize(("mode", "name"), [("script", "a"), ("cell", ""), ("cell", 1)])
def test_a_namespace_is_a_name_and_belongs_to_cells(box, mode, name):
    with pytest.raises(gb.InvalidArgument, match="namespace"):
        box.run("1", mode=mode, namespace=name)
