"""Why a further member was, or would be, added to a set, or a further class to an entity.

The score of a member is a sum over all that the entity has, so that the influence of each value is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.decide import MemberDecider
from kbdisk.completion.gaps import Gap, are_nested
from kbdisk.completion.members import FurtherMembers, Proposed, relation_at
from kbdisk.completion.plan import Plan, Planned
from kbdisk.completion.predict import member_prediction
from kbdisk.completion.reasons import Influence, Predictor, RuleReason, Similar, Why, brief
from kbdisk.completion.rules import RuleFiller, confidence_of
from kbdisk.data.parse import read
from kbdisk.data.triples import Triples
from kbdisk.entity import CLASSES, Entity, Link, Path, at, show, with_values
from kbdisk.errors import SchemaError
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.text.names import last_word
from kbdisk.training.trained import Trained

MAX_SHOWN = 5  # influences
MAX_SIMILAR = 3
NAME = "linear autoencoder"


def is_about_member(trained: Trained, entity: Entity, path: Path) -> bool:
    """Whether a path is that of a member of a set, or of a class."""
    if path[:1] == CLASSES:
        return True
    reading = read(trained.schema, entity)
    if reading is None or not isinstance(path[-1], int):
        return False
    known = trained.schema.classes[reading.class_name].properties.get(path[:-1])
    return known is not None and isinstance(known.kind, Set) and path[:-1] in reading.leaves


def why_member(trained: Trained, entity: Entity, path: Path, entities: Sequence[Entity]) -> Why:
    """The reasons for a member of a set; a given one is hidden first. `entities` are those of the source."""
    set_path = path[:-1] if isinstance(path[-1], int) else path
    asked, given, by = _without_member(entity, path, set_path)
    others = [asked if other.id == entity.id else other for other in entities or [entity]]
    plan = Plan(trained, others, CompletionConfig())
    planned = next(planned for planned in plan if planned.entity is asked)
    gap = next((gap for gap in planned.sets if gap.path == set_path), None)
    if gap is None or planned.reading is None:
        raise SchemaError(show(path), f"nothing is predicted there: {_why_none(plan, planned, set_path)}.")
    labels = {other.id: other.label for other in others if other.label}
    head = Why(
        entity.id, entity.label, gap.field.class_name, path, "link", None, None, None, None,
        given=given, given_by=by, is_hidden=by == "source",
    )  # fmt: skip
    filler = RuleFiller(trained.schema, plan.known_readings, "likely")
    for member, rule in filler.members(planned.reading.id, gap.field.class_name, set_path, gap.members):
        if given in (None, member):
            reason = RuleReason(rule.text, rule.kind, rule.support, rule.exceptions)
            return replace(head, value=member, presence=1.0, correctness=brief(confidence_of(rule)), rule=reason)
    further = plan.further_members
    best = _proposed(further, planned.reading.id, gap, given if by == "kbdisk" else None)
    if best is None:
        raise SchemaError(show(path), "nothing is predicted there: no further member to learn from.")
    decider = MemberDecider(trained, CompletionConfig(), further.calibration)
    decision = decider.decided(member_prediction(gap, best))
    held_back = "" if by == "source" else decision.why_not or gap.field.why_not
    return replace(
        head,
        value=best.member,
        presence=brief(decision.presence),
        correctness=brief(decision.correctness),
        held_back=held_back,
        predictors=(Predictor(path, NAME, 1.0, best.member, brief(best.chance)),),
        similar=tuple(_similar(further, planned.reading.id, gap, best, labels)),
        influences=tuple(_influences(further, planned.reading.id, gap, best, path, labels)),
    )


def _without_member(entity: Entity, path: Path, set_path: Path) -> tuple[Entity, Any, str]:
    """The entity without the member at a path and without filled ones of its set; this member, and its origin."""
    made = dict(entity.made or {})
    filled = made.get(path)
    made = {place: value for place, value in made.items() if not are_nested(place, set_path)}
    place = path[-1] if isinstance(path[-1], int) else None
    if set_path == CLASSES:
        members: list[Any] = list(map(Link, entity.classes))
    else:
        standing = at(entity.tree, set_path)
        members = standing if isinstance(standing, list) else [standing]
    if filled is not None or place is None or place >= len(members):
        return replace(entity, made=made or None), filled, "kbdisk" if filled is not None else ""
    rest = [member for number, member in enumerate(members) if number != place]
    if set_path == CLASSES:
        classes = tuple(link.id for link in rest)
        return replace(entity, classes=classes, made=made or None), members[place], "source"
    tree = with_values(entity.tree, {set_path: rest[0] if len(rest) == 1 and not isinstance(standing, list) else rest})
    return replace(entity, tree=tree, made=made or None), members[place], "source"


def _why_none(plan: Plan, planned: Planned, set_path: Path) -> str:
    field = plan.fields[planned.reading.class_name].fields.get(set_path) if planned.reading is not None else None
    return (field.why_not if field is not None else "") or "the set has no other member, or can't have more"


def _proposed(further: FurtherMembers, id: str, gap: Gap, wanted: Any) -> Proposed | None:
    """The proposal of a wanted member; the likeliest one where none is wanted, or that is not proposed."""
    options = further.proposed.get((id, gap.path), ())
    return next((option for option in options if option.member == wanted), None) or further.best(id, gap.path)


def _numbers(further: FurtherMembers, id: str, gap: Gap, best: Proposed) -> tuple[int, int, int]:
    """The numbers of an entity, of the relation of its set, and of a member."""
    triples = further.triples
    assert triples is not None
    relation = relation_at(triples, gap.path)
    assert relation is not None
    name = best.member.id if isinstance(best.member, Link) else best.member
    if triples.is_link[relation]:
        return triples.number_of[id], relation, triples.number_of[name]
    return triples.number_of[id], relation, len(triples.entities) + triples.values.index((relation, name))


def _similar(
    further: FurtherMembers, id: str, gap: Gap, best: Proposed, labels: Mapping[str, str]
) -> Iterable[Similar]:
    """The entities with the most values in common that have the member."""
    assert further.triples is not None
    assert further.autoencoder is not None
    for number, cosine in further.autoencoder.similar(*_numbers(further, id, gap, best), MAX_SIMILAR):
        other = further.triples.entities[number]
        yield Similar(other, labels.get(other, ""), best.member, brief(cosine))


def _influences(
    further: FurtherMembers, id: str, gap: Gap, best: Proposed, path: Path, labels: Mapping[str, str]
) -> Iterable[Influence]:
    """The values of the entity that change the score of the member most."""
    assert further.triples is not None
    assert further.autoencoder is not None
    triples = further.triples
    columns, added = further.autoencoder.weights(*_numbers(further, id, gap, best))
    before = min(max(best.chance, 0.0), 1.0)
    for place in added.abs().argsort(descending=True).tolist()[:MAX_SHOWN]:
        relation, node = further.autoencoder.pairs[columns[place]].tolist()
        without = min(max(before - float(added[place]), 0.0), 1.0)
        yield Influence(
            _name(triples.relations[relation].path, triples, node, labels),
            brief(_hellinger(before, without)),
            path,
            best.member,
            best.member,
            best.member,
            brief(without),
            brief(before),
        )


def _name(path: Path, triples: Triples, node: int, labels: Mapping[str, str]) -> str:
    """A value in words: a property with its member, or with the range of its number."""
    name = "rdf:type" if path == CLASSES else show(path)
    if node < len(triples.entities):
        id = triples.entities[node]
        return f"{name} {labels.get(id) or last_word(id)}"
    label = triples.values[node - len(triples.entities)][1]
    if not isinstance(label, tuple):
        return f"{name} {labels.get(str(label)) or (last_word(str(label)) if path == CLASSES else label)}"
    level, place = label
    edges = triples.edges[path][level]
    low, high = (edges[place - 1] if place else None), (edges[place] if place < len(edges) else None)
    if low is None:
        return f"{name} below {high:.6g}"
    return f"{name} from {low:.6g}" + ("" if high is None else f" to {high:.6g}")


def _hellinger(probability: float, other: float) -> float:
    """The distance between the beliefs that an entity has a member."""
    return math.sqrt(max(1 - math.sqrt(probability * other) - math.sqrt((1 - probability) * (1 - other)), 0.0))
