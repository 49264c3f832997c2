"""A run: the settings of a model and its training, in one value. Presets, and run files that change them.

    [train]
    rate = 1e-3
    [model]
    width = 256
    [codec.kinds.number]
    belief = "binned"

An unknown key is an error that lists the known ones; what a run file leaves out is the preset's.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Self

from kbdisk.data import CodecConfig
from kbdisk.data.config import EvidenceConfig
from kbdisk.errors import ConfigError
from kbdisk.experts import EXPERTS, experts_of
from kbdisk.experts.config import (
    BoostedTreesConfig,
    GaussianProcessConfig,
    GivenOnlyConfig,
    KNNConfig,
    LabelRegressionConfig,
    LatentKNNConfig,
    LinkFactorizationConfig,
    PresenceTreesConfig,
    PropagationConfig,
)
from kbdisk.leaves.category import CategoryConfig
from kbdisk.leaves.link import LinkConfig
from kbdisk.leaves.number import NumberConfig
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.leaves.set import SetConfig
from kbdisk.leaves.text.codec import TextConfig
from kbdisk.model.masking import Hiding
from kbdisk.model.network import ModelConfig
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.training.config import TrainConfig


@dataclass(frozen=True)
class Run:
    """The settings, by table."""

    preset: str = "default"
    seed: int = 0  # of the split and of every draw in training
    codec: CodecConfig = field(default_factory=CodecConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    hiding: Hiding = field(default_factory=lambda: Hiding(rate="few", everything=0.1, nothing=0.1))
    train: TrainConfig = field(default_factory=TrainConfig)
    experts: Mapping[str, Any] = field(
        default_factory=dict
    )  # by name, in the order of EXPERTS; defaults where none is given

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 63:
            raise ConfigError("seed", f"expected a whole number from 0 to 2 ** 63 - 1, got {self.seed!r}.")
        if unknown := self.experts.keys() - EXPERTS.keys():
            raise ConfigError("experts", f"expected some of {', '.join(EXPERTS)}, got {', '.join(sorted(unknown))}.")
        complete = {name: self.experts.get(name) or kind.config() for name, kind in EXPERTS.items()}
        object.__setattr__(self, "experts", complete)
        if self.experts_share >= 1:
            raise ConfigError(
                ", ".join(f"{name}.share" for name in experts_of("stack", "answer")),
                f"expected less than 1 in all, got {self.experts_share:g}.",
            )

    @property
    def experts_share(self) -> float:
        """The share of a time budget for experts."""
        return float(sum(self.experts[name].share for name in experts_of("stack", "answer")))

    @classmethod
    def of(cls, preset: str) -> Self:
        """A preset by its name."""
        if preset not in PRESETS:
            raise ConfigError("--preset", f"expected one of {', '.join(PRESETS)}, got {preset!r}.")
        return cls(preset, **PRESETS[preset])

    def with_file(self, file: str | FilePath) -> Self:
        """Itself with the settings of a run file."""
        try:
            tables = tomllib.loads(FilePath(file).read_text("utf-8"))
        except OSError as error:
            raise ConfigError(str(file), f"cannot be read: {(error.strerror or str(error)).lower()}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(str(file), f"expected TOML, got what is none: {error}.") from None
        except RecursionError:
            raise ConfigError(str(file), "expected TOML, got brackets nested too deeply to be read.") from None
        if "preset" in tables:
            raise ConfigError(f"{file}: preset", "is chosen beside the run file: say --preset.")
        changed: Self = _changed(self, tables, str(file), ())
        return changed

    def with_experts(self, **settings: Any) -> Self:
        """Itself with other settings of some experts."""
        return replace(self, experts={**self.experts, **settings})

    def with_train(self, **choices: Any) -> Self:
        """Itself with other settings of training."""
        return replace(self, train=replace(self.train, **choices))

    def to_json(self) -> dict[str, Any]:
        """Itself as plain data; the settings of each expert are a table beside the others."""
        data = asdict(self)
        experts = data.pop("experts")
        return {**data, **experts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The run of plain data."""
        tables = {name: config(**data[name]) for name, config in TABLES.items()}
        experts = {name: kind.config(**data[name]) for name, kind in EXPERTS.items() if name in data}
        return cls(data["preset"], data["seed"], CodecConfig.from_json(data["codec"]), **tables, experts=experts)


