"""The pairs that were written before the rules: the rules were made with these in sight."""

from python_pair import Pair

_ORDERS = "order_id,customer,amount\n1,ann,10.5\n2,bob,20\n3,ann,5\n4,cid,7\n"

PAIRS = [
    Pair(
        name="fallback that is printed",
        expects="python.swallowed_exception",
        files={"rates.json": '{"usd": "1,08"}'},
        wrong="""\
import json
try:
    rate = float(json.load(open("rates.json"))["usd"])
except Exception:
    rate = 1.0
print("total in usd:", 250 * rate)
""",
        right="""\
import json
rate = float(json.load(open("rates.json"))["usd"].replace(",", "."))
print("total in usd:", 250 * rate)
""",
    ),
    Pair(
        name="rows skipped in silence",
        expects="python.swallowed_exception",
        files={"amounts.txt": "10\n20\nthirty\n40\n"},
        wrong="""\
total = 0
for line in open("amounts.txt"):
    try:
        total += int(line)
    except:
        pass
print(total)
""",
        right="""\
total, bad = 0, []
for line in open("amounts.txt"):
    try:
        total += int(line)
    except ValueError:
        bad.append(line.strip())
print(total, "not read:", bad)
""",
    ),
    Pair(
        name="answer typed in by hand",
        expects="python.constant_answer",
        files={"orders.csv": _ORDERS},
        wrong="""\
import pandas as pd
df = pd.read_csv("orders.csv")
answer = 42.5
print("The total is", answer)
""",
        right="""\
import pandas as pd
df = pd.read_csv("orders.csv")
answer = df["amount"].sum()
print("The total is", answer)
""",
    ),
    Pair(
        name="money in floats",
        expects="python.float_money",
        files={"invoice.txt": "0.1\n0.2\n0.3\n"},
        wrong="""\
total_price = 0.0
for line in open("invoice.txt"):
    total_price += float(line)
print(total_price)
""",
        right="""\
from decimal import Decimal
total_price = Decimal(0)
for line in open("invoice.txt"):
    total_price += Decimal(line.strip())
print(total_price)
""",
    ),
    Pair(
        name="equality of floats",
        expects="python.float_equality",
        wrong="""\
parts = [0.1, 0.2]
if parts[0] + parts[1] == 0.3:
    print("complete")
else:
    print("incomplete")
""",
        right="""\
import math
parts = [0.1, 0.2]
if math.isclose(parts[0] + parts[1], 0.3):
    print("complete")
else:
    print("incomplete")
""",
    ),
    Pair(
        name="unseeded sample",
        expects="python.unseeded_random",
        wrong="""\
import random
population = list(range(1000))
sample = random.sample(population, 10)
print(sum(sample) / len(sample))
""",
        right="""\
import random
random.seed(7)
population = list(range(1000))
sample = random.sample(population, 10)
print(sum(sample) / len(sample))
""",
    ),
    Pair(
        name="chained assignment",
        expects="pandas.chained_assignment",
        files={"orders.csv": _ORDERS},
        wrong="""\
import pandas as pd
df = pd.read_csv("orders.csv")
df[df["amount"] < 8]["amount"] = 0
print(df["amount"].sum())
""",
        right="""\
import pandas as pd
df = pd.read_csv("orders.csv")
df.loc[df["amount"] < 8, "amount"] = 0
print(df["amount"].sum())
""",
    ),
    Pair(
        name="largest of texts",
        expects="python.text_number_compare",
        files={"scores.csv": "name,score\nann,9\nbob,10\ncid,7\n"},
        wrong="""\
import csv
rows = list(csv.DictReader(open("scores.csv")))
best = max(rows, key=lambda row: row["score"])
print(best["name"])
""",
        right="""\
import csv
rows = list(csv.DictReader(open("scores.csv")))
best = max(rows, key=lambda row: int(row["score"]))
print(best["name"])
""",
    ),
    Pair(
        name="identity with a literal",
        expects="python.is_literal",
        files={"n.txt": "1000"},
        wrong="""\
n = int(open("n.txt").read())
print("full" if n is 1000 else "not full")
""",
        right="""\
n = int(open("n.txt").read())
print("full" if n == 1000 else "not full")
""",
    ),
    Pair(
        name="default that grows",
        expects="python.mutable_default",
        wrong="""\
def collect(names, seen=[]):
    for name in names:
        if name not in seen:
            seen.append(name)
    return seen
first = collect(["a", "b"])
second = collect(["c"])
print(len(first), len(second))
""",
        right="""\
def collect(names, seen=None):
    seen = [] if seen is None else seen
    for name in names:
        if name not in seen:
            seen.append(name)
    return seen
first = collect(["a", "b"])
second = collect(["c"])
print(len(first), len(second))
""",
    ),
    Pair(
        name="UTC time taken for local",
        expects="python.naive_time",
        wrong="""\
from datetime import datetime
stamp = datetime.utcfromtimestamp(1_700_000_000)
print(stamp.timestamp() == 1_700_000_000)
""",
        right="""\
from datetime import datetime, timezone
stamp = datetime.fromtimestamp(1_700_000_000, tz=timezone.utc)
print(stamp.timestamp() == 1_700_000_000)
""",
    ),
    Pair(
        name="many to many",
        expects="pandas.merge_multiplied",
        files={
            "orders.csv": "customer,amount\nann,10\nann,20\nbob,5\n",
            "visits.csv": "customer,page\nann,x\nann,y\nbob,x\n",
        },
        wrong="""\
import pandas as pd
orders, visits = pd.read_csv("orders.csv"), pd.read_csv("visits.csv")
both = orders.merge(visits, on="customer")
print(both["amount"].sum())
""",
        right="""\
import pandas as pd
orders, visits = pd.read_csv("orders.csv"), pd.read_csv("visits.csv")
counts = visits.groupby("customer", as_index=False).size()
both = orders.merge(counts, on="customer")
print(both["amount"].sum(), both["size"].max())
""",
    ),
    Pair(
        name="a lookup with two entries for one key",
        expects="pandas.merge_multiplied",
        files={
            "sales.csv": "sku,units\nA,5\nB,7\nC,1\n",
            "prices.csv": "sku,price\nA,2\nB,3\nB,4\nC,9\n",
        },
        wrong="""\
import pandas as pd
sales, prices = pd.read_csv("sales.csv"), pd.read_csv("prices.csv")
full = sales.merge(prices, on="sku", how="left")
print((full["units"] * full["price"]).sum())
""",
        right="""\
import pandas as pd
sales, prices = pd.read_csv("sales.csv"), pd.read_csv("prices.csv")
latest = prices.drop_duplicates("sku", keep="last")
full = sales.merge(latest, on="sku", how="left")
print((full["units"] * full["price"]).sum())
""",
    ),
    Pair(
        name="an inner join that matches nothing",
        expects="pandas.merge_empty",
        files={
            "a.csv": "code,x\nAB ,1\nCD ,2\n",
            "b.csv": "code,y\nAB,3\nCD,4\n",
        },
        wrong="""\
import pandas as pd
a, b = pd.read_csv("a.csv"), pd.read_csv("b.csv")
print(a.merge(b, on="code")["y"].sum())
""",
        right="""\
import pandas as pd
a, b = pd.read_csv("a.csv"), pd.read_csv("b.csv")
a["code"] = a["code"].str.strip()
print(a.merge(b, on="code")["y"].sum())
""",
    ),
    Pair(
        name="dropna over an unrelated column",
        expects="pandas.rows_dropped",
        files={"people.csv": "name,age,note\nann,30,\nbob,40,x\ncid,50,\ndan,20,\n"},
        wrong="""\
import pandas as pd
people = pd.read_csv("people.csv").dropna()
print(people["age"].mean())
""",
        right="""\
import pandas as pd
people = pd.read_csv("people.csv").dropna(subset=["age"])
print(people["age"].mean())
""",
    ),
    Pair(
        name="coerced away",
        expects="pandas.values_lost",
        files={"sales.csv": 'day,amount\n1,"1,200"\n2,300\n3,"2,500"\n'},
        wrong="""\
import pandas as pd
sales = pd.read_csv("sales.csv")
sales["amount"] = pd.to_numeric(sales["amount"], errors="coerce")
print(sales["amount"].sum())
""",
        right="""\
import pandas as pd
sales = pd.read_csv("sales.csv", thousands=",")
sales["amount"] = pd.to_numeric(sales["amount"])
print(sales["amount"].sum())
""",
    ),
    Pair(
        name="a group without a name",
        expects="pandas.groups_dropped",
        files={"sales.csv": "region,amount\nnorth,1\n,50\nsouth,2\n,7\n"},
        wrong="""\
import pandas as pd
sales = pd.read_csv("sales.csv")
by_region = sales.groupby("region")["amount"].sum()
print(by_region.sum())
""",
        right="""\
import pandas as pd
sales = pd.read_csv("sales.csv")
by_region = sales.groupby("region", dropna=False)["amount"].sum()
print(by_region.sum())
""",
    ),
    Pair(
        name="sum of texts",
        expects="pandas.text_summed",
        files={"sales.csv": "day,amount\n1,12\n2,30\n3,n. a.\n4,7\n"},
        wrong="""\
import pandas as pd
sales = pd.read_csv("sales.csv")
sales = sales[sales["amount"] != "n. a."]
print(sales["amount"].sum())
""",
        right="""\
import pandas as pd
sales = pd.read_csv("sales.csv")
sales = sales[sales["amount"] != "n. a."]
print(sales["amount"].astype(int).sum())
""",
    ),
    Pair(
        name="columns that differ in case",
        expects="pandas.concat_misaligned",
        files={"jan.csv": "day,Amount\n1,10\n2,20\n", "feb.csv": "day,amount\n1,5\n2,6\n"},
        wrong="""\
import pandas as pd
year = pd.concat([pd.read_csv("jan.csv"), pd.read_csv("feb.csv")], ignore_index=True)
print(year["amount"].sum())
""",
        right="""\
import pandas as pd
months = [pd.read_csv(name).rename(columns=str.lower) for name in ("jan.csv", "feb.csv")]
year = pd.concat(months, ignore_index=True)
print(year["amount"].sum())
""",
    ),
    Pair(
        name="fractions cut off",
        expects="pandas.astype_lossy",
        files={"hours.csv": "who,hours\nann,7.5\nbob,8.25\ncid,3.75\n"},
        wrong="""\
import pandas as pd
hours = pd.read_csv("hours.csv")
hours["hours"] = hours["hours"].astype(int)
print(hours["hours"].sum())
""",
        right="""\
import pandas as pd
hours = pd.read_csv("hours.csv")
print(hours["hours"].sum())
""",
    ),
    Pair(
        name="mean of nothing",
        expects="python.not_a_number",
        files={"orders.csv": _ORDERS},
        wrong="""\
import pandas as pd
df = pd.read_csv("orders.csv")
df[df["customer"] == "Ann"]["amount"].mean()
""",
        right="""\
import pandas as pd
df = pd.read_csv("orders.csv")
df[df["customer"] == "ann"]["amount"].mean()
""",
    ),
    Pair(
        name="integers that wrap around",
        expects="python.overflow",
        wrong="""\
import numpy as np
a, b = np.int32(2_000_000_000), np.int32(2_000_000_000)
print(int(a + b))
""",
        right="""\
import numpy as np
a, b = np.int64(2_000_000_000), np.int64(2_000_000_000)
print(int(a + b))
""",
    ),
]
