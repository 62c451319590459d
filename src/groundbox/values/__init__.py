"""Python values as data: read and written as text and as JSON, compared, and worked out from expressions.

In: values of builtin types, or text that stands for them. Out: the same in another form, or a verdict on two of them.
Standard library only, and below everything else, so that host and guest can both load it.
Open `parsing.py`: reading programs and expressions is what is here so far (docs/layout.md says what is to come).
"""
