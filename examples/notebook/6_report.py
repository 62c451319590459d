"""A chart and a report of two pages, from the table that SQL has left behind."""

import matplotlib.pyplot as plt
import pandas as pd
from fpdf import FPDF

revenue = pd.read_excel("revenue.xlsx").pivot(index="month", columns="region", values="revenue")
ax = revenue.plot.bar(stacked=True, figsize=(8, 4), title="Revenue by month and region")
ax.set_xlabel("")
ax.set_ylabel("EUR")
plt.tight_layout()
plt.savefig("revenue.png", dpi=120)

best = revenue.sum().idxmax()
report = FPDF()
report.add_page()
report.set_font("helvetica", "B", 18)
report.cell(0, 14, "Orders of a year", new_x="LMARGIN", new_y="NEXT")
report.set_font("helvetica", size=11)
said = f"Revenue was {revenue.to_numpy().sum():,.2f} EUR. The {best} brought most of it."
report.multi_cell(0, 6, said, new_x="LMARGIN", new_y="NEXT")
report.image("revenue.png", w=180)
report.add_page()
report.set_font("helvetica", "B", 14)
report.cell(0, 12, "Bought together", new_x="LMARGIN", new_y="NEXT")
report.image("together.png", w=120)
report.output("report.pdf")
print(f"{revenue.to_numpy().sum():,.2f} EUR")
