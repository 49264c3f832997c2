"""Experts: predictors beside the network, each a module with `fit`, and their weights (`base`, `stacking`, `weights`).

`rules` and `rule_columns` search for exact relations; they need no torch, and importing this package loads none.
"""