TABLES: dict[str, Any] = {"model": ModelConfig, "hiding": Hiding, "train": TrainConfig}


def unknown_tables(data: Mapping[str, Any]) -> list[str]:
    """The tables of a run as plain data that no expert here has: those of experts of packages that are not imported."""
    return sorted(data.keys() - {"preset", "seed", "codec", *TABLES, *EXPERTS})


def _changed(base: Any, table: Mapping[str, Any], file: str, at: tuple[str, ...]) -> Any:
    """A dataclass, or a mapping of dataclasses, with the settings of a table of the run file."""
    known = (
        {setting.name: getattr(base, setting.name) for setting in fields(base)} if is_dataclass(base) else dict(base)
    )
    if isinstance(base, Run):
        known |= known.pop("experts")
    changes: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{file}: {'.'.join((*at, key))}"
        if key not in known:
            names = sorted(known.keys() - {"preset"})
            raise ConfigError(where, f"unknown key.{did_you_mean(key, names)} Known keys: {', '.join(names)}.")
        if is_dataclass(known[key]) or isinstance(known[key], Mapping):
            if not isinstance(value, dict):
                raise ConfigError(where, f"expected a table, got {value!r}.")
            changes[key] = _changed(known[key], value, file, (*at, key))
        else:
            changes[key] = _typed(base, key, known[key], value, where)
    if isinstance(base, Run):
        experts = {name: changes.pop(name) for name in base.experts if name in changes}
        changes["experts"] = {**base.experts, **experts}
    try:
        return {**base, **changes} if isinstance(base, Mapping) else replace(base, **changes)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{file}: {'.'.join(at)}".removesuffix(": "), f"{error}.") from None


def _typed(base: Any, key: str, old: Any, value: Any, where: str) -> Any:
    """A value of the type that the field has; a whole number may stand for a float."""
    annotation = str({setting.name: setting.type for setting in fields(base)}[key])
    kinds: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str, "tuple": list}
    wanted = next((name for name in ("float", "int", "bool", "str", "tuple") if annotation.startswith(name)), "str")
    fits = isinstance(value, kinds[wanted]) and (wanted == "bool" or not isinstance(value, bool))
    fits = fits and not (isinstance(value, float) and not math.isfinite(value))
    if not fits:
        raise ConfigError(where, f"expected {_NAMES[wanted]}, got {value!r}.")
    if type(value) is int and abs(value) >= LARGEST:
        raise ConfigError(where, f"expected a number of at most 64 bits, got one of {value.bit_length():,}.")
    return tuple(value) if wanted == "tuple" else value


LARGEST = 1 << 63
_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "tuple": "a list"}


def _kinds(**configs: Any) -> dict[str, Any]:
    return {name: configs.get(name) or kind.config() for name, kind in LEARNT_KINDS.items()}


