"""The files by which a peer in an environment of its own is asked, and answers. Runs there, without kbdisk.

`python -m benchmarks.peers.NAME FOLDER` reads these files of FOLDER:

    request.json     what is asked: `Request`
    table.csv        the columns of the request; an empty field is a missing value
    records.jsonl    in place of the table, for language models: each entity as an object of keys and values
    links.csv        in place of the table, where links are ranked: part (given, asked or known), head, relation and tail
    triples.csv      in place of the table, where numbers of a graph are asked for: head, relation and tail; beside it
    numbers.csv      node, attribute and value

and writes

    answer.csv       the asked columns of every row where cells are filled; all columns of new rows where rows are drawn;
                     the rank of the tail and of the head of each asked link; the value of each asked number
    answer.jsonl     in place of it, where there were records: a value for each question, null for none
    answer.json      seconds of fitting and filling, what both used, and settings; or the sentence that says what cannot be done
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.peers.usage import CPU, MEMORY, Meter

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray

FIRST_BLOCK = 10  # rows
RANKED_AT_ONCE = 256  # links
Record = dict[str, Any]  # key -> a number, a string or a truth
Settings = dict[str, Any]

BLOCK_SHARE = 0.1  # of the time left
REQUEST, TABLE, ANSWER, REPORT = "request.json", "table.csv", "answer.csv", "answer.json"
RECORDS, VALUES, LINKS = "records.jsonl", "answer.jsonl", "links.csv"
COMPLETE = "complete"  # the task of language models
RANK = "rank"  # the task of what predicts links
LITERALS = "literals"  # the task of what predicts the numbers of a graph's nodes
TRIPLES, NUMBERS = "triples.csv", "numbers.csv"


class Graph(NamedTuple):
    """The triples and the numbers of nodes."""

    triples: pandas.DataFrame  # head, relation, tail
    numbers: pandas.DataFrame  # node, attribute, value


class CannotError(Exception):
    """What a peer cannot do, in a sentence."""


@dataclass(frozen=True)
class Request:
    """What is asked of a peer."""

    task: str  # "fill", "sample", COMPLETE, RANK or LITERALS
    numbers: list[str]  # names of columns
    labels: list[str]
    seed: int
    seconds: float | None = None  # None: no limit
    asked: list[str] = field(default_factory=list)  # columns with cells to fill
    rows: list[int] = field(default_factory=list)  # with cells to fill
    train_count: int = 0  # where cells are filled: rows to learn from, the first ones
    count: int = 0  # rows to draw
    target: str = ""  # where rows are drawn: the column that is to be predicted from the others
    questions: list[tuple[int, str, bool]] = field(
        default_factory=list
    )  # of records: entity, key, whether it is a number
    weights: str = ""  # the folder of a pretrained model
    entities: int = 0  # where links are ranked: all that may be an end
    relations: int = 0
    literals: list[tuple[int, int]] = field(default_factory=list)  # asked numbers of a graph: node, attribute

    def write(self, folder: Path) -> None:
        """Store it."""
        (folder / REQUEST).write_text(json.dumps(asdict(self)), "utf-8")

    def read_table(self, folder: Path) -> pandas.DataFrame:
        """The table: floats and strings, both with gaps."""
        import pandas

        kinds: dict[str, Any] = dict.fromkeys(self.numbers, float) | dict.fromkeys(self.labels, str)
        table = pandas.read_csv(folder / TABLE, dtype=kinds, keep_default_na=False, na_values=[""])
        return table[[*self.numbers, *self.labels]]

    def read_links(self, folder: Path) -> pandas.DataFrame:
        """The links of all parts."""
        import pandas

        return pandas.read_csv(folder / LINKS)

    def read_graph(self, folder: Path) -> Graph:
        """The triples and numbers."""
        import pandas

        return Graph(pandas.read_csv(folder / TRIPLES), pandas.read_csv(folder / NUMBERS))

    def read_records(self, folder: Path) -> list[Record]:
        """The entities, as objects of keys and values."""
        return [json.loads(line) for line in (folder / RECORDS).read_text("utf-8").splitlines()]

    @property
    def limit(self) -> float:
        """The seconds as a number."""
        return float("inf") if self.seconds is None else self.seconds


@dataclass
class Clock:
    """The time since a peer's packages were imported, when its fitting ended, and what each phase used."""

    limit: float
    begun: float = field(default_factory=time.monotonic)
    fit_seconds: float = 0.0
    meter: Meter = field(default_factory=Meter)  # of the present phase
    usage: dict[str, dict[str, float]] = field(default_factory=lambda: {CPU: {}, MEMORY: {}})

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.limit - self.elapsed)

    def refuse_no_time(self) -> None:
        """CannotError where there is no time to train."""
        if self.limit <= 0:
            raise CannotError("expected time to train, got none. Give it a longer budget.")

    def end_fit(self) -> None:
        """Note the seconds of fitting and what it used; filling or drawing follows."""
        self.fit_seconds = self.elapsed
        self.end_phase("fit")

    def end_phase(self, name: str) -> None:
        """Note what a phase used."""
        for resource, figure in self.meter.read().items():
            self.usage[resource][name] = figure
        self.meter = Meter()


