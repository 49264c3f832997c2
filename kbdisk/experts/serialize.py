"""Experts as safetensors: for each kind of expert one `Format`, the names, dtypes, shapes and bounds of its tensors.

A file has tensors that all properties share, such as the features of the known entities, and tensors of each property,
named `slot.level.name`. `read` trusts nothing: tensors that do not fit the table, each other or the codec are refused
by ValueError, so that no expert is ever asked with an index that is out of range or with NaN.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import save
from torch import Tensor

from kbdisk import tensors
from kbdisk.data import Codec
from kbdisk.data.propagation import GRADES
from kbdisk.data.triples import Relation, Triples
from kbdisk.experts.atom_odds import FACTORS, MAX_LOG_FACTOR, AtomFactors
from kbdisk.experts.base import LITTLE_VISIBLE, USUALLY_VISIBLE, ExpertGroup, SlotLevel, WeightedExpert
from kbdisk.experts.boosted_trees import BoostedTrees, Line, TreeGroup
from kbdisk.experts.config import MAX_NEIGHBOURS, MAX_POINTS
from kbdisk.experts.features import NUMBER, HashedFeatures, OneHotFeatures, blocks_of
from kbdisk.experts.filled_columns import Estimate, FilledColumns
from kbdisk.experts.gaussian_process import GaussianProcess, Kernel, Points
from kbdisk.experts.given_only import GivenOnly, GivenOnlyAnswer, GivenProperties
from kbdisk.experts.knn import KNN_KINDS, NUMBER_PREDICTORS, STEEPNESSES, KnownEntities, NearestNeighbours
from kbdisk.experts.label_cooccurrence import Evidence
from kbdisk.experts.label_regression import Design, LabelRegression
from kbdisk.experts.latent_knn import NUMBER_PREDICTORS as LATENT_PREDICTORS
from kbdisk.experts.latent_knn import REACHES, LatentIndex, LatentKNN
from kbdisk.experts.link_factorization import FEATURES, Correctness, Factors, LinkClassifier, LinkPredictor
from kbdisk.experts.presence_trees import HALVES, PresenceFeatures, PresenceTrees
from kbdisk.experts.propagation import CLOSE_GRADES, ClosePropagation, unweighted_group
from kbdisk.experts.target_scale import TargetScale
from kbdisk.experts.trees import MAX_LEAVES, LeafwiseTrees, SymmetricTrees
from kbdisk.experts.value_factorization import FactorFeatures, NodeSample, TripleLayout
from kbdisk.experts.value_factorization import unweighted_group as factorised_labels
from kbdisk.leaves.number.belief import AROUND_WIDTHS

Tensors: TypeAlias = Mapping[str, Tensor]
INT, BOOL, HALF, FLOAT, DOUBLE = torch.int64, torch.bool, torch.float16, torch.float32, torch.float64
ROUNDING = 1e-6  # of a sum of weights


@dataclass(frozen=True)
class Spec:
    """The dtype, shape and bounds of a stored tensor."""

    dtype: torch.dtype | None  # None: any
    shape: tuple[str | int, ...]  # sizes; equal letters are equal sizes; "..." at the end: any further dimensions
    low: float = -torch.inf
    high: float = torch.inf
    index_of: str = ""  # the letter of the size that the numbers are indices of
    may_be_infinite: bool = False
    may_be_nan: bool = False
    max_sum: float = torch.inf

    def check(self, name: str, tensor: Tensor, sizes: dict[str, int]) -> None:
        """ValueError where a tensor is not like this; adds new sizes by their letters."""
        if self.dtype not in (None, tensor.dtype):
            raise ValueError(f"{name}: expected {self.dtype}, got {tensor.dtype}")
        shape = self.shape[:-1] if self.shape[-1:] == ("...",) else self.shape
        if tensor.ndim != len(shape) and (shape == self.shape or tensor.ndim < len(shape)):
            raise ValueError(f"{name}: expected {len(shape)} dimensions, got {tensor.ndim}")
        for wanted, size in zip(shape, tensor.shape, strict=False):
            expected = wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size)
            if size != expected:
                raise ValueError(f"{name}: expected a size of {expected}, got {size}")
        low, high = (0, sizes[self.index_of] - 1) if self.index_of else (self.low, self.high)
        if tensor.is_floating_point():
            numbers = tensor[~tensor.isnan()] if self.may_be_nan else tensor
            if not self.may_be_infinite and not bool(numbers.isfinite().all()):
                raise ValueError(f"{name}: expected numbers, got NaN or infinity")
        else:
            numbers = tensor
        if numbers.dtype != BOOL and not bool(((numbers >= low) & (numbers <= high)).all()):
            raise ValueError(f"{name}: expected {low:g} to {high:g}, got others")
        if self.max_sum < torch.inf and float(numbers.sum()) > self.max_sum:
            raise ValueError(f"{name}: expected a sum of at most {self.max_sum:g}, got {float(numbers.sum()):g}")


USUAL_AMOUNT = {"usual_amount": Spec(INT, ("classes",))}
WEIGHT = {
    "weight": Spec(DOUBLE, (), 0, 1),
    "answer_weight": Spec(DOUBLE, (), 0, 1),
    "around": Spec(DOUBLE, (len(AROUND_WIDTHS),), 0, max_sum=1.0),
    "moved_share": Spec(DOUBLE, (), 0, 1),
    "factors": Spec(DOUBLE, (FACTORS,)),
}


@dataclass(frozen=True)
class Format:
    """The stored form of the experts of one kind: tables of tensors, and functions that write and read them."""

    shared: Mapping[str, Spec]
    of_property: Mapping[str, Spec]
    write: Callable[
        [Any], tuple[Tensors, Mapping[SlotLevel, Tensors]]
    ]  # the shared tensors, and those of each property
    read: Callable[[Codec, Tensors, Mapping[SlotLevel, dict[str, Tensor]]], Any]  # from tensors that fit the tables
    levels: tuple[int, ...] = (USUALLY_VISIBLE, LITTLE_VISIBLE)


def take_weight(of_property: dict[str, Tensor]) -> list[Tensor]:
    """Removes the weights from the tensors of a property; they are in the order of `WeightedExpert`."""
    return [of_property.pop(name) for name in WEIGHT]


def to_bytes(tensor_format: Format, experts: Any) -> bytes:
    """All experts of one kind."""
    shared, properties = tensor_format.write(experts)
    stored = {name: tensor.cpu().contiguous() for name, tensor in shared.items()}
    for (slot, level), of_property in properties.items():  # levels may share a tensor, which a file may not
        stored |= {f"{slot}.{level}.{name}": tensor.cpu().contiguous().clone() for name, tensor in of_property.items()}
    return save(stored)


def read(tensor_format: Format, file: Path, codec: Codec, device: torch.device) -> Any:
    """The experts of a file; ValueError or the like where a tensor does not fit."""
    stored = tensors.read(file, device)
    shared = {name: stored.pop(name) for name in tensor_format.shared}
    sizes = {"classes": len(codec.classes)}
    for name, spec in tensor_format.shared.items():
        spec.check(name, shared[name], sizes)
    properties = _by_key(stored)
    for (slot, level), of_property in properties.items():
        if not 0 <= slot < len(codec.slots) or level not in tensor_format.levels:
            raise ValueError(f"{slot}.{level}: a property of another model")
        if of_property.keys() != tensor_format.of_property.keys():
            raise ValueError(
                f"{slot}.{level}: expected {', '.join(tensor_format.of_property)}, got {', '.join(of_property)}"
            )
        own_sizes = dict(sizes)
        for name, spec in tensor_format.of_property.items():
            spec.check(f"{slot}.{level}.{name}", of_property[name], own_sizes)
        if "factors" in of_property:
            _check_factors(codec, (slot, level), of_property["factors"])
    return tensor_format.read(codec, shared, properties)


def _check_factors(codec: Codec, key: SlotLevel, factors: Tensor) -> None:
    """ValueError where the odds of an atom cannot be multiplied by these (4,)."""
    of_atom = AtomFactors(*factors.unbind())
    atoms = len(getattr(codec.slots[key[0]].codec, "atoms", ()))
    require(float(of_atom.atom) in range(atoms) or not bool(factors.any()), key, "an atom")
    require(float(of_atom.distance) >= 0, key, "a distance")
    require(float(torch.stack(of_atom[2:]).abs().max()) <= MAX_LOG_FACTOR, key, "a factor")


def _by_key(stored: Tensors) -> dict[SlotLevel, dict[str, Tensor]]:
    by_key: dict[SlotLevel, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in stored.items():
        slot, level, part = name.split(".")
        by_key[int(slot), int(level)][part] = tensor
    return dict(sorted(by_key.items()))


def require(holds: bool, key: SlotLevel, what: str) -> None:
    """ValueError where a property's tensors do not fit each other or the codec."""
    if not holds:
        raise ValueError(f"{key[0]}.{key[1]}: {what} that makes no sense")


