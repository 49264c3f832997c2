"""KINDS, the table of the kinds of leaf: number, category, boolean, text, link, set. A row holds all that kbdisk does for a kind.

A kind is a frozen dataclass of plain data. `check(value)` raises a ValueError `expected ..., got ...` where a value is not of
the kind. All parts of a row but these have defaults; those that compute with tensors are named as `module:attribute`, and are
imported when they are first used. docs/extending.md adds a kind from outside, part by part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from kbdisk.entity import Link as LinkValue
from kbdisk.entity import Text as TextValue
from kbdisk.plugins import Part, Table
from kbdisk.schemas.text.numerals import Number as AnyNumber
from kbdisk.schemas.text.numerals import as_float, is_finite, is_number, is_whole, show

Transform: TypeAlias = Literal["auto", "none", "log", "quantile", "standard"]
Label: TypeAlias = str | int | float | bool  # a value of a category

LABEL_TYPES = (str, int, float, bool, Decimal)  # a check for a tuple is faster than for a union
LINK_TYPES = (LinkValue, str)
COLLECTIONS = (list, tuple, set, frozenset)  # of the members of a set
MAX_NUMBER = 1e300  # sums and differences of larger numbers may be no finite floats
TOO_LARGE = f"expected a number from {-MAX_NUMBER:g} to {MAX_NUMBER:g}"
MAX_EXACT = 10**15  # smaller whole numbers have the same spelling as int, float or Decimal
MAX_LABELS_SHOWN = 8  # in an error


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The error of a predicted number up to which it counts as correct: absolute, or relative to the true number."""

    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        if not all(0 <= size < math.inf for size in (self.absolute, self.relative)):
            raise ValueError("expected a tolerance of at least 0")

    def around(self, value: float) -> float:
        """The largest error at a number."""
        return max(self.absolute, self.relative * abs(value))

    def times(self, factor: float) -> Tolerance:
        """The tolerance in another unit, of which `factor` are one of this unit."""
        return Tolerance(self.absolute * factor, self.relative)


EXACT_NUMBER = Tolerance()  # of parts of dates and lengths of lists


