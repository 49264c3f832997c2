"""All that a model can be asked, from Python.

Run: python examples/api.py 1m
"""

from __future__ import annotations

import sys
from pathlib import Path

import kbdisk

PHONES = Path(__file__).parent / "phones.jsonl"


def main(budget: str = "1m") -> None:
    """Train, and ask."""
    model = kbdisk.train(PHONES, PHONES.with_suffix(".yaml"), preset="fast", budget=budget)
    print(model, "\n")
    print("filled in:", sum(len(completion.filled) for completion in model.complete(PHONES)), "\n")

    weight = model.belief("nokia-3310", "weight")
    print(weight)
    print("the truth is", weight.given, "- and between", *weight.interval(0.9), "with 90 %\n")
    for path, belief in model.beliefs("nokia-3310").items():
        print(f"{path:24} {belief.value}  {belief.confidence:.0%} sure")

    print("\ndrawn:", model.sample(1, given={"brand": "Nokia"})[0].tree, "\n")
    print(model.evaluate(PHONES)[["path", "metric", "n", "ours", "constant"]], "\n")
    print("nats of the likeliest phone:", model.log_prob(PHONES).max().round(1))
    print("a vector for each:", model.embed(PHONES).shape)


if __name__ == "__main__":
    main(*sys.argv[1:])