def attributes(part: Any, names: Mapping[str, Spec]) -> dict[str, Tensor]:
    """The attributes of an object that have one of the names."""
    return {name: getattr(part, name) for name in names if hasattr(part, name)}


def _features(codec: Codec, slots: Tensor) -> HashedFeatures:
    if any(not 0 <= slot < len(codec.slots) or not blocks_of(codec.slots[slot].kind) for slot in slots.tolist()):
        raise ValueError("slots: properties of another model")
    return HashedFeatures.of(codec, slots.cpu()).to(slots.device)


def _slots_of(features: HashedFeatures) -> Tensor:
    return (features.start >= 0).nonzero()[:, 0]


# ---------------------------------------------------------------- k nearest neighbours in the network's latent space

LATENT_INDEX = {
    "keys": Spec(HALF, ("values", "width")),
    "mean": Spec(FLOAT, ("width",)),
    "deviation": Spec(FLOAT, ("width",)),
    "codes": Spec(None, ("values", "...")),
    "entities": Spec(INT, ("values",)),
    "held_out": Spec(BOOL, ("values",)),
    "mass": Spec(DOUBLE, (len(REACHES), "kernels"), 0),
    "answer_weights": Spec(DOUBLE, (LATENT_PREDICTORS,)),
    "around": WEIGHT["around"],
}


