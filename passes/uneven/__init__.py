"""Dimensions that their mesh axes do not divide: padded before anything is planned.

`pad.py` is the pass. `components.py` says which dimensions grow together, of what operations say
(`ties.py`), `classes.py` how long they become, and `cheapest.py` whether a plan takes less if they
become longer still. `rewrite.py` writes the program anew, with values in several sizes
(`values.py`).
"""
