"""TabularARGN imputes the missing cells of a table. `benchmarks.untouched` runs it in an environment of its own, without kbdisk.

python tabular_argn.py TRAIN.csv TEST.csv OUT.csv SECONDS DRAWS SEED

It learns from TRAIN for SECONDS, and fills TEST with the median of its DRAWS, or with the most frequent label.
"""

import sys
from collections.abc import Iterable

import pandas
from mostlyai.engine import TabularARGN


def main(train_file: str, test_file: str, out_file: str, seconds: str, draws: str, seed: str) -> None:
    train, test = pandas.read_csv(train_file), pandas.read_csv(test_file)
    model = TabularARGN(
        max_training_time=float(seconds) / 60, value_protection=False, random_state=int(seed), device="cpu"
    )
    model.fit(train)
    imputed = model.impute(test, n_draws=int(draws), agg_fn="list")
    filled = pandas.DataFrame(
        {
            name: [_estimate(cell, pandas.api.types.is_numeric_dtype(train[name])) for cell in imputed[name]]
            for name in train
        }
    )
    filled.to_csv(out_file, index=False)


def _estimate(drawn: Iterable[object], is_number: bool) -> object:
    """The median of numbers, the commonest of labels."""
    known = pandas.Series(list(drawn)).dropna()
    if not len(known):
        return None
    return known.astype(float).median() if is_number else known.mode()[0]


if __name__ == "__main__":
    main(*sys.argv[1:])