def _write_latent_knn(experts: LatentKNN) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    shared = {
        "usual_amount": experts.usual_amount,
        "held_out": experts.held_out,
        "neighbours": torch.tensor(experts.neighbours),
    }
    return shared, {key: attributes(index, LATENT_INDEX) for key, index in experts.indices.items()}


def _read_latent_knn(codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]) -> LatentKNN:
    indices = {key: LatentIndex(**tensors_of_key) for key, tensors_of_key in properties.items()}
    return LatentKNN(indices, shared["usual_amount"], shared["held_out"], int(shared["neighbours"]))


LATENT_KNN = Format(
    shared={**USUAL_AMOUNT, "held_out": Spec(INT, ("held_out",)), "neighbours": Spec(INT, (), 1)},
    of_property=LATENT_INDEX,
    write=_write_latent_knn,
    read=_read_latent_knn,
)


# ---------------------------------------------------------------- k nearest neighbours in feature space

KNN_EXPERT = {
    "rows": Spec(INT, ("values",), index_of="entities"),
    "values": Spec(None, ("values",)),
    "weights": Spec(FLOAT, ("features",), 0),
    "mixture": Spec(DOUBLE, ("predictors",), 0, 1, max_sum=1 + ROUNDING),
    **WEIGHT,
}


def _write_knn(group: ExpertGroup) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    assert isinstance(group.featurizer, HashedFeatures)
    shared = {"usual_amount": group.usual_amount, "slots": _slots_of(group.featurizer)}
    properties = {}
    for key, weighted in group.experts.items():
        assert isinstance(weighted.expert, NearestNeighbours)
        shared |= {"neighbours": torch.tensor(weighted.expert.count)}  # it and the known entities are the same for all
        shared |= {part.name: getattr(weighted.expert.known, part.name) for part in fields(KnownEntities)}
        properties[key] = attributes(weighted.expert, KNN_EXPERT) | attributes(weighted, WEIGHT)
    return shared, properties


def _read_knn(codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]) -> ExpertGroup:
    features = _features(codec, shared["slots"])
    known = KnownEntities(*(shared[part.name] for part in fields(KnownEntities)))
    if known.features.shape[1] != features.width:
        raise ValueError("features: those of another model")
    weighted = {}
    for key, of_key in properties.items():
        kind = codec.slots[key[0]].kind
        require(kind in KNN_KINDS and len(of_key["rows"]) > 0, key, "a property")
        predictors, dtype = (NUMBER_PREDICTORS, DOUBLE) if kind == "number" else (len(STEEPNESSES), INT)
        require(len(of_key["mixture"]) == predictors and of_key["values"].dtype == dtype, key, "a number of weights")
        if kind != "number":
            values = of_key["values"]
            require(bool(((values >= 0) & (values < len(codec.slots[key[0]].labels))).all()), key, "a label")
        neighbours = NearestNeighbours(
            known, of_key["rows"], of_key["values"], of_key["weights"], of_key["mixture"], int(shared["neighbours"])
        )
        weighted[key] = WeightedExpert(neighbours, *take_weight(of_key))
    return ExpertGroup(features, shared["usual_amount"], weighted)


KNN = Format(
    shared={
        **USUAL_AMOUNT,
        "slots": Spec(INT, ("slots",)),
        "neighbours": Spec(INT, (), 1, MAX_NEIGHBOURS),
        "features": Spec(HALF, ("entities", "features"), may_be_nan=True),
        "entities": Spec(INT, ("entities",)),
        "held_out": Spec(BOOL, ("entities",)),
    },
    of_property=KNN_EXPERT,
    write=_write_knn,
    read=_read_knn,
)


# ---------------------------------------------------------------- Gaussian processes

