"""The pairs that were written after the rules, and held out: what was found at the first look is in docs/checks.md."""

from python_pair import Pair

_STAFF = """\
name,dept,salary,start
ann,it,5200,2021-03-01
bob,hr,4100,2020-07-15
cid,it,4800,2019-01-10
dan,,3900,2022-05-05
"""

PAIRS = [
    Pair(
        name="a helper that returns zero when it fails",
        expects="python.swallowed_exception",
        files={"temps.csv": "city,temp\nOslo,4\nRome,n/a\nCairo,31\n"},
        wrong="""\
import csv

def to_celsius(text):
    try:
        return float(text)
    except Exception:
        return 0.0

with open("temps.csv") as file:
    temps = [to_celsius(row["temp"]) for row in csv.DictReader(file)]
print(f"mean {sum(temps) / len(temps):.1f}")
""",
        right="""\
import csv

def to_celsius(text):
    try:
        return float(text)
    except ValueError:
        return None

with open("temps.csv") as file:
    temps = [to_celsius(row["temp"]) for row in csv.DictReader(file)]
known = [temp for temp in temps if temp is not None]
print(f"mean {sum(known) / len(known):.1f} of {len(known)}, {len(temps) - len(known)} unknown")
""",
    ),
    Pair(
        name="a loop that goes on over every failure",
        expects="python.swallowed_exception",
        files={"log.jsonl": '{"ms": 12}\n{"ms": 40}\n{"m": 7}\noops\n'},
        wrong="""\
import json
times = []
for line in open("log.jsonl"):
    try:
        times.append(json.loads(line)["ms"])
    except Exception:
        continue
print(max(times), len(times))
""",
        right="""\
import json
times, skipped = [], 0
for line in open("log.jsonl"):
    try:
        times.append(json.loads(line)["ms"])
    except (KeyError, ValueError):
        skipped += 1
print(max(times), len(times), skipped)
""",
    ),
    Pair(
        name="a result copied from another run",
        expects="python.constant_answer",
        files={"staff.csv": _STAFF},
        wrong="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
print(staff.shape)
# mean of the salaries
mean_salary = 4500.0
print(f"Mean salary: {mean_salary}")
""",
        right="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
print(staff.shape)
mean_salary = staff["salary"].mean()
print(f"Mean salary: {mean_salary}")
""",
    ),
    Pair(
        name="read and never used",
        expects="python.constant_answer",
        files={"points.json": "[3, 9, 4]"},
        wrong="""\
import json
with open("points.json") as file:
    points = json.load(file)
example = [1, 2, 3]
best = max(example)
{"best": best}
""",
        right="""\
import json
with open("points.json") as file:
    points = json.load(file)
best = max(points)
{"best": best}
""",
    ),
    Pair(
        name="a bill that is off by a fraction",
        expects="python.float_money",
        files={"cart.csv": "item,price,qty\npen,1.1,3\npad,2.5,1\n"},
        wrong="""\
import csv
subtotal = 0
for row in csv.DictReader(open("cart.csv")):
    subtotal += float(row["price"]) * int(row["qty"])
print("to pay:", subtotal)
""",
        right="""\
import csv
subtotal = 0
for row in csv.DictReader(open("cart.csv")):
    subtotal += round(float(row["price"]) * 100) * int(row["qty"])
print(f"to pay: {subtotal // 100}.{subtotal % 100:02}")
""",
    ),
    Pair(
        name="steps that never meet the end",
        expects="python.float_equality",
        wrong="""\
x, steps = 0.0, 0
while steps < 50:
    x += 0.1
    steps += 1
    if x == 1.0:
        break
print(steps)
""",
        right="""\
x, steps = 0.0, 0
while steps < 50:
    x += 0.1
    steps += 1
    if abs(x - 1.0) < 1e-9:
        break
print(steps)
""",
    ),
    Pair(
        name="a mask of floats",
        expects="python.float_equality",
        wrong="""\
import numpy as np
grid = np.arange(0, 1, 0.1)
values = grid * 3
hits = int((grid + 0.1 == 0.3).sum())
hits
""",
        right="""\
import numpy as np
grid = np.arange(0, 1, 0.1)
values = grid * 3
hits = int(np.isclose(grid + 0.1, 0.3).sum())
hits
""",
    ),
    Pair(
        name="a simulation without a seed",
        expects="python.unseeded_random",
        wrong="""\
import numpy as np
rng = np.random.default_rng()
inside = (rng.random(1000) ** 2 + rng.random(1000) ** 2 < 1).mean()
print("pi is about", 4 * inside)
""",
        right="""\
import numpy as np
rng = np.random.default_rng(20)
inside = (rng.random(1000) ** 2 + rng.random(1000) ** 2 < 1).mean()
print("pi is about", 4 * inside)
""",
    ),
    Pair(
        name="a split that changes",
        expects="python.unseeded_random",
        wrong="""\
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
X = np.arange(40).reshape(-1, 1)
y = X.ravel() % 7
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25)
print(LinearRegression().fit(X_train, y_train).score(X_test, y_test))
""",
        right="""\
import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
X = np.arange(40).reshape(-1, 1)
y = X.ravel() % 7
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
print(LinearRegression().fit(X_train, y_train).score(X_test, y_test))
""",
    ),
    Pair(
        name="filled in place on a column",
        expects="pandas.chained_assignment",
        files={"staff.csv": _STAFF},
        wrong="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
staff["dept"].fillna("none", inplace=True)
print(staff["dept"].isna().sum())
""",
        right="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
staff["dept"] = staff["dept"].fillna("none")
print(staff["dept"].isna().sum())
""",
    ),
    Pair(
        name="a raise that nobody gets, with warnings off",
        expects="pandas.chained_assignment",
        files={"staff.csv": _STAFF},
        wrong="""\
import warnings
warnings.filterwarnings("ignore")
import pandas as pd
staff = pd.read_csv("staff.csv")
staff.loc[staff.dept == "it"]["salary"] *= 1.1
print(staff.salary.sum())
""",
        right="""\
import warnings
warnings.filterwarnings("ignore")
import pandas as pd
staff = pd.read_csv("staff.csv", dtype={"salary": float})
staff.loc[staff.dept == "it", "salary"] *= 1.1
print(staff.salary.sum())
""",
    ),
    Pair(
        name="a line split and compared with a number",
        expects="python.text_number_compare",
        files={"grades.txt": "ann 5\nbob 3\n"},
        wrong="""\
count = 0
for line in open("grades.txt"):
    name, grade = line.split()
    if grade == 5:
        count += 1
print(count)
""",
        right="""\
count = 0
for line in open("grades.txt"):
    name, grade = line.split()
    if int(grade) == 5:
        count += 1
print(count)
""",
    ),
    Pair(
        name="a dictionary for all",
        expects="python.mutable_default",
        wrong="""\
def tally(word, counts={}):
    for letter in word:
        counts[letter] = counts.get(letter, 0) + 1
    return counts

for word in ["aab", "ab"]:
    print(word, tally(word))
""",
        right="""\
def tally(word, counts=None):
    if counts is None:
        counts = {}
    for letter in word:
        counts[letter] = counts.get(letter, 0) + 1
    return counts

for word in ["aab", "ab"]:
    print(word, tally(word))
""",
    ),
    Pair(
        name="everybody of the same day with everybody",
        expects="pandas.merge_multiplied",
        files={
            "in.csv": "day,shop,stock\n1,A,10\n1,B,20\n2,A,5\n2,B,6\n",
            "out.csv": "day,shop,sold\n1,A,1\n1,B,2\n2,A,3\n2,B,4\n",
        },
        wrong="""\
import pandas as pd
stock, sold = pd.read_csv("in.csv"), pd.read_csv("out.csv")
table = pd.merge(stock, sold, on="day")
print((table["stock"] - table["sold"]).sum())
""",
        right="""\
import pandas as pd
stock, sold = pd.read_csv("in.csv"), pd.read_csv("out.csv")
table = pd.merge(stock, sold, on=["day", "shop"])
print((table["stock"] - table["sold"]).sum())
""",
    ),
    Pair(
        name="keys of two spellings",
        expects="pandas.merge_empty",
        files={"a.csv": "id,x\n1,5\n2,6\n", "b.csv": "id,y\nK1,7\nK2,8\n"},
        wrong="""\
import pandas as pd
a, b = pd.read_csv("a.csv", dtype=str), pd.read_csv("b.csv")
both = a.merge(b, on="id", how="left")
print(both["y"].fillna(0).sum())
""",
        right="""\
import pandas as pd
a, b = pd.read_csv("a.csv", dtype=str), pd.read_csv("b.csv")
both = a.assign(id="K" + a["id"]).merge(b, on="id", how="left")
print(both["y"].fillna(0).sum())
""",
    ),
    Pair(
        name="everything with a blank thrown away",
        expects="pandas.rows_dropped",
        files={"staff.csv": _STAFF},
        wrong="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
staff.dropna(inplace=True)
staff["salary"].mean()
""",
        right="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
staff.dropna(subset=["salary"], inplace=True)
staff["salary"].mean()
""",
    ),
    Pair(
        name="dates of two formats",
        expects="pandas.values_lost",
        files={"d.csv": "when,n\n2024-01-05,1\n2024-02-07,2\n08.03.2024,4\n"},
        wrong="""\
import pandas as pd
d = pd.read_csv("d.csv")
d["when"] = pd.to_datetime(d["when"], errors="coerce")
print(d.groupby(d["when"].dt.year)["n"].sum())
""",
        right="""\
import pandas as pd
d = pd.read_csv("d.csv")
german = d["when"].str.contains(".", regex=False)
when = d["when"].where(~german, d["when"].str[6:] + "-" + d["when"].str[3:5] + "-" + d["when"].str[:2])
d["when"] = pd.to_datetime(when)
print(d.groupby(d["when"].dt.year)["n"].sum())
""",
    ),
    Pair(
        name="a department without a name",
        expects="pandas.groups_dropped",
        files={"staff.csv": _STAFF},
        wrong="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
share = staff.groupby(["dept"]).agg(total=("salary", "sum"))
print(share["total"].sum())
""",
        right="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
staff["dept"] = staff["dept"].fillna("unknown")
share = staff.groupby(["dept"]).agg(total=("salary", "sum"))
print(share["total"].sum())
""",
    ),
    Pair(
        name="the top of a column of texts",
        expects="pandas.text_ordered",
        files={"w.csv": "who,weight\nann,9\nbob,100\ncid,20\n"},
        wrong="""\
import pandas as pd
w = pd.read_csv("w.csv", dtype=str)
print(w.sort_values("weight", ascending=False).iloc[0]["who"])
""",
        right="""\
import pandas as pd
w = pd.read_csv("w.csv", dtype={"who": str})
print(w.sort_values("weight", ascending=False).iloc[0]["who"])
""",
    ),
    Pair(
        name="side by side after a filter",
        expects="pandas.concat_misaligned",
        files={"staff.csv": _STAFF},
        wrong="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
paid = staff[staff["salary"] > 4000][["name"]]
bonus = pd.DataFrame({"bonus": [100, 200, 300]}, index=[5, 6, 7])
both = pd.concat([paid, bonus], axis=1)
print(both["bonus"].iloc[:3].sum())
""",
        right="""\
import pandas as pd
staff = pd.read_csv("staff.csv")
paid = staff[staff["salary"] > 4000][["name"]].reset_index(drop=True)
bonus = pd.DataFrame({"bonus": [100, 200, 300]})
both = pd.concat([paid, bonus], axis=1)
print(both["bonus"].iloc[:3].sum())
""",
    ),
    Pair(
        name="a type that is too small",
        expects="pandas.astype_overflow",
        wrong="""\
import pandas as pd
visits = pd.Series([120, 250, 300], name="visits")
print(visits.astype("int8").sum())
""",
        right="""\
import pandas as pd
visits = pd.Series([120, 250, 300], name="visits")
print(visits.astype("int32").sum())
""",
    ),
    Pair(
        name="a ratio over an empty group",
        expects="python.not_a_number",
        wrong="""\
import numpy as np
hits, shots = np.array([3.0, 0.0]), np.array([4.0, 0.0])
print("mean ratio", (hits / shots).mean())
""",
        right="""\
import numpy as np
hits, shots = np.array([3.0, 0.0]), np.array([4.0, 0.0])
played = shots > 0
print("mean ratio", (hits[played] / shots[played]).mean())
""",
    ),
]
