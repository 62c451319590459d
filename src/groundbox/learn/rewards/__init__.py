"""Rewards for trainers: what a model wrote, judged by runs that it cannot steer.

In: completions, as chat messages or texts, with the columns of their data set. Out: a number for each, or None where no
verdict could be had, which trainers leave out. Open `rewarding.py` first; `reading.py` reads completions,
`environment.py` is for trainers that let a model call tools, `for_verifiers.py` for the library verifiers.
"""