PROCESS = {
    "rows": Spec(INT, ("points",), index_of="entities"),
    "coefficients": Spec(DOUBLE, ("points", "outputs")),
    "inverse_diagonal": Spec(DOUBLE, ("points",), 0),
    "mean": Spec(DOUBLE, ("outputs",)),
    "scale": Spec(DOUBLE, ("outputs",)),
    "span": Spec(DOUBLE, (2,)),
    "knots": Spec(DOUBLE, (2, "knots")),
    "labels": Spec(INT, ("labels",)),
    "inverse_temperature": Spec(DOUBLE, ()),
    "linear": Spec(DOUBLE, ("features",), 0),
    "rbf": Spec(DOUBLE, ("features",), 0),
    "variance": Spec(DOUBLE, (), 0),
    "noise": Spec(DOUBLE, (), 0),
    **WEIGHT,
}


def _write_gaussian_process(group: ExpertGroup) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    assert isinstance(group.featurizer, HashedFeatures)
    shared = {"usual_amount": group.usual_amount, "slots": _slots_of(group.featurizer)}
    properties = {}
    for key, weighted in group.experts.items():
        assert isinstance(weighted.expert, GaussianProcess)
        shared |= {part.name: getattr(weighted.expert.points, part.name) for part in fields(Points)}  # the same for all
        parts = (weighted.expert, weighted.expert.kernel, weighted)
        properties[key] = {name: tensor for part in parts for name, tensor in attributes(part, PROCESS).items()}
    return shared, properties


def _read_gaussian_process(
    codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]
) -> ExpertGroup:
    features = _features(codec, shared["slots"])
    points = Points(*(shared[part.name] for part in fields(Points)))
    if points.features.shape[1] != features.width:
        raise ValueError("features: those of another model")
    weighted = {}
    for key, of_key in properties.items():
        kind, labels, (count, outputs) = codec.slots[key[0]].kind, of_key["labels"], of_key["coefficients"].shape
        require(kind in ("number", "category") and 0 < count <= MAX_POINTS, key, "a property")
        require(bool((of_key["knots"].diff() > 0).all()), key, "a scale")
        if kind == "number":
            require(outputs == 1 and not len(labels), key, "a number")
        else:
            known = bool(((labels >= 0) & (labels < len(codec.slots[key[0]].labels))).all())
            require(len(labels) == outputs and known, key, "a label")
        kernel = Kernel(*(of_key.pop(name) for name in Kernel._fields))
        weight = take_weight(of_key)
        weighted[key] = WeightedExpert(GaussianProcess(points, kernel=kernel, **of_key), *weight)
    return ExpertGroup(features, shared["usual_amount"], weighted)


GAUSSIAN_PROCESS = Format(
    shared={
        **USUAL_AMOUNT,
        "slots": Spec(INT, ("slots",)),
        "features": Spec(FLOAT, ("entities", "features"), may_be_nan=True),
        "entities": Spec(INT, ("entities",)),
    },
    of_property=PROCESS,
    write=_write_gaussian_process,
    read=_read_gaussian_process,
)


# ---------------------------------------------------------------- experts with one-hot features

ONE_HOT = {**USUAL_AMOUNT, "slot": Spec(INT, ("features",)), "label": Spec(INT, ("features",))}


def _write_one_hot(group: ExpertGroup) -> Tensors:
    assert isinstance(group.featurizer, OneHotFeatures)
    return {"slot": group.featurizer.slot, "label": group.featurizer.label, "usual_amount": group.usual_amount}


def _one_hot_group(shared: Tensors, experts: Mapping[SlotLevel, WeightedExpert]) -> ExpertGroup:
    if bool((shared["slot"].diff() < 0).any()):
        raise ValueError("slot: expected ascending numbers, got others")
    return ExpertGroup(OneHotFeatures(shared["slot"], shared["label"]), shared["usual_amount"], experts)


# ---------------------------------------------------------------- gradient-boosted trees

TREES = {
    "columns": Spec(INT, ("used",), index_of="features"),
    "filled": Spec(INT, ("filled",), index_of="used"),
    "labels": Spec(INT, ("labels",)),
    "label_share": Spec(DOUBLE, (), 0, 1),
    "column": Spec(INT, ("trees", "levels"), 0),
    "border": Spec(FLOAT, ("trees", "levels"), may_be_infinite=True),
    "leaves": Spec(FLOAT, ("trees", "leaves", "outputs")),
    "start": Spec(DOUBLE, ("outputs",)),
    "left": Spec(INT, ("trees_by_leaf", "splits"), 0),
    "scale": Spec(DOUBLE, ("scale",)),
    "line": Spec(DOUBLE, ("line",)),
    "line_column": Spec(INT, ("lines",), index_of="features"),
    "line_knots": Spec(DOUBLE, ("ends", "knots")),
    **WEIGHT,
}
LINE_NUMBERS = 5
ESTIMATES = 2  # in the place of a level: trees whose predictions fill a number where it is hidden, without a weight


