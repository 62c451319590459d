"""How a line may go on, by the variables of the process."""

import pytest

from groundbox.guest.python.prompt import completions


class Odd:
    """Its attributes cannot be sorted, and one of them is not for a look."""

    fine = 1

    def __dir__(self):
        return ["fine", 5]

    @property
    def costly(self):
        raise SystemExit


NAMES = {"longest_name": {"first key": 1, 2: 3}, "odd": Odd(), "text": "a", "_hidden": 1}


@pytest.mark.parametrize(
    ("line", "begin", "found"),
    [
        ("longest_na", 0, ["longest_name"]),
        ("pri", 0, ["print"]),
        ("lamb", 0, ["lambda"]),
        ("x = longest_name.ke", 4, ["longest_name.keys"]),
        ("f(text.upp", 2, ["text.upper"]),
        ("longest_name['fi", 14, ["first key"]),
        ("longest_name['first k", 20, ["key"]),
        ("from js", 5, ["json"]),
        ("odd.fi", 0, ["odd.fine"]),
        ("odd.costly.re", 0, []),
        ("_hid", 0, ["_hidden"]),
        ("text.__le", 0, ["text.__le__", "text.__len__"]),
        ("1 + ", 4, []),
        ("", 0, []),
        ("no_such.na", 0, []),
        ("'a b", 3, []),
    ],
)
def test_a_line_goes_on_by_what_there_is(line, begin, found):
    assert completions(line, begin, NAMES) == found


def test_a_path_in_a_string_goes_on_by_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales 2024.csv").touch()

    assert completions("open('da", 6, {}) == ["data/"]
    assert completions("open('data/sales 2", 17, {}) == ["2024.csv"]
    assert completions("open('none/", 6, {}) == []
