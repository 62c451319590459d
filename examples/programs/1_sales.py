"""A shop's year: a table, and the same numbers as a chart."""

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
months = pd.date_range("2025-01-01", periods=12, freq="MS")
regions = {"north": 900, "south": 1300, "east": 700, "west": 1050}
sales = pd.DataFrame(
    {
        "month": np.tile(months, len(regions)),
        "region": np.repeat(list(regions), 12),
        "revenue": np.concatenate(
            [
                base * (1 + 0.25 * np.sin(np.arange(12) / 12 * 2 * np.pi)) + rng.normal(0, 60, 12)
                for base in regions.values()
            ]
        ).round(2),
    }
)
print(f"{len(sales)} rows, {sales.revenue.sum():,.2f} in all")
sales.groupby("region").revenue.agg(["sum", "mean", "min", "max"]).round(1).sort_values("sum", ascending=False)

# %%
import matplotlib.pyplot as plt

by_month = sales.pivot(index="month", columns="region", values="revenue")
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=[2, 1])
left.plot(by_month.index, by_month, marker="o", markersize=3, label=by_month.columns)
left.set(title="Revenue by month", ylabel="euros")
left.legend(ncols=2, frameon=False)
totals = by_month.sum().sort_values()
right.barh(totals.index, totals / 1000, color="#4c72b0")
right.set(title="The year in thousands")
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
left.tick_params(axis="x", rotation=30)
figure.tight_layout()
plt.show()