def _write_boosted_trees(group: ExpertGroup) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    assert isinstance(group.featurizer, OneHotFeatures)
    assert isinstance(group, TreeGroup)
    every = dict(group.experts)
    for column, estimate in group.estimates.items():
        assert isinstance(estimate.expert, BoostedTrees)
        slot = int(group.featurizer.slot[column])
        every[slot, ESTIMATES] = WeightedExpert.unweighted(estimate.expert)
    properties = {key: _trees(weighted) for key, weighted in every.items()}
    return _write_one_hot(group), properties


def _trees(weighted: WeightedExpert) -> Tensors:
    expert = weighted.expert
    assert isinstance(expert, BoostedTrees)
    numbers = [] if expert.scale is None else [expert.scale.mean, expert.scale.deviation, expert.scale.least]
    return {
        "columns": expert.columns.columns,
        "filled": torch.tensor(expert.columns.places, dtype=INT),
        "labels": expert.labels,
        "label_share": expert.label_share,
        "left": torch.zeros(0, 0, dtype=INT),  # of symmetric trees
        **vars(expert.trees),
        "scale": torch.tensor(numbers, dtype=DOUBLE),
        **_line(expert.line),
        **attributes(weighted, WEIGHT),
    }


def _line(line: Line | None) -> dict[str, Tensor]:
    if line is None:
        numbers, knots = torch.zeros(0, dtype=DOUBLE), torch.zeros(2, 0, dtype=DOUBLE)
        return {"line": numbers, "line_column": torch.zeros(0, dtype=INT), "line_knots": knots}
    return {"line": line.numbers, "line_column": line.column[None], "line_knots": line.knots}


def _read_line(key: SlotLevel, of_key: Mapping[str, Tensor]) -> Line | None:
    numbers, columns, knots = of_key["line"], of_key["line_column"], of_key["line_knots"]
    if not len(columns):
        return None
    require(len(columns) == 1 and len(numbers) == LINE_NUMBERS, key, "a line")
    require(len(knots) == 2 and knots.shape[1] >= 2 and bool((knots.diff(dim=1) > 0).all()), key, "a line")
    return Line(columns[0], knots, numbers)


def _read_boosted_trees(
    codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]
) -> ExpertGroup:
    features = OneHotFeatures(shared["slot"], shared["label"])
    weighted = {key: _read_trees(codec, features, key, of_key) for key, of_key in properties.items()}
    estimates: dict[int, BoostedTrees] = {}  # by column
    for key in [key for key in weighted if key[1] == ESTIMATES]:
        trees = weighted.pop(key).expert
        assert isinstance(trees, BoostedTrees)
        column = features.numbers_of(key[0])
        is_number = trees.scale is not None and codec.slots[key[0]].kind == NUMBER
        require(is_number and len(column) == 1, key, "a number")
        estimates[int(column)] = trees
    for key, of_key in weighted.items():
        assert isinstance(of_key.expert, BoostedTrees)
        require(set(of_key.expert.columns.filled.tolist()) <= estimates.keys(), key, "a number")
    reads = {column: trees.columns.filled.tolist() for column, trees in estimates.items()}
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError:
        raise ValueError("filled: expected estimates that do not read each other, got a circle") from None
    if not set(order) <= estimates.keys():
        raise ValueError("filled: expected numbers that are estimated, got others")
    first = {
        column: Estimate.of(codec, int(features.slot[column]), estimates[column]).to(features.slot.device)
        for column in order
    }
    return TreeGroup(features, shared["usual_amount"], weighted, first)


def _read_trees(codec: Codec, features: OneHotFeatures, key: SlotLevel, of_key: dict[str, Tensor]) -> WeightedExpert:
    numbers, labels = of_key["scale"].tolist(), of_key["labels"]
    parts = {part.name: of_key[part.name] for part in fields(LeafwiseTrees if numbers else SymmetricTrees)}
    trees = LeafwiseTrees(**parts) if numbers else SymmetricTrees(**parts)
    splits, leaves = trees.column.shape[1], trees.leaves.shape[1]
    require(splits < MAX_LEAVES, key, "a tree")
    if isinstance(trees, LeafwiseTrees):
        require(leaves == splits + 1 and trees.left.shape == trees.column.shape, key, "a tree")
        require(bool((trees.left < 1 << splits).all()), key, "a tree")  # the last leaf is in no left branch
    else:
        require(leaves == 1 << splits, key, "a tree")
    require(len(trees.start) == max(len(labels), 1) and len(numbers) == (0 if len(labels) else 3), key, "a label")
    scale = TargetScale(*numbers) if numbers else None
    require(scale is None or scale.deviation > 0 <= scale.least, key, "a scale")
    line = _read_line(key, of_key)
    require(line is None or scale is not None, key, "a line")
    columns = FilledColumns(of_key["columns"], features.of(key[0]), of_key["filled"].tolist())
    require(bool((trees.column < len(columns) * (2 if numbers else 1)).all()), key, "a feature")
    grown = BoostedTrees(trees, columns, labels, of_key["label_share"], scale, line)
    return WeightedExpert(grown, *take_weight(of_key))