@dataclass(frozen=True, slots=True)
class Number:
    """A number on a real scale, such as a weight or a year. `transform` is advice to the codec."""

    integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    transform: Transform = "auto"
    decimals: int | None = None
    above: float | None = None  # exclusive bounds
    below: float | None = None
    tolerance: Tolerance | None = None  # None: one that suits the known values

    def check(self, value: Any) -> None:
        """A finite number within the bounds."""
        if not is_number(value) or not is_finite(value):
            raise ValueError(f"expected a number, got {value!r}")
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            raise ValueError(f"{TOO_LARGE}, got {_described(value)}")
        if self.integer and not is_whole(value):
            raise ValueError(f"expected a whole number, got {value!r}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"expected a number of at least {as_float(self.minimum):.15g}, got {value!r}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"expected a number of at most {as_float(self.maximum):.15g}, got {value!r}")
        if self.above is not None and value <= self.above:
            raise ValueError(f"expected a number above {as_float(self.above):.15g}, got {value!r}")
        if self.below is not None and value >= self.below:
            raise ValueError(f"expected a number below {as_float(self.below):.15g}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Category:
    """One of several labels: if `closed`, one of `values`; else any label, also one that is not among them."""

    values: tuple[Label, ...] = ()
    closed: bool = False
    ordered: bool = False

    def check(self, value: Any) -> None:
        """A label that is allowed."""
        if not isinstance(value, LABEL_TYPES):
            raise ValueError(f"expected a label, got {value!r}")
        if self.closed and not _is_among(value, self.values):
            raise ValueError(f"expected one of {_listed(self.values)}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    def check(self, value: Any) -> None:
        """True or false, and no number."""
        if not isinstance(value, bool):
            raise ValueError(f"expected true or false, got {value!r}")


@dataclass(frozen=True, slots=True)
class Text:
    """Free text in one language (`en` includes `en-GB`), or in any (None), or without a language ("").

    Text that is `given` is learnt from and never predicted, like a property in the role `given`, but within a list, too.
    """

    language: str | None = None
    max_length: int | None = None
    min_length: int = 0
    given: bool = False

    def check(self, value: Any) -> None:
        """A string of an allowed length, in the language if there is one."""
        if isinstance(value, TextValue):
            if self.language is not None and not f"{value.language}-".lower().startswith(f"{self.language}-".lower()):
                raise ValueError(f"expected text in {self.language or 'no language'}, got {value.language}")
            value = value.text
        if not isinstance(value, str):
            raise ValueError(f"expected text, got {value!r}")
        if self.max_length is not None and len(value) > self.max_length:
            raise ValueError(f"expected at most {self.max_length} characters, got {len(value)}")
        if len(value) < self.min_length:
            raise ValueError(f"expected at least {self.min_length} characters, got {len(value)}")


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another entity: of the class `to`, if set, and among the ids `values`, if there are any."""

    to: str | None = None
    values: tuple[str, ...] = ()  # ids

    def check(self, value: Any) -> None:
        """A link to an entity, or its id."""
        if not isinstance(value, LINK_TYPES):
            raise ValueError(f"expected a link to an entity, got {value!r}")
        id = value if isinstance(value, str) else value.id
        if self.values and id not in self.values:
            raise ValueError(f"expected one of {_listed(self.values)}, got {id!r}")


@dataclass(frozen=True, slots=True)
class Set:
    """A set of labels or links."""

    of: Category | Link = Category()
    most: int | None = None

    def check(self, value: Any) -> None:
        """Labels or links; one alone counts as a set of one."""
        members = value if isinstance(value, COLLECTIONS) else (value,)
        for member in members:
            self.of.check(member)
        if self.most is not None and len(members) > self.most:
            raise ValueError(f"expected at most {self.most} values, got {len(members)}")


@dataclass(frozen=True, eq=False)
class KindRow:
    """What the rows of leaves and of composites have in common."""

    type: Any  # the dataclass
    example: Any
    values: tuple[Any, ...]  # from loaders, that fit the example
    keys: Part = None  # a KindKeys: the keys in a schema file; None: the fields of the dataclass
    style: Part = None  # a KindStyle: how a source writes values; None: as text, as parts, or unchanged
    json_schema: Part = None  # kind -> the JSON Schema of its values; None: any value
    merge: Part = None  # (kind, kind) -> the kind that takes the values of both; None: field by field
    of_texts: Part = None  # ([text]) -> the kind that inference finds in these strings, or None


@dataclass(frozen=True, eq=False)
class LeafKind(KindRow):
    """A row of KINDS. A kind is learnt by its own codec, encoder and decoder, or as another kind."""

    learnt_as: Part = None  # leaf -> the leaf of another kind, by whose row it is learnt and scored; None: by its own
    codec: Part = None  # a LeafCodec: values <-> codes
    encoder: Part = None  # a torch module: (codecs, Setting); forward(codes (n, ...), Rows) -> vectors (n, D)
    decoder: Part = None  # a torch module: (codecs, Setting); forward(vectors (n, D), Rows) -> Belief
    config: Part = None  # a frozen dataclass of plain values, all with defaults; None: without settings
    padding: int | None = None  # fills up shorter codes (n, L) where their length L varies
    entropy: Part = None  # (values, codec) -> nats of the training values; None: by their frequencies
    metric: Part = None  # a Metric: the error of a prediction; None: the error rate
    constant: Part = None  # values -> Constant, the constant that minimises the error; None: the most frequent value
    constant_sample: int = 20_000  # values that the constant is learnt from
    marginal: Part = None  # codec -> (codes -> log p): by the training values; None: their entropy for every value
    confidence: Part = None  # (belief, codes) -> the probability that codes are right; None: that of the codes
    view: Part = None  # a subclass of kbdisk.api.belief.Belief; None: mode, confidence and entropy alone
    features: Part = None  # a HashedColumns: columns for neighbours and Gaussian processes; None: no features


KINDS: Table[LeafKind] = Table(
    "kbdisk.kinds",
    {
        "number": LeafKind(
            Number,
            Number(minimum=0),
            (133.0, 194, Decimal("80.55")),
            keys="kbdisk.schemas.yaml.kind_keys:NumberKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_number",
            merge="kbdisk.schemas.merging:merge_numbers",
            style="kbdisk.styles.kinds:NUMBER_STYLE",
            codec="kbdisk.leaves.number:NumberCodec",
            encoder="kbdisk.leaves.number:NumberEncoder",
            decoder="kbdisk.leaves.number:NumberDecoder",
            config="kbdisk.leaves.number:NumberConfig",
            metric="kbdisk.metrics:MEAN_ABSOLUTE_ERROR",
            constant="kbdisk.metrics:constant_number",
            marginal="kbdisk.metrics:number_marginal",
            view="kbdisk.api.belief:NumberBelief",
            features="kbdisk.experts.features:NUMBER_COLUMNS",
        ),
        "category": LeafKind(
            Category,
            Category(("No", "3G", "4G"), closed=True, ordered=True),
            ("No", "4G"),
            keys="kbdisk.schemas.yaml.kind_keys:CategoryKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_category",
            merge="kbdisk.schemas.merging:merge_labels",
            style="kbdisk.styles.kinds:LABEL_STYLE",
            codec="kbdisk.leaves.category:CategoryCodec",
            encoder="kbdisk.leaves.category:CategoryEncoder",
            decoder="kbdisk.leaves.category:CategoryDecoder",
            config="kbdisk.leaves.category:CategoryConfig",
            marginal="kbdisk.metrics:category_marginal",
            view="kbdisk.api.belief:LabelBelief",
            features="kbdisk.experts.features:LABEL_COLUMNS",
        ),
        "boolean": LeafKind(
            Boolean,
            Boolean(),
            (True, False),
            keys="kbdisk.schemas.yaml.kind_keys:BooleanKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_boolean",
            style="kbdisk.styles.kinds:UNCHANGED_STYLE",
            learnt_as=lambda leaf: Category((False, True), closed=True),
        ),
        "text": LeafKind(
            Text,
            Text(max_length=60),
            ("Galaxy S21", ""),
            keys="kbdisk.schemas.yaml.kind_keys:TextKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_text",
            merge="kbdisk.schemas.merging:merge_texts",
            style="kbdisk.styles.kinds:TEXT_STYLE",
            codec="kbdisk.leaves.text:TextCodec",
            encoder="kbdisk.leaves.text:TextEncoder",
            decoder="kbdisk.leaves.text:TextDecoder",
            config="kbdisk.leaves.text:TextConfig",
            padding=0,
            entropy="kbdisk.data.fit:entropy_of_texts",
            metric="kbdisk.metrics:DISTANCE_OF_WORDS",
            constant="kbdisk.metrics:constant_text",
            constant_sample=500,
            view="kbdisk.api.belief:TextBelief",
            features="kbdisk.experts.features:TEXT_COLUMNS",
        ),
        "link": LeafKind(
            Link,
            Link("Country"),
            (LinkValue("https://example.org/France"),),
            keys="kbdisk.schemas.yaml.kind_keys:LinkKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:of_link",
            merge="kbdisk.schemas.merging:merge_links",
            style="kbdisk.styles.kinds:LINK_STYLE",
            codec="kbdisk.leaves.link:LinkCodec",
            encoder="kbdisk.leaves.link:LinkEncoder",
            decoder="kbdisk.leaves.link:LinkDecoder",
            config="kbdisk.leaves.link:LinkConfig",
            marginal="kbdisk.metrics:link_marginal",
            view="kbdisk.api.belief:LabelBelief",
            features="kbdisk.experts.features:LABEL_COLUMNS",
        ),
        "set": LeafKind(
            Set,
            Set(Category()),
            (["red", "blue"], []),
            keys="kbdisk.schemas.yaml.kind_keys:SetKeys",
            json_schema="kbdisk.schemas.exporters.jsonschema:set_of",
            merge="kbdisk.schemas.merging:merge_sets",
            codec="kbdisk.leaves.set:SetCodec",
            encoder="kbdisk.leaves.set:SetEncoder",
            decoder="kbdisk.leaves.set:SetDecoder",
            config="kbdisk.leaves.set:SetConfig",
            padding=-1,
            entropy="kbdisk.data.fit:entropy_of_sets",
            metric="kbdisk.metrics:DISTANCE_OF_MEMBERS",
            constant="kbdisk.metrics:constant_set",
            constant_sample=500,
            marginal="kbdisk.metrics:set_marginal",
            confidence="kbdisk.model.estimates:expected_precision",
            view="kbdisk.api.belief:SetBelief",
        ),
    },
    LeafKind,
    KindRow,
)


def kind_of(leaf: Any) -> str:
    """The name of a leaf's kind."""
    return next(name for name, row in KINDS.items() if row.type is type(leaf))


def nearest(leaf: Number, number: float) -> float:
    """The number nearest to another that a property can have: whole, with so many decimals, within the bounds."""
    number = number if leaf.decimals is None else round(number, leaf.decimals)
    number = number if leaf.minimum is None else max(number, leaf.minimum)
    number = number if leaf.maximum is None else min(number, leaf.maximum)
    return round(number) if leaf.integer else number


def _described(value: AnyNumber) -> str:
    """A very large number in few characters."""
    return f"one of {len(show(abs(value))):,} digits" if isinstance(value, int) else str(value)


def _is_among(value: Any, values: tuple[Label, ...]) -> bool:
    """Whether a label is one of these. True equals 1 in Python; as labels they differ."""
    is_boolean = isinstance(value, bool)
    return value in values and (
        value not in (0, 1) or any(label == value and isinstance(label, bool) == is_boolean for label in values)
    )


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(map(str, values[:MAX_LABELS_SHOWN])) + (", ..." if len(values) > MAX_LABELS_SHOWN else "")
