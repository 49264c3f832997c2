"""Experts: predictors beside the network. `rules` needs no torch, and importing this package loads none."""
