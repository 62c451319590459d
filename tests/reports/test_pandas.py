"""Values that change on the way without a word: by joins, files, labels and types; and methods without an effect."""

import pytest

import groundbox as gb
from groundbox.check import check_python

BLANK_KEYS = """
import pandas as pd, numpy as np
l = pd.DataFrame({'k': ['x', None, np.nan], 'a': [1, 2, 3]}); r = pd.DataFrame({'k': ['x', None], 'b': [5, 6]})
print(l.merge(r, on='k', how='left').b.sum())
"""
NO_BLANK_KEYS = BLANK_KEYS.replace("None, np.nan", "'y', 'z'")
LARGE = """
import pandas as pd
l = pd.DataFrame({'k': [1, 2]}); r = pd.DataFrame({'k': [1], 'ref': [9007199254740993]})
print(int(l.merge(r, on='k', how='left').ref.iloc[0]))
"""
SMALL = LARGE.replace("9007199254740993", "900")
LARGE_SHIFTED = "import pandas as pd\nprint(pd.Series([9007199254740993, 1]).shift(1))"
LARGE_IN_FILE = """
open('i.csv', 'w').write('id,v\\n9007199254740993,1\\n,2\\n')
import pandas as pd
print(pd.read_csv('i.csv').id.iloc[0])
"""
NA = """
open('c.csv', 'w').write('code,pop\\nNA,3\\nNO,5\\nSE,10\\n')
import pandas as pd
print(pd.read_csv('c.csv').code.nunique())
"""
NULL = """
import io
import pandas as pd
print(pd.read_csv(io.StringIO('name,n\\nann,1\\nNULL,2\\nbob,3\\n')).name.nunique())
"""
BLANKS = NA.replace("NA,3", ",3").replace("NO", "Norway")
ZEROS = """
open('z.csv', 'w').write('name,zip\\nann,01234\\nbob,10001\\n')
import pandas as pd
df = pd.read_csv('z.csv'); print((df.zip == '01234').sum())
"""
ZEROS_KEPT = ZEROS.replace("read_csv('z.csv')", "read_csv('z.csv', dtype={'zip': str})")
LABELS = """
import pandas as pd
a = pd.DataFrame({'x': [1, 2, 3]}); b = pd.DataFrame({'y': [4, 5, 6]}, index=[10, 11, 12])
a['y'] = b['y']
print(a.y.sum())
"""
SAME_LABELS = LABELS.replace(", index=[10, 11, 12]", "")
LABELS_ADDED = """
import pandas as pd
print((pd.Series([1, 2]) + pd.Series([1, 2], index=[7, 8])).sum())
"""
PRODUCT = """
import pandas as pd
print(pd.Series([406, 372, 496, 41, 63, 118, 311, 271, 431, 95, 57, 52]).prod())
"""
SUM = "import pandas as pd\nprint(pd.Series([2**62] * 3).sum())"
SUM_THAT_FITS = "import pandas as pd\nprint(pd.Series([2**60] * 3).sum())"
TIMES = "import pandas as pd\nprint((pd.Series([2**40]) * 2**30).iloc[0])"
ARRAY = "import numpy as np\nprint(np.array([536870910] * 4, dtype=np.int64).prod())"
ARRAY_BY_FUNCTION = "import numpy as np\nprint(np.prod(np.array([536870910] * 4)))"
ARRAY_THAT_FITS = "import numpy as np\nprint(np.array([5368] * 4).prod(), np.sum([1, 2]))"