VALUE_FACTORIZATION = LinkFactorizationConfig(share=0.08, rank=64, max_scored=512, queries=200)

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {
        "model": ModelConfig(width=64, dropout=0.05),
        "train": TrainConfig(batch=0, rate=3e-3, smoothing=0.99, seconds=60, evaluations=10, patience=4),
        "codec": CodecConfig(pooling=True),
        "experts": {
            "latent_knn": LatentKNNConfig(values=1 << 15),
            "knn": KNNConfig(share=0.06),
            "gaussian_process": GaussianProcessConfig(share=0.04),
            "label_regression": LabelRegressionConfig(share=0.06),
            "boosted_trees": BoostedTreesConfig(share=0.36),
            "value_factorization": VALUE_FACTORIZATION,
            "given_only": GivenOnlyConfig(share=0.03),
            "propagation": PropagationConfig(share=0.01),
            "close_propagation": PropagationConfig(share=0.02),
            "presence_trees": PresenceTreesConfig(share=0.1),
            "link_factorization": LinkFactorizationConfig(share=0.1),
        },
    },
    "default": {
        "model": ModelConfig(width=0, dropout=0.05),
        "train": TrainConfig(members=2, batch=0, rate=3e-3, course="plateau", seconds=900),
        "codec": CodecConfig(pooling=True),
        "experts": {
            "knn": KNNConfig(share=0.06),
            "gaussian_process": GaussianProcessConfig(share=0.04),
            "label_regression": LabelRegressionConfig(share=0.06),
            "boosted_trees": BoostedTreesConfig(share=0.36),
            "value_factorization": VALUE_FACTORIZATION,
            "given_only": GivenOnlyConfig(share=0.03),
            "propagation": PropagationConfig(share=0.01),
            "close_propagation": PropagationConfig(share=0.02),
            "presence_trees": PresenceTreesConfig(share=0.1),
            "link_factorization": LinkFactorizationConfig(share=0.1),
        },
    },
    "best": {
        "model": ModelConfig(width=0, dropout=0.05),
        "train": TrainConfig(members=4, batch=0, rate=3e-3, course="plateau", seconds=3600),
        "codec": CodecConfig(pooling=True),
        "experts": {
            "knn": KNNConfig(share=0.12),
            "gaussian_process": GaussianProcessConfig(share=0.06),
            "label_regression": LabelRegressionConfig(share=0.03),
            "boosted_trees": BoostedTreesConfig(share=0.15),
            "value_factorization": VALUE_FACTORIZATION,
            "given_only": GivenOnlyConfig(share=0.03),
            "propagation": PropagationConfig(share=0.01),
            "close_propagation": PropagationConfig(share=0.02),
            "presence_trees": PresenceTreesConfig(share=0.1),
            "link_factorization": LinkFactorizationConfig(share=0.1),
        },
    },
    # Links alone, all the time.
    "links": {
        "model": ModelConfig(width=16),
        "train": TrainConfig(members=0, seconds=300),
        "experts": {
            "latent_knn": LatentKNNConfig(neighbours=0),
            "link_factorization": LinkFactorizationConfig(share=0.999),
        },
    },
    # To draw entities: conditionals in one order (in others, too, where there are few rows), and an ensemble of four.
    "synthetic": {
        "model": ModelConfig(width=0, dropout=0.05),
        "hiding": Hiding(rate="few", ordered=None),
        "train": TrainConfig(members=4, more=4, batch=0, rate=3e-3, course="plateau", seconds=1200, validation=0.1),
        "experts": {
            "latent_knn": LatentKNNConfig(neighbours=0),
        },
    },
    # The row of the paper's ablation that its main table equals: DICE, width 512, rate 0.001, a random masking rate,
    # 50 components, untied. The loss, the masks and the blocks as in its code; nothing that it does not have.
    "paper": {
        "codec": CodecConfig(
            sharing="disjoint",
            evidence=EvidenceConfig(outgoing=False, incoming=False, several=False, chains=False),
            kinds=_kinds(
                number=NumberConfig(
                    code="minmax", embedding="dice", waves=False, belief="mixture", components=50, atoms=0, point=0.0
                ),
                category=CategoryConfig(unread=0.0),
                link=LinkConfig(unread=0.0),
                set=SetConfig(unread=0.0),
                text=TextConfig(heads=2, grams=0, blank=0.1, decoding="greedy"),
            ),
        ),
        "model": ModelConfig(width=512, layers=2, heads=2, hidden=2, blocks=2, dropout=0.1, base=8),
        "hiding": Hiding(rate="batch", together=0.0, nothing=0.0),
        "train": TrainConfig(
            batch=1024,
            parts=1,
            optimizer="adamw",
            rate=1e-3,
            decay=0.0,
            warmup=0,
            steps=180_000,
            smoothing=0.0,
            patience=1000,
            validation=0.1,
            absent=0,
            presence=0.0,
            balance=False,
            objective="field-mean",
            precision="float32",
        ),
        "experts": {
            "latent_knn": LatentKNNConfig(neighbours=0),
        },
    },
}
