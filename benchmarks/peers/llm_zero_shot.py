"""A pretrained causal language model as it is: it writes the value after an entity's other keys and values, as `llm` asks.

Runs in the environment of `llm`.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.exchange import Clock, Record, Request, Settings, serve
from benchmarks.peers.llm import load, write_values


def complete(request: Request, records: list[Record], clock: Clock) -> tuple[list[Any], Settings]:
    """The values that the model writes without any training."""
    tokenizer, model = load(request, clock)
    clock.end_fit()
    return write_values(tokenizer, model, request, records, clock)


if __name__ == "__main__":
    serve(complete=complete)
