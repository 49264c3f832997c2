"""Run a peer by its name, in this process or in its environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.peers import LITERALS, PEERS, TEXTS, module_name
from benchmarks.peers.environments import missing, versions
from benchmarks.peers.protocol import (
    Fill,
    Filled,
    Imputation,
    PeerError,
    Rank,
    Ranked,
    Ranking,
    Sample,
    Sampled,
    Sampling,
)
from kbdisk.errors import ConfigError
from kbdisk.schemas.text.names import did_you_mean


def able(ability: str) -> list[str]:
    """The peers with an ability, in the order of the table."""
    return [name for name, peer in PEERS.items() if ability in peer.abilities]


def refuse_unknown(names: Iterable[str], where: str, known: Iterable[str] = PEERS) -> None:
    """ConfigError for a name that is none of these peers."""
    known = list(known)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(where, f"expected some of {', '.join(known)}, got {name!r}.{hint}")


def refuse(names: Sequence[str], ability: str, where: str) -> None:
    """ConfigError for a name of no peer with this ability, or of one that is not installed."""
    refuse_unknown(names, where, able(ability))
    for name in names:
        if problem := missing(name):
            raise ConfigError(where, f"{name}: {problem}")


def weights_of(names: Iterable[str]) -> dict[str, str]:
    """The folders of pretrained models that some methods use."""
    variables = (PEERS[name].weights for name in names if name in PEERS)
    return {variable: os.environ.get(variable, "") for variable in variables if variable}


def fill(name: str, imputation: Imputation) -> Filled:
    """The values that a peer fills in, with the versions of its packages among its settings; PeerError where it cannot."""
    run: Fill = _function(name, "fill")
    filled = run(imputation)
    return replace(filled, settings={"versions": versions(name), **filled.settings})


def sample(name: str, sampling: Sampling) -> Sampled:
    """The rows that a peer draws, with the versions of its packages among its settings; PeerError where it cannot."""
    run: Sample = _function(name, "sample")
    sampled = run(sampling)
    return replace(sampled, settings={"versions": versions(name), **sampled.settings})


def rank(name: str, ranking: Ranking) -> Ranked:
    """The ranks by which a peer finds the ends of links, with the versions of its packages among its settings; PeerError where it cannot."""
    run: Rank = _function(name, "rank")
    ranked = run(ranking)
    return replace(ranked, settings={"versions": versions(name), **ranked.settings})


def _function(name: str, task: str) -> Any:
    """The function of a peer's module for a task, or the one that asks its environment; PeerError where it is not installed."""
    if problem := missing(name):
        raise PeerError(name, problem)
    if PEERS[name].requirements:
        from benchmarks.peers import outside

        special = {TEXTS: outside.complete, LITERALS: outside.literals}
        ways = [ask for ability, ask in special.items() if ability in PEERS[name].abilities]
        return partial(ways[0] if ways else getattr(outside, task), name)
    return getattr(import_module(module_name(name)), task)
