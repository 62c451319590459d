"""The pairs that were written last, after the rules had been mended: their right programs do on purpose what the wrong
ones do by mistake, as far as that can be. What was found at the first look is in docs/checks.md."""

from python_pair import Pair

PAIRS = [
    Pair(
        name="parents and children",
        expects="pandas.merge_multiplied",
        files={
            "customers.csv": "customer,credit\nann,100\nbob,50\n",
            "orders.csv": "customer,amount\nann,10\nann,20\nann,5\nbob,7\nbob,9\n",
            "cards.csv": "customer,card\nann,x\nann,y\nbob,z\n",
        },
        wrong="""\
import pandas as pd
customers, orders, cards = (pd.read_csv(f"{name}.csv") for name in ("customers", "orders", "cards"))
full = customers.merge(orders, on="customer").merge(cards, on="customer")
print(full["amount"].sum())
""",
        right="""\
import pandas as pd
customers, orders = (pd.read_csv(f"{name}.csv") for name in ("customers", "orders"))
full = customers.merge(orders, on="customer", how="left")
print(full["amount"].sum())
""",
    ),
    Pair(
        name="all pairs of a self join",
        expects="pandas.merge_multiplied",
        files={"p.csv": "team,player\nA,ann\nA,bob\nB,cid\nB,dan\n"},
        wrong="""\
import pandas as pd
p = pd.read_csv("p.csv")
goals = pd.DataFrame({"team": ["A", "A", "B"], "goals": [1, 2, 3]})
print(p.merge(goals, on="team")["goals"].sum())
""",
        right="""\
import pandas as pd
p = pd.read_csv("p.csv")
both = p.merge(p, on="team")
print(len(both[both["player_x"] < both["player_y"]]))
""",
    ),
    Pair(
        name="complete cases",
        expects="pandas.rows_dropped",
        files={"m.csv": "a,b,c\n1,2,\n3,,4\n5,6,7\n8,9,1\n"},
        wrong="""\
import pandas as pd
m = pd.read_csv("m.csv")
m = m.dropna()
print("mean of a:", m["a"].mean())
""",
        right="""\
import pandas as pd
m = pd.read_csv("m.csv")
complete = m.dropna()
print("correlation over", len(complete), "complete rows of", len(m), "is", round(complete["a"].corr(complete["b"]), 3))
""",
    ),
    Pair(
        name="blanks that are looked at",
        expects="pandas.values_lost",
        files={"v.csv": "x\n1\n2\nbad\n4\n"},
        wrong="""\
import pandas as pd
v = pd.to_numeric(pd.read_csv("v.csv")["x"], errors="coerce")
print(v.mean())
""",
        right="""\
import pandas as pd
raw = pd.read_csv("v.csv")["x"]
v = pd.to_numeric(raw, errors="coerce")
print("not numbers:", raw[v.isna()].tolist(), "mean of the others:", v.mean())
""",
    ),
    Pair(
        name="only the known regions",
        expects="pandas.groups_dropped",
        files={"s.csv": "region,n\nN,1\n,5\nS,2\n"},
        wrong="""\
import pandas as pd
s = pd.read_csv("s.csv")
print((s.groupby("region")["n"].sum() / s["n"].sum()).to_dict())
""",
        right="""\
import pandas as pd
s = pd.read_csv("s.csv")
print(s.groupby("region")["n"].sum().to_dict(), "without a region:", s.loc[s["region"].isna(), "n"].sum())
""",
    ),
    Pair(
        name="whole years",
        expects="pandas.astype_lossy",
        files={"a.csv": "who,age\nann,30.7\nbob,41.2\n"},
        wrong="""\
import pandas as pd
a = pd.read_csv("a.csv")
print(a["age"].astype(int).mean())
""",
        right="""\
import pandas as pd
a = pd.read_csv("a.csv")
a["full_years"] = a["age"].astype(int)
print(a["full_years"].tolist())
""",
    ),
    Pair(
        name="identifiers",
        expects="pandas.text_ordered",
        files={"i.csv": "zip,n\n00501,3\n10001,4\n94105,9\n9410,1\n"},
        wrong="""\
import pandas as pd
i = pd.read_csv("i.csv", dtype=str)
print(i["n"].max(), i.loc[i["zip"] > "9410", "zip"].tolist())
""",
        right="""\
import pandas as pd
i = pd.read_csv("i.csv", dtype={"zip": str})
i = i[i["zip"].str.len() == 5]
print(i.sort_values("zip")["zip"].tolist(), i["n"].max())
""",
    ),
    Pair(
        name="letters put together",
        expects="pandas.text_summed",
        files={"t.csv": "part,qty\nx,1\ny,2\nz,?\n"},
        wrong="""\
import pandas as pd
t = pd.read_csv("t.csv")
print(t[t["qty"] != "?"].groupby("part")["qty"].sum().sum())
""",
        right="""\
import pandas as pd
t = pd.read_csv("t.csv")
print(t["part"].sum(), t.loc[t["qty"] != "?", "qty"].astype(int).sum())
""",
    ),
    Pair(
        name="months put beneath each other",
        expects="pandas.concat_misaligned",
        files={"jan.csv": "id,Total Sales\n1,5\n", "feb.csv": "id,total_sales\n1,6\n"},
        wrong="""\
import pandas as pd
both = pd.concat(pd.read_csv(name) for name in ["jan.csv", "feb.csv"])
print(both["total_sales"].sum())
""",
        right="""\
import pandas as pd
both = pd.concat([pd.read_csv("jan.csv"), pd.DataFrame({"id": [2], "comment": ["late"]})])
print(both["Total Sales"].sum(), both["comment"].count())
""",
    ),
    Pair(
        name="a cache that may be empty",
        expects="python.swallowed_exception",
        files={"n.json": "[4, 5]"},
        wrong="""\
import json
def load():
    try:
        return json.load(open("n.jsn"))
    except Exception:
        return 0
value = load()
print("sum:", value if isinstance(value, int) else sum(value))
""",
        right="""\
import json
def load(cache={}):
    try:
        return cache["n"]
    except KeyError:
        cache["n"] = json.load(open("n.json"))
    return cache["n"]
print("sum:", sum(load()), sum(load()))
""",
    ),
    Pair(
        name="a value that keeps its last good reading",
        expects="python.swallowed_exception",
        files={"r.txt": "7\nx\n9\n"},
        wrong="""\
readings = []
current = 0
for line in open("r.txt"):
    try:
        current = int(line)
    except Exception:
        pass
    readings.append(current)
print(sum(readings))
""",
        right="""\
import contextlib
readings = []
for line in open("r.txt"):
    with contextlib.suppress(ValueError):
        readings.append(int(line))
print(sum(readings), "from", len(readings), "readings that are numbers")
""",
    ),
    Pair(
        name="a threshold is not an answer",
        expects="python.constant_answer",
        files={"d.csv": "x\n1\n5\n9\n"},
        wrong="""\
import csv
rows = list(csv.DictReader(open("d.csv")))
count = 2
print(f"{count} rows are above 4")
""",
        right="""\
import csv
LIMIT = 4
rows = list(csv.DictReader(open("d.csv")))
print(sum(int(row["x"]) > LIMIT for row in rows))
print("limit:", LIMIT)
""",
    ),
    Pair(
        name="a demonstration next to the data",
        expects="python.constant_answer",
        files={"e.txt": "1 2 3"},
        wrong="""\
data = open("e.txt").read().split()
def average(values):
    return sum(values) / len(values)
print(average([1, 2, 3, 4]))
""",
        right="""\
data = open("e.txt").read().split()
def average(values):
    return sum(values) / len(values)
print(average(list(map(int, data))))
""",
    ),
    Pair(
        name="dice and shuffles",
        expects="python.unseeded_random",
        files={"x.csv": "v\n1\n2\n3\n4\n5\n6\n7\n8\n"},
        wrong="""\
import pandas as pd
x = pd.read_csv("x.csv")
print(x.sample(n=3)["v"].mean())
""",
        right="""\
import random
import pandas as pd
x = pd.read_csv("x.csv")
order = list(x["v"])
random.shuffle(order)
print(sorted(order))
""",
    ),
    Pair(
        name="halves are exact",
        expects="python.float_equality",
        wrong="""\
total = 0
for price in [0.1, 0.7]:
    total += price
print("exact" if total + 0.2 == 1.0 else "not exact")
""",
        right="""\
total = 0.0
for part in [0.5, 0.25]:
    total += part
print("exact" if total + 0.25 == 1.0 else "not exact")
""",
    ),
    Pair(
        name="versions and codes",
        expects="python.text_number_compare",
        files={"o.txt": "12\n7\n"},
        wrong="""\
answer = open("o.txt").readline().strip()
print("many" if answer > "7" else "few")
""",
        right="""\
answer = open("o.txt").readline().strip()
print("many" if answer == "12" else "few")
""",
    ),
    Pair(
        name="a list to start from",
        expects="python.mutable_default",
        wrong="""\
def add(item, basket=[]):
    basket += [item]
    return basket
print(add("a"), add("b"))
""",
        right="""\
def add(item, basket=[]):
    basket = basket + [item]
    return basket
print(add("a"), add("b"))
""",
    ),
    Pair(
        name="blank and infinite on purpose",
        expects="python.not_a_number",
        files={"q.csv": "g,x\na,1\nb,\n"},
        wrong="""\
import pandas as pd
q = pd.read_csv("q.csv")
q[q["g"] == "b"]["x"].mean()
""",
        right="""\
import pandas as pd
q = pd.read_csv("q.csv")
best = float("inf")
print("smallest so far:", best)
q.groupby("g")["x"].mean()
""",
    ),
    Pair(
        name="two zones",
        expects="python.naive_time",
        wrong="""\
import datetime as dt
started = dt.datetime.utcnow()
print(int(dt.datetime.now(dt.timezone.utc).timestamp() - started.timestamp()) // 3600)
""",
        right="""\
import datetime as dt
started = dt.datetime.now(dt.timezone.utc)
print(int(dt.datetime.now(dt.timezone.utc).timestamp() - started.timestamp()) // 3600)
""",
    ),
    Pair(
        name="a table of lists",
        expects="pandas.chained_assignment",
        files={"g.csv": "k,v\na,1\nb,2\n"},
        wrong="""\
import pandas as pd
g = pd.read_csv("g.csv")
for i in range(len(g)):
    g.iloc[i]["v"] = g.iloc[i]["v"] * 10
print(g["v"].sum())
""",
        right="""\
import pandas as pd
g = pd.read_csv("g.csv")
cells = {"a": [0, 0], "b": [0, 0]}
for i in range(len(g)):
    cells[g["k"].iloc[i]][0] = g["v"].iloc[i] * 10
print(sum(cell[0] for cell in cells.values()))
""",
    ),
    Pair(
        name="orders of no known customer",
        expects="pandas.merge_empty",
        files={"o.csv": "customer,n\nANN,1\nBOB,2\n", "c.csv": "customer,city\nann,Oslo\nbob,Rome\n"},
        wrong="""\
import pandas as pd
o, c = pd.read_csv("o.csv"), pd.read_csv("c.csv")
print(pd.merge(o, c, on="customer", how="inner").groupby("city")["n"].sum().to_dict())
""",
        right="""\
import pandas as pd
o, c = pd.read_csv("o.csv"), pd.read_csv("c.csv")
o["customer"] = o["customer"].str.lower()
print(pd.merge(o, c, on="customer", how="inner").groupby("city")["n"].sum().to_dict())
""",
    ),
    Pair(
        name="a comparison of two lists",
        expects="pandas.merge_empty",
        files={"a.csv": "id\n1\n2\n", "b.csv": "id\n3\n4\n"},
        wrong="""\
import pandas as pd
a, b = pd.read_csv("a.csv", dtype={"id": str}), pd.read_csv("b.csv", dtype={"id": str})
b["id"] = "0" + b["id"]
print("share of a in b:", len(a.merge(b, on="id")) / len(a))
""",
        right="""\
import pandas as pd
a, b = pd.read_csv("a.csv"), pd.read_csv("b.csv")
common = a.merge(b, on="id")
print("ids in both files:", len(common))
""",
    ),
    Pair(
        name="a state that is a text",
        expects="python.is_literal",
        files={"s.txt": "done"},
        wrong="""\
state = open("s.txt").read().strip()
print("finished" if state is "done" else "running")
""",
        right="""\
state = open("s.txt").read().strip()
flag = True
print("finished" if state == "done" and flag is True else "running")
""",
    ),
    Pair(
        name="no elements at all",
        expects="python.is_literal",
        files={"l.txt": ""},
        wrong="""\
words = open("l.txt").read().split()
if words is []:
    print("empty")
else:
    print("there are words")
""",
        right="""\
words = open("l.txt").read().split() or None
if words is None:
    print("empty")
else:
    print("there are words")
""",
    ),
    Pair(
        name="points as they were typed",
        expects="pandas.text_summed",
        files={"p.csv": "who,points\nann,1\nbob,2\ncid,absent\n"},
        wrong="""\
import pandas as pd
p = pd.read_csv("p.csv")
present = p.loc[p["points"] != "absent", "points"]
print("total", present.sum())
""",
        right="""\
import pandas as pd
p = pd.read_csv("p.csv")
present = pd.to_numeric(p.loc[p["points"] != "absent", "points"])
print("total", present.sum())
""",
    ),
    Pair(
        name="bytes that overflow",
        expects="pandas.astype_overflow",
        files={"b.csv": "v\n100\n200\n300\n"},
        wrong="""\
import pandas as pd
b = pd.read_csv("b.csv").astype({"v": "uint8"})
print(b["v"].mean())
""",
        right="""\
import pandas as pd
b = pd.read_csv("b.csv").astype({"v": "uint16"})
print(b["v"].mean())
""",
    ),
    Pair(
        name="a product of small integers",
        expects="python.overflow",
        wrong="""\
import numpy as np
area = np.int16(300) * np.int16(200)
area
""",
        right="""\
import numpy as np
area = np.int64(300) * np.int64(200)
area
""",
    ),
    Pair(
        name="an exponential too far",
        expects="python.overflow",
        wrong="""\
import numpy as np
x = np.array([1.0, 1000.0])
print((np.exp(x) / (1 + np.exp(x)))[0].round(3))
""",
        right="""\
import numpy as np
x = np.array([1.0, 1000.0])
print((1 / (1 + np.exp(-x)))[0].round(3))
""",
    ),
    Pair(
        name="the logarithm of a loss",
        expects="python.invalid_value",
        wrong="""\
import numpy as np
gains = np.array([10.0, -5.0, 20.0])
print(np.nanmean(np.log(gains)).round(3))
""",
        right="""\
import numpy as np
gains = np.array([10.0, -5.0, 20.0])
print(np.log(gains[gains > 0]).mean().round(3), "of gains, and losses:", int((gains <= 0).sum()))
""",
    ),
    Pair(
        name="shares of a bill",
        expects="python.float_money",
        files={"bill.txt": "19.99\n5.01\n0.07\n"},
        wrong="""\
total_cost = sum(float(line) for line in open("bill.txt"))
tax = total_cost * 0.07
print("tax", tax, "total", total_cost + tax)
""",
        right="""\
total_cost = sum(round(100 * float(line)) for line in open("bill.txt"))
tax = round(total_cost * 0.07)
print("tax", tax / 100, "total", (total_cost + tax) / 100)
""",
    ),
    Pair(
        name="change to give back",
        expects="python.float_money",
        wrong="""\
price, paid = 4.35, 10
cents = int((paid - price) * 100)
balance = paid - price - 5.6
print(cents, balance)
""",
        right="""\
from decimal import Decimal
price, paid = Decimal("4.35"), Decimal(10)
cents = int((paid - price) * 100)
balance = paid - price - Decimal("5.6")
print(cents, balance)
""",
    ),
    Pair(
        name="a stamp read as local",
        expects="python.naive_time",
        wrong="""\
from datetime import datetime
when = datetime.utcfromtimestamp(0)
print(when.astimezone().isoformat())
""",
        right="""\
from datetime import datetime, timezone
when = datetime.fromtimestamp(0, tz=timezone.utc)
print(when.astimezone().isoformat())
""",
    ),
]