BOOSTED_TREES = Format(
    ONE_HOT, TREES, _write_boosted_trees, _read_boosted_trees, levels=(USUALLY_VISIBLE, LITTLE_VISIBLE, ESTIMATES)
)


# ---------------------------------------------------------------- multinomial logistic regression

REGRESSION = {
    "columns": Spec(INT, ("used",), index_of="features"),
    "mean": Spec(FLOAT, ("used",)),
    "deviation": Spec(FLOAT, ("used",), torch.finfo(FLOAT).tiny),
    "numbers": Spec(INT, ("numbers",), index_of="used"),
    "coefficients": Spec(FLOAT, ("labels", "inputs")),
    "bias": Spec(FLOAT, ("labels",)),
    "labels": Spec(INT, ("labels",)),
    "label_share": Spec(DOUBLE, (), 0, 1),
    "of_columns": Spec(INT, ("evidence",), index_of="features"),
    "are_numbers": Spec(BOOL, ("evidence",)),
    "value_column": Spec(INT, ("values",), index_of="evidence"),
    "values": Spec(FLOAT, ("values",)),
    "entry_value": Spec(INT, ("entries",), index_of="values"),
    "entry_label": Spec(INT, ("entries",), index_of="labels"),
    "entry_number": Spec(FLOAT, ("entries",), 0),
    **WEIGHT,
}


def _write_label_regression(group: ExpertGroup) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    properties = {}
    for key, weighted in group.experts.items():
        assert isinstance(weighted.expert, LabelRegression)
        parts = (weighted.expert, weighted.expert.design, weighted.expert.evidence, weighted)
        properties[key] = {name: tensor for part in parts for name, tensor in attributes(part, REGRESSION).items()}
    return _write_one_hot(group), properties


def _read_label_regression(
    codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]
) -> ExpertGroup:
    weighted = {}
    for key, of_key in properties.items():
        design = Design(*(of_key.pop(name) for name in ("columns", "mean", "deviation", "numbers")))
        weight = take_weight(of_key)
        inputs = len(design.columns) + len(design.numbers)
        require(of_key["coefficients"].shape[1] == inputs, key, "a number of coefficients")
        evidence = Evidence(*(of_key.pop(part.name) for part in fields(Evidence)))
        require(evidence.is_sorted, key, "columns of evidence in order")
        weighted[key] = WeightedExpert(LabelRegression(design, evidence, **of_key), *weight)
    return _one_hot_group(shared, weighted)


LABEL_REGRESSION = Format(ONE_HOT, REGRESSION, _write_label_regression, _read_label_regression)


# ---------------------------------------------------------------- the second answer from given properties alone


def _write_given_only(experts: GivenOnly) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    return {"usual_amount": experts.usual_amount}, {
        key: attributes(weighted, WEIGHT) for key, weighted in experts.experts.items()
    }


def _read_given_only(codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]) -> GivenOnly:
    given = GivenProperties.of(codec).to(shared["usual_amount"].device)
    if not properties or not all(slot in given.numbers for slot, _ in properties):
        raise ValueError("properties of another model")
    weighted = {key: WeightedExpert(GivenOnlyAnswer(key[0]), **of_key) for key, of_key in properties.items()}
    return GivenOnly(given, shared["usual_amount"], weighted)


GIVEN_ONLY = Format(USUAL_AMOUNT, WEIGHT, _write_given_only, _read_given_only)


# ---------------------------------------------------------------- propagated numbers


def _write_propagation(group: ExpertGroup) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    return {"usual_amount": group.usual_amount}, {
        key: attributes(weighted, WEIGHT) for key, weighted in group.experts.items()
    }


def _read_propagation(codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]) -> ExpertGroup:
    return _with_weights(unweighted_group(codec, GRADES, shared["usual_amount"]), properties)


def _write_close_propagation(close: ClosePropagation) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    return _write_propagation(close.group)


