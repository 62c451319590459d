"""A mistake that models make often: a column that is called differently. The failure says how to mend it."""

# %%
import pandas as pd

orders = pd.DataFrame({"Customer": ["Ada", "Ben", "Ada"], "Revenue": [120.0, 80.0, 45.5]})
print("grouping", len(orders), "orders")
orders.groupby("Customer").revenue.sum()