TRAILING = """
open('t.csv', 'w').write('a,b,c\\n1,2,3,\\n4,5,6,\\n')
import pandas as pd
print(pd.read_csv('t.csv')['a'].sum())
"""
NAMED_ROWS = TRAILING.replace("3,", "3,9").replace("6,", "6,9")
CODES = """
open('c.csv', 'w').write('code,n\\n12E5,1\\n34E2,2\\n55E1,3\\n')
import pandas as pd
print((pd.read_csv('c.csv').code == '12E5').sum())
"""
SCIENTIFIC = CODES.replace("12E5", "1E5").replace("34E2", "3E2").replace("55E1", "5E1")
SCIENTIFIC_LARGE = CODES.replace("34E2", "3.4E2")
PLACES = """
import pandas as pd
df = pd.DataFrame({'id': [1, 2, 3, 4], 'x': [5, 0, 7, 8]})
df = df[df.x > 0]
df['name'] = df[['id']].merge(pd.DataFrame({'id': [1, 3, 4], 'name': ['a', 'c', 'd']}), on='id')['name']
print(df)
"""
PLACES_RESET = PLACES.replace("df[df.x > 0]", "df[df.x > 0].reset_index(drop=True)")
SHIFTED_SUM = "import pandas as pd\ns = pd.Series([1, 4, 9])\nprint((s[1:] - s[:-1]).sum())"
SHIFTED_SUM_RIGHT = "import pandas as pd\ns = pd.Series([1, 4, 9])\nprint(s.diff().sum())"
MONTHS = """
import pandas as pd
print((pd.Series([1, 2], index=['Jan', 'Feb']) + pd.Series([1, 2], index=['Feb', 'Mar'])).sum())
"""
ORDER = (
    "import pandas as pd\ndf = pd.DataFrame({'a': [3, 1, 2]})\ndf['s'] = df['a'].sort_values()\nprint(df.s.tolist())"
)
ORDER_TAKEN = ORDER.replace("values()", "values().to_numpy()")
RANKED = ORDER.replace("df['a'].sort_values()", "df.sort_values('a').groupby('a').cumcount()")
PIVOT = """
import pandas as pd
df = pd.DataFrame({'k': ['a', None, 'b'], 'v': [1, 2, 3]})
print(df.pivot_table(index='k', values='v', aggfunc='sum').v.sum())
"""
PIVOT_KEPT = PIVOT.replace("'sum')", "'sum', dropna=False)")
PIVOT_WHOLE = PIVOT.replace("None", "'c'")
CROSS = PIVOT.replace("df.pivot_table(index='k', values='v', aggfunc='sum').v.sum()", "pd.crosstab(df.k, df.v).size")
SECONDS = "import pandas as pd\nprint(pd.to_datetime(pd.Series([1700000000, 1700086400])).tolist())"
FIRST = """
import pandas as pd
df = pd.DataFrame({'k': ['a', 'a', 'b'], 'x': [None, 1, 2], 'y': [5, 6, 7]})
print(df.groupby('k').first())
"""
FLAGS = "import pandas as pd\nprint(pd.Series(['True', 'False']).astype(bool).sum())"
FLAGS_RIGHT = "import pandas as pd\nprint((pd.Series(['True', 'False']) == 'True').astype(bool).sum())"


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        (BLANK_KEYS, {"pandas.merge_blank_keys"}),
        (NO_BLANK_KEYS, set()),
        (LARGE, {"pandas.integers_rounded"}),
        (SMALL, set()),
        (LARGE_SHIFTED, {"pandas.integers_rounded"}),
        (LARGE_IN_FILE, {"pandas.integers_rounded"}),
        (NA, {"pandas.text_blanked"}),
        (NULL, {"pandas.text_blanked"}),
        (BLANKS, set()),
        (ZEROS, {"pandas.zeros_dropped"}),
        (ZEROS_KEPT, set()),
        (LABELS, {"pandas.misaligned"}),
        (SAME_LABELS, set()),
        (LABELS_ADDED, {"pandas.misaligned"}),
        (PRODUCT, {"python.overflow"}),
        (SUM, {"python.overflow"}),
        (SUM_THAT_FITS, set()),
        (TIMES, {"python.overflow"}),
        (ARRAY, {"python.overflow"}),
        (ARRAY_BY_FUNCTION, {"python.overflow"}),
        (ARRAY_THAT_FITS, set()),
        (TRAILING, {"pandas.columns_shifted"}),
        (NAMED_ROWS, set()),
        (CODES, {"pandas.codes_as_numbers"}),
        (SCIENTIFIC, set()),
        (SCIENTIFIC_LARGE, set()),
        (PLACES, {"pandas.misaligned"}),
        (PLACES_RESET, set()),
        (SHIFTED_SUM, {"pandas.misaligned"}),
        (SHIFTED_SUM_RIGHT, set()),
        (MONTHS, set()),
        (ORDER, {"pandas.misaligned"}),
        (ORDER_TAKEN, set()),
        (RANKED, set()),
        (PIVOT, {"pandas.groups_dropped"}),
        (PIVOT_KEPT, set()),
        (PIVOT_WHOLE, set()),
        (CROSS, {"pandas.groups_dropped"}),
        (SECONDS, {"pandas.numbers_as_times"}),
        (SECONDS.replace("]))", "]), unit='s')"), set()),
        (SECONDS.replace("1700000000, 1700086400", "5, 6"), set()),
        (FIRST, {"pandas.groups_mixed"}),
        (FIRST.replace("first()", "last()"), set()),
        (FIRST.replace("first()", "nth(0)"), set()),
        (FLAGS, {"pandas.text_as_bool"}),
        (FLAGS_RIGHT, set()),
    ],
)
def test_observers_see_values_that_changed_on_the_way(source, codes):
    ran = gb.run(source, checks=True)

    assert ran.ok, ran.error
    assert {each.code for each in ran.warnings} - {"pandas.merge_unmatched"} == codes
    assert all(each.tier == "note" for each in ran.warnings)