def _read_close_propagation(
    codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]
) -> ClosePropagation:
    group = unweighted_group(codec, CLOSE_GRADES, shared["usual_amount"])
    return ClosePropagation(_with_weights(group, properties))


def _with_weights(group: ExpertGroup, properties: Mapping[SlotLevel, dict[str, Tensor]]) -> ExpertGroup:
    if not properties or not properties.keys() <= group.experts.keys():
        raise ValueError("properties of another model")
    experts = {key: WeightedExpert(group.experts[key].expert, **of_key) for key, of_key in properties.items()}
    return replace(group, experts=experts)


PROPAGATION = Format(USUAL_AMOUNT, WEIGHT, _write_propagation, _read_propagation)
CLOSE_PROPAGATION = Format(USUAL_AMOUNT, WEIGHT, _write_close_propagation, _read_close_propagation)


# ---------------------------------------------------------------- factorised values

VALUE_FACTORIZATION_SHARED = {
    **USUAL_AMOUNT,
    "nodes": Spec(HALF, ("nodes", "numbers")),
    "relations": Spec(HALF, ("directions", "numbers")),
    "link_candidates": Spec(INT, ("of_links",), index_of="nodes"),
    "link_log_weights": Spec(FLOAT, ("of_links",)),
    "value_candidates": Spec(INT, ("of_values",), index_of="nodes"),
    "value_log_weights": Spec(FLOAT, ("of_values",)),
}


def _write_value_factorization(group: ExpertGroup) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    features = group.featurizer
    assert isinstance(features, FactorFeatures)
    shared = {
        "usual_amount": group.usual_amount,
        "nodes": features.factors.nodes,
        "relations": features.factors.relations,
        "link_candidates": features.links.nodes,
        "link_log_weights": features.links.log_weights,
        "value_candidates": features.values.nodes,
        "value_log_weights": features.values.log_weights,
    }
    return shared, {key: attributes(weighted, WEIGHT) for key, weighted in group.experts.items()}


def _read_value_factorization(
    codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]
) -> ExpertGroup:
    layout = TripleLayout.of(codec).to(shared["nodes"].device)
    if len(shared["nodes"]) != layout.size or len(shared["relations"]) != 2 * len(layout.relations):
        raise ValueError("nodes: those of another model")
    if shared["nodes"].shape[1] % 2:
        raise ValueError("nodes: expected pairs of numbers, got an odd number")
    features = FactorFeatures(
        layout,
        Factors(shared["nodes"], shared["relations"]),
        NodeSample(shared["link_candidates"], shared["link_log_weights"]),
        NodeSample(shared["value_candidates"], shared["value_log_weights"]),
    )
    return _with_weights(factorised_labels(codec, features, shared["usual_amount"]), properties)


VALUE_FACTORIZATION = Format(VALUE_FACTORIZATION_SHARED, WEIGHT, _write_value_factorization, _read_value_factorization)


# ---------------------------------------------------------------- trees of presence

PRESENCE_SHARED = {
    "slot": ONE_HOT["slot"],
    "label": ONE_HOT["label"],
    "slots": Spec(INT, ("slots",)),
    "classes": Spec(INT, ("class_columns",), index_of="classes"),
    "entities": Spec(INT, ("entities",)),
    "weight": Spec(DOUBLE, (), 0, 1),
}
PRESENCE_OF_PROPERTY = {
    "column": Spec(INT, (HALVES, "trees", "levels"), 0),
    "border": Spec(FLOAT, (HALVES, "trees", "levels"), may_be_infinite=True),
    "leaves": Spec(FLOAT, (HALVES, "trees", "leaves")),
    "start": Spec(DOUBLE, (HALVES,)),
}


def _write_presence_trees(trees: PresenceTrees) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    features = trees.features
    shared = {
        "slot": features.values.slot,
        "label": features.values.label,
        "slots": features.slots,
        "classes": features.classes,
        "entities": trees.entities,
        "weight": trees.weight,
    }
    return shared, {
        (slot, USUALLY_VISIBLE): {name: getattr(trees, name)[place] for name in PRESENCE_OF_PROPERTY}
        for place, slot in enumerate(trees.slots.tolist())
    }


