"""A trace as text and as a page.

In: a `Trace`, and how much of it is folded. Out: text forms for people at a terminal, for models that are trained on
them and for tests (`FORMS`), and one HTML file to step through the run.
Open `forms.py` first for text, `page.py` for the page.
"""
