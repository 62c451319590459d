"""Files to take away: a PDF and a spreadsheet with two sheets, made from a made-up stock list."""

# %%
import pandas as pd
from fpdf import FPDF

items = pd.DataFrame(
    [
        ("A-100", "bolt M8", 1200, 0.12),
        ("A-101", "nut M8", 950, 0.08),
        ("B-200", "hinge", 140, 2.40),
        ("C-310", "door handle", 36, 11.90),
        ("C-311", "lock", 18, 24.50),
    ],
    columns=["number", "item", "count", "price"],
)
items["value"] = (items["count"] * items["price"]).round(2)

with pd.ExcelWriter("stock.xlsx") as book:
    items.to_excel(book, sheet_name="items", index=False)
    items.loc[items["count"] < 50].to_excel(book, sheet_name="to order", index=False)

page = FPDF()
page.add_page()
page.set_font("Helvetica", "B", 18)
page.cell(0, 14, "Stock", new_x="LMARGIN", new_y="NEXT")
page.set_font("Helvetica", size=11)
with page.table(col_widths=(20, 40, 20, 20, 25), text_align=("LEFT", "LEFT", "RIGHT", "RIGHT", "RIGHT")) as table:
    table.row(list(items.columns))
    for row in items.itertuples(index=False):
        table.row([str(value) for value in row])
page.cell(0, 14, f"In all: {items['value'].sum():.2f} euros")
page.output("stock.pdf")
items