def _read_presence_trees(
    codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]
) -> PresenceTrees:
    slots = shared["slots"]
    if any(bool((shared[name].diff() < 0).any()) for name in ("slot", "slots", "entities")):
        raise ValueError("slot, slots, entities: expected ascending numbers, got others")
    if bool(((slots < 0) | (slots >= len(codec.slots))).any()) or not properties:
        raise ValueError("slots: properties of another model")
    features = PresenceFeatures(OneHotFeatures(shared["slot"], shared["label"]), slots, shared["classes"])
    first = next(iter(properties.values()))
    for key, of_key in properties.items():
        require(key[1] == USUALLY_VISIBLE and bool((of_key["column"] < len(features)).all()), key, "a feature")
        require(of_key["column"].shape == first["column"].shape, key, "a number of trees")
        require(of_key["leaves"].shape[2] == 1 << of_key["column"].shape[2], key, "a tree")
    stacked = {name: torch.stack([of_key[name] for of_key in properties.values()]) for name in PRESENCE_OF_PROPERTY}
    numbers = torch.tensor([slot for slot, _ in properties], device=slots.device)
    return PresenceTrees(features, shared["entities"], numbers, **stacked, weight=shared["weight"])


PRESENCE_TREES = Format(PRESENCE_SHARED, PRESENCE_OF_PROPERTY, _write_presence_trees, _read_presence_trees)


# ---------------------------------------------------------------- links

LINK_FACTORIZATION_SHARED = {
    "names": Spec(torch.uint8, ("characters",)),  # of entities, relations and values, as JSON
    "triples": Spec(INT, ("triples", 3), 0),
    "nodes": Spec(HALF, ("nodes", "numbers")),
    "relations": Spec(HALF, ("directions", "numbers")),
    "strength": Spec(DOUBLE, (), 0),
    "slope": Spec(DOUBLE, ()),
    "intercept": Spec(DOUBLE, ()),
    "offsets": Spec(DOUBLE, ("directions",)),
    "classifier": Spec(DOUBLE, (FEATURES + 1,)),
    "classifier_offsets": Spec(DOUBLE, ("relations_forward",)),
    "held_out": Spec(INT, ("held_out", 3), 0),
    "held_out_ranks": Spec(FLOAT, ("both_directions",), 1),
}


def _write_link_factorization(links: LinkPredictor) -> tuple[Tensors, Mapping[SlotLevel, Tensors]]:
    triples = links.triples
    names = {
        "entities": triples.entities,
        "relations": [[list(relation.path), relation.is_link] for relation in triples.relations],
        "values": [[relation, label] for relation, label in triples.values],
        "edges": [[list(path), edges] for path, edges in triples.edges.items()],
    }
    correctness = links.correctness
    shared = {
        "names": torch.frombuffer(bytearray(json.dumps(names).encode()), dtype=torch.uint8),
        "triples": triples.numbered.long(),
        "nodes": links.factors.nodes.half(),
        "relations": links.factors.relations.half(),
        "strength": torch.tensor(links.strength, dtype=DOUBLE),
        "slope": correctness.slope,
        "intercept": correctness.intercept,
        "offsets": correctness.offsets,
        "classifier": links.classifier.weights,
        "classifier_offsets": links.classifier.offsets,
        "held_out": links.held_out,
        "held_out_ranks": links.held_out_ranks,
    }
    return shared, {}


def _read_link_factorization(
    codec: Codec, shared: Tensors, properties: Mapping[SlotLevel, dict[str, Tensor]]
) -> LinkPredictor:
    on_cpu = {name: tensor.cpu() for name, tensor in shared.items()}
    names = json.loads(bytes(on_cpu["names"].numpy()))
    triples = Triples(
        tuple(names["entities"]),
        tuple(Relation(tuple(path), bool(is_link)) for path, is_link in names["relations"]),
        tuple((relation, tuple(label) if isinstance(label, list) else label) for relation, label in names["values"]),
        on_cpu["triples"].int(),
        {tuple(path): tuple(map(tuple, edges)) for path, edges in names["edges"]},
    )
    size = torch.tensor([len(triples.entities), len(triples.relations), triples.nodes])
    fits = len(on_cpu["nodes"]) == triples.nodes and len(on_cpu["relations"]) == 2 * len(triples.relations)
    fits &= len(on_cpu["classifier_offsets"]) == len(triples.relations)
    fits &= on_cpu["nodes"].shape[1] % 2 == 0 and len(on_cpu["held_out_ranks"]) == 2 * len(on_cpu["held_out"])
    if not fits or any(bool((on_cpu[name] >= size).any()) for name in ("triples", "held_out")):
        raise ValueError("names: of other triples")
    return LinkPredictor(
        triples,
        Factors(on_cpu["nodes"], on_cpu["relations"]),
        float(on_cpu["strength"]),
        Correctness(on_cpu["slope"], on_cpu["intercept"], on_cpu["offsets"]),
        LinkClassifier(on_cpu["classifier"], on_cpu["classifier_offsets"]),
        on_cpu["held_out"],
        on_cpu["held_out_ranks"],
    )


LINK_FACTORIZATION = Format(
    LINK_FACTORIZATION_SHARED, of_property={}, write=_write_link_factorization, read=_read_link_factorization
)