def set_threads() -> None:
    """Let torch use as many threads as OMP_NUM_THREADS says, if it says a number."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))


def timed_blocks(rows: list[int], turns: int, clock: Clock) -> Iterator[list[int]]:
    """Blocks of rows, several times over, until the time is over. The first block is small, and is there in any case.

    Each further block is as large as a tenth of the time left allows, by what the rows before it took.
    """
    begun, done = clock.elapsed, 0
    while done < turns * len(rows):
        begin, size = done % len(rows), FIRST_BLOCK
        if done:
            a_row = (clock.elapsed - begun) / done
            if clock.left <= a_row:
                return
            size = max(1, int(min(BLOCK_SHARE * clock.left / max(a_row, 1e-9), len(rows))))
        block = rows[begin : begin + size]
        yield block
        done += len(block)


def filtered_ranks(
    links: pandas.DataFrame, end: str, scores: Callable[[NDArray[np.int64]], NDArray[np.floating[Any]]]
) -> list[float]:
    """The ranks of one end, head or tail, of the asked links: among all entities but other right answers.

    Scores (b, entities) are those of each entity as that end of links (b, 2), which are given as head and relation, or
    as relation and tail. Equal scores share the mean of their ranks.
    """
    import numpy as np

    pair = ["head", "relation"] if end == "tail" else ["relation", "tail"]
    answers = links.groupby(pair)[end].unique()
    asked = links[links["part"] == "asked"]
    ranks = []
    for start in range(0, len(asked), RANKED_AT_ONCE):
        block = asked[start : start + RANKED_AT_ONCE]
        for key, answer, row in zip(
            block[pair].itertuples(index=False, name=None), block[end], scores(block[pair].to_numpy()), strict=True
        ):
            others = np.delete(row, answers[key])
            ranks.append(1 + float((others > row[answer]).sum()) + float((others == row[answer]).sum()) / 2)
    return ranks


Work = Callable[[Request, Any, Clock], tuple[Any, Settings]]  # of a table, links, records or a graph: a table or values


def serve(**works: Work) -> None:
    """Answer the request in the folder that the command line names, by the function of its task."""
    folder = Path(sys.argv[1])
    request = Request(**json.loads((folder / REQUEST).read_text("utf-8")))
    are_records = request.task == COMPLETE
    readers = {COMPLETE: request.read_records, RANK: request.read_links, LITERALS: request.read_graph}
    data: Any = readers.get(request.task, request.read_table)(folder)
    clock = Clock(request.limit)
    try:
        answer, settings = works[request.task](request, data, clock)
    except CannotError as error:
        report: dict[str, Any] = {"cannot": str(error)}
    else:
        clock.end_phase("fill")
        if are_records:
            (folder / VALUES).write_text("".join(json.dumps(value) + "\n" for value in answer), "utf-8")
        else:
            answer.to_csv(folder / ANSWER, index=False)
        fit = clock.fit_seconds
        seconds = {"fit": fit, "fill": clock.elapsed - fit}
        report = {"seconds": seconds, "usage": clock.usage, "settings": settings}
    (folder / REPORT).write_text(json.dumps(report), "utf-8")