FRAME = "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': [3, 1, 1, 2], 'b': list('xyzz')})\n"
DEFAULT_IN_ATTRIBUTE = """
class Gen:
    def __init__(self, lines=[]):
        self.lines = lines
a, b = Gen(), Gen()
a.lines.append(1)
print(b.lines)
"""


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (FRAME + "df.drop_duplicates()\ndf.sort_values('a')\nprint(len(df))", {"pandas.result_unused": [3, 4]}),
        (FRAME + "df['b'].str.upper()\ndf.b.replace('x', 'y')\nprint(df)", {"pandas.result_unused": [3, 4]}),
        (FRAME + "df = df.fillna(0)\ndf.sort_values('a', inplace=True)\nprint(df)", {}),
        (FRAME + "df.drop_duplicates()", {}),
        (FRAME + "df = df.sort_values('a', inplace=True)\nprint(df)", {"pandas.inplace_result": [3]}),
        (FRAME + "print((df.a == np.nan).sum())", {"python.nan_equality": [3]}),
        (FRAME + "print((df.a != float('nan')).sum())", {"python.nan_equality": [3]}),
        (FRAME + "print(df.a.isna().sum())", {}),
        (FRAME + "for _, row in df.iterrows():\n    row['a'] = 0\nprint(df)", {"pandas.row_copy": [4]}),
        (FRAME + "kept = []\nfor _, row in df.iterrows():\n    row['a'] = 0\n    kept.append(row)\nprint(kept)", {}),
        (FRAME + "for i, row in df.iterrows():\n    df.loc[i, 'a'] = len(row['b'])\nprint(df)", {}),
        ("import numpy as np\nprint(np.array([200, 100], dtype=np.uint8) * 2)", {"python.overflow": [2]}),
        ("import numpy as np\na = np.array([100, 20], dtype='int8')\nprint(a + a)", {"python.overflow": [3]}),
        ("import numpy as np\nprint(np.array([20, 100], dtype=np.uint8) * 2)", {}),
        (DEFAULT_IN_ATTRIBUTE, {"python.mutable_default": [3]}),
        (DEFAULT_IN_ATTRIBUTE.replace("= lines\n", "= list(lines)\n"), {}),
        (DEFAULT_IN_ATTRIBUTE.replace("b = Gen(), Gen()", "b = Gen([]), Gen([])"), {}),
        (FRAME + "df.total = df.a + 1\nprint(list(df.columns))", {"pandas.attribute_column": [3]}),
        (FRAME + "print('x' in df['b'])", {"pandas.label_membership": [3]}),
        (FRAME + "print('x' in df['b'].values, 'b' in df, 'x' in set(df['b']))", {}),
        ("fs = []\nfor i in (1, 2):\n    fs.append(lambda: i)\nprint(fs[0]())", {"python.late_binding": [3]}),
        ("fs = [lambda x: x * i for i in range(3)]\nprint(fs[0](1))", {"python.late_binding": [1]}),
        ("fs = {k: lambda x: k + x for k in 'ab'}\nprint(fs['a']('c'))", {"python.late_binding": [1]}),
        ("fs = [lambda x, i=i: x * i for i in range(3)]\nprint(fs[0](1))", {}),
        ("out = []\nfor i in range(3):\n    out.append(sorted([2, 1], key=lambda v: v * i))\nprint(out)", {}),
        ("xs = [3, 1]\nxs = xs.sort()\nprint(xs)", {"python.none_result": [2]}),
        ("xs = [3, 1]\nprint(xs.append(2))", {"python.none_result": [2]}),
        ("import random\nrandom.seed(1)\nx = random.shuffle([3, 1])\nprint(x)", {"python.none_result": [3]}),
        ("class Q:\n    def append(self, x):\n        return x\nq = Q()\ny = q.append(3)\nprint(y)", {}),
        ("xs = [2, 4]\nfor x in xs:\n    if x > 1:\n        xs.remove(x)\nprint(xs)", {"python.changed_in_loop": [4]}),
        ("xs = [2, 4, 7]\nfor x in list(xs):\n    xs.remove(x)\nprint(xs)", {}),
        ("xs = [2, 4, 7]\nfor x in xs:\n    if x == 4:\n        xs.remove(x)\n        break\nprint(xs)", {}),
        ("xs = [1]\nfor x in xs:\n    if x < 9:\n        xs.append(x + 1)\nprint(xs)", {}),
        ("g = [[0] * 3] * 2\ng[0][0] = 1\nprint(g)", {"python.shared_object": [1]}),
        ("g = dict.fromkeys('ab', [])\ng['a'].append(1)\nprint(g)", {"python.shared_object": [1]}),
        ("g = [[0] * 3 for _ in range(2)]\ng[0][0] = 1\nh = [[0]] * 2\nprint(g, h)", {}),
        ("g = [0] * 3\ng[0] = 1\nprint(g)", {}),
        ("ns = (n for n in [1, 2])\nprint(sum(ns))\nprint(max(ns, default=None))", {"python.used_up": [3]}),
        ("ns = map(int, '12')\nfor n in ns:\n    print(n)\nprint(list(ns))", {"python.used_up": [4]}),
        ("ns = list(map(int, '12'))\nprint(sum(ns))\nprint(max(ns))", {}),
        ("ns = map(int, '12')\nprint(sum(ns))\nns = map(int, '34')\nprint(sum(ns))", {}),
        ("print({True: 'yes', 1: 'one'})", {"python.equal_keys": [1]}),
        ("print({0: 'none', 1: 'one', False: 'no'})", {"python.equal_keys": [1]}),
        ("print({'a': 1, 'b': 1, '1': 3, 1: 2, 1: 3})", {}),
        ("x = 3\nif x == 1 or 2:\n    print('yes')", {"python.always_true": [2]}),
        ("x = 3\nif x == 1 or x == 2 or not x:\n    print('yes')\nprint(x == 1 or 2)", {}),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_told_with_its_line(source, lines):
    found: dict[str, list[int]] = {}
    for each in sorted(check_python(source, gb.run(source)), key=lambda each: each.evidence.get("line", 0)):
        found.setdefault(each.code, []).append(each.evidence.get("line", 0))

    assert {code: found[code] for code in found if code not in ("python.deprecated", "python.constant_answer")} == lines
