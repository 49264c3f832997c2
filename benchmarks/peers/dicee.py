"""dice-embeddings: numbers from embeddings of the graph (package dicee). Runs in an environment of its own.

Keci, the package's default model, embeds the nodes by their triples (KvsAll); then its network of literals learns each number from
the embedding of its node. Runs of one epoch, one and two say how many epochs of the embeddings the time suffices for, and a run
of one says it of the numbers.

The package fetches a tokenizer of texts from the net when it opens a graph, also where no text is read; here it gets an empty one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import tiktoken
from dicee import KGE
from dicee.config import Namespace
from dicee.executer import Execute

from benchmarks.peers.exchange import CannotError, Clock, Graph, Request, Settings, serve, set_threads

WIDTH = 64  # of an embedding: the package's default
EMBEDDING_SHARE, LITERAL_SHARE = 0.6, 0.25  # of the time
MAX_EPOCHS, MAX_LITERAL_EPOCHS = 500, 200
RATE = 0.1  # of Adam: the package's default for embeddings
MIN_TRIPLES, MIN_NUMBERS = 50, 20


def literals(request: Request, graph: Graph, clock: Clock) -> tuple[pandas.DataFrame, Settings]:
    """The asked numbers."""
    clock.refuse_no_time()
    if len(graph.triples) < MIN_TRIPLES or len(graph.numbers) < MIN_NUMBERS:
        raise CannotError(f"expected at least {MIN_TRIPLES} triples and {MIN_NUMBERS} numbers, got fewer.")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    set_threads()
    tiktoken.get_encoding = lambda name: SimpleNamespace(n_vocab=0, encode=lambda text: [0])
    with tempfile.TemporaryDirectory(prefix="kbdisk-dicee-") as folder, _silent():
        place = Path(folder)
        _named(graph.triples, "ere").to_csv(place / "train.txt", sep="\t", header=False, index=False)
        numbers = graph.numbers.assign(value=graph.numbers["value"].astype(float))
        named = _named(numbers, "ea").groupby("attribute").filter(lambda of: of["value"].std() > 0)
        named.to_csv(place / "numbers.txt", sep="\t", header=False, index=False)
        model, epochs = _embedded(place, clock, request.seed)
        of_literals = _learn_literals(model, place, clock, request.seed)
        clock.end_fit()
        answers = _answers(model, request)
    return pandas.DataFrame({"value": answers}), {"epochs": epochs, "literal_epochs": of_literals, "width": WIDTH}


def _named(table: pandas.DataFrame, letters: str) -> pandas.DataFrame:
    """The table with names in the place of the numbers of its first columns: e12 of a node."""
    named = table.copy()
    for column, letter in zip(table.columns, letters, strict=False):
        named[column] = letter + table[column].astype(str)
    return named


def _embedded(place: Path, clock: Clock, seed: int) -> tuple[KGE, int]:
    """The embeddings after as many epochs as their share of the time allows, and their number."""
    _trained(place, 1, seed)  # what is done once is not timed
    begun = clock.elapsed
    _trained(place, 1, seed)
    between = clock.elapsed
    model = _trained(place, 2, seed)
    of_one, of_two = between - begun, clock.elapsed - between
    an_epoch = max(of_two - of_one, of_two / 4)
    left = EMBEDDING_SHARE * clock.limit - clock.elapsed - of_one
    affordable = int(min(left / an_epoch, MAX_EPOCHS)) if clock.limit < float("inf") else MAX_EPOCHS
    return (_trained(place, affordable, seed), affordable) if affordable > 2 else (model, 2)


def _trained(place: Path, epochs: int, seed: int) -> KGE:
    args = Namespace()
    args.dataset_dir, args.path_to_store_single_run = str(place), str(place / f"run{epochs}")
    args.model, args.scoring_technique, args.embedding_dim = "Keci", "KvsAll", WIDTH
    args.num_epochs, args.lr, args.random_seed, args.eval_model = epochs, RATE, seed, "None"
    Execute(args).start()
    return KGE(path=args.path_to_store_single_run)


def _learn_literals(model: KGE, place: Path, clock: Clock, seed: int) -> int:
    """Learn the numbers; the number of epochs."""
    file, before = str(place / "numbers.txt"), clock.elapsed
    model.train_literals(train_file_path=file, num_epochs=1, random_seed=seed, device="cpu")
    an_epoch = max(clock.elapsed - before, 1e-3)
    left = (EMBEDDING_SHARE + LITERAL_SHARE) * clock.limit - clock.elapsed
    epochs = max(1, int(min(left / an_epoch, MAX_LITERAL_EPOCHS)))
    model.train_literals(train_file_path=file, num_epochs=epochs, random_seed=seed, device="cpu")
    return epochs


def _answers(model: KGE, request: Request) -> list[float]:
    """The number of each question; NaN where the model knows none of the property."""
    known = [
        place
        for place, (node, attribute) in enumerate(request.literals)
        if f"e{node}" in model.entity_to_idx and f"a{attribute}" in model.data_property_to_idx
    ]
    answers = np.full(len(request.literals), np.nan)
    if known:
        nodes = [f"e{request.literals[place][0]}" for place in known]
        attributes = [f"a{request.literals[place][1]}" for place in known]
        model.literal_model.eval()  # dropout stays on otherwise
        answers[known] = model.predict_literals(nodes, attributes)
    return [float(answer) for answer in answers]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing is printed within: the package prints tables and bars."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):  # noqa: PTH123
        yield


if __name__ == "__main__":
    serve(literals=literals)
