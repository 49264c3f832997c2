"""The linear autoencoder: its formulas beside regression by the definition, with the entity in question left out."""

from __future__ import annotations

import random

import pytest
import torch

from kbdisk.data.triples import Triples
from kbdisk.experts import linear_autoencoder
from kbdisk.experts.linear_autoencoder import LinearAutoencoder


def random_links(seed: int, entities: int = 25) -> Triples:
    generator = random.Random(seed)
    links = [
        (f"e{head}", (relation,), f"{relation}{tail}")
        for head in range(entities)
        for relation, tails in (("p", 7), ("q", 4))
        for tail in range(tails)
        if generator.random() < 0.4
    ]
    return Triples.of_links(links)


def scores_without(fitted: LinearAutoencoder, entity: int, relation: int, hidden: int | None = None) -> torch.Tensor:
    """The scores of an entity by weights that all other entities are regressed on."""
    rows = fitted._rows(torch.arange(len(fitted.starts) - 1)).double()
    others = rows[torch.arange(len(rows)) != entity]
    inverse = torch.linalg.inv(others.T @ others + linear_autoencoder.RIDGE * torch.eye(rows.shape[1]).double())
    weights = -inverse / inverse.diagonal()
    weights.fill_diagonal_(0)
    row = rows[entity].clone()
    own = (fitted.pairs[:, 0] == relation).nonzero()[:, 0]
    if hidden is not None:
        row[own[fitted.pairs[own, 1] == hidden]] = 0
    return (row @ weights)[own].float()


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_a_regression_on_all_other_entities(seed):
    triples = random_links(seed)
    fitted = LinearAutoencoder.fit(triples)
    for name in ("e0", "e3", "e17"):
        entity = triples.number_of[name]
        for relation in range(2):
            scores = fitted.scores(relation, torch.tensor([entity]))
            torch.testing.assert_close(scores.score[0], scores_without(fitted, entity, relation), atol=1e-5, rtol=1e-4)


def test_a_hidden_member_changes_all_scores_but_its_own():
    triples = random_links(5)
    fitted = LinearAutoencoder.fit(triples)
    entity = triples.number_of["e4"]
    before = fitted.scores(0, torch.tensor([entity]))
    for hidden in before.members[before.is_known[0]].tolist():
        after = fitted.scores(0, torch.tensor([entity]), torch.tensor([hidden]))
        place = before.members.tolist().index(hidden)
        assert not after.is_known[0, place]
        assert after.score[0, place] == before.score[0, place]
        expected = scores_without(fitted, entity, 0, hidden)
        torch.testing.assert_close(after.score[0], expected, atol=1e-5, rtol=1e-4)


def test_weights_of_what_an_entity_has_sum_to_the_score_of_a_member():
    triples = random_links(6)
    fitted = LinearAutoencoder.fit(triples)
    entity = triples.number_of["e2"]
    scores = fitted.scores(0, torch.tensor([entity]))
    for place, member in enumerate(scores.members.tolist()):
        _, added = fitted.weights(entity, 0, member)
        assert float(added.sum()) == pytest.approx(float(scores.score[0, place]), abs=1e-5)


def test_similar_entities_have_the_member_and_the_most_in_common():
    triples = Triples.of_links(
        [("a", ("p",), x) for x in "xyz"] + [("b", ("p",), x) for x in "xyz"] + [("c", ("p",), "z"), ("d", ("p",), "x")]
    )
    fitted = LinearAutoencoder.fit(triples)
    found = fitted.similar(triples.number_of["a"], 0, triples.number_of["z"], 3)
    assert [triples.entities[number] for number, _ in found] == ["b", "c"]
    assert found[0][1] == pytest.approx(1.0)


def test_entities_of_which_nothing_is_shared_get_scores_of_0():
    triples = Triples.of_links([("a", ("p",), "x"), ("b", ("p",), "x"), ("c", ("p",), "only")])
    fitted = LinearAutoencoder.fit(triples)
    assert fitted.scores(0, torch.tensor([triples.number_of["c"]])).score.tolist() == [[0.0]]


def test_rows_of_the_inverse_lie_one_after_the_other_as_they_are_summed():
    assert LinearAutoencoder.fit(random_links(0)).inverse.is_contiguous()
