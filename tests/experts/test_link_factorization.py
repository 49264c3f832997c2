"""The factorisation of links: its gradient beside that of autograd, ranks by hand, what it learns, and what is stored."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from kbdisk.data.triples import Answers, Triples, with_inverses
from kbdisk.experts import link_factorization as links
from kbdisk.experts import serialize
from kbdisk.experts.config import LinkFactorizationConfig
from kbdisk.experts.link_factorization import (
    EPSILON,
    RATE,
    RELATION_WEIGHT,
    Correctness,
    Factors,
    FactorTrainer,
    LinkClassifier,
    LinkPredictor,
    candidates,
    fit,
    ranks,
    times,
    times_conjugate,
)

SMALL = LinkFactorizationConfig(rank=8)
VECTORS = st.lists(st.floats(-2, 2), min_size=4, max_size=4)


def ring(n: int = 40) -> Triples:
    """Each node has a next one; two steps ahead is a relation of its own."""
    pairs = [(f"n{k}", ("next",), f"n{(k + 1) % n}") for k in range(n)]
    pairs += [(f"n{k}", ("second",), f"n{(k + 2) % n}") for k in range(n)]
    return Triples.of_links(pairs)


def complex_of(x: torch.Tensor) -> torch.Tensor:
    real, imaginary = x.chunk(2, -1)
    return torch.complex(real, imaginary)


@given(VECTORS, VECTORS)
def test_products_are_complex_products(x, y):
    a, b = torch.tensor([x], dtype=torch.float64), torch.tensor([y], dtype=torch.float64)
    assert torch.allclose(complex_of(times(a, b)), complex_of(a) * complex_of(b))
    assert torch.allclose(complex_of(times_conjugate(a, b)), complex_of(a) * complex_of(b).conj())


@given(VECTORS, VECTORS, VECTORS)
def test_a_score_is_the_real_part_of_the_trilinear_product(x, r, y):
    x, r, y = (torch.tensor([v]) for v in (x, r, y))
    factors = Factors(torch.cat([x, y]), r)
    score = factors.scores(factors.queries(torch.tensor([0]), torch.tensor([0])), slice(1, 2))
    expected = (complex_of(x) * complex_of(r) * complex_of(y).conj()).sum().real
    assert torch.allclose(score[0, 0], expected, atol=1e-5)


def loss_of(nodes, relations, triples, strength, count):
    """The loss of triples, each by itself, as in the papers: the mean over all of them."""
    total = torch.zeros(())
    for head, relation, tail in triples.tolist():
        query = times(nodes[head : head + 1], relations[relation : relation + 1])
        total = total + F.cross_entropy(query @ nodes.T, torch.tensor([tail]))
        parts = torch.stack([nodes[head], relations[relation], nodes[tail]])
        total = total + strength * complex_of(parts).abs().pow(3).sum()
        if relation < count:
            query = times_conjugate(nodes[tail : tail + 1], nodes[head : head + 1])
            total = total + RELATION_WEIGHT * F.cross_entropy(query @ relations[:count].T, torch.tensor([relation]))
    return total / len(triples)


def test_a_step_descends_the_gradient_that_autograd_finds():
    triples = Triples.of_links(
        [("a", ("r",), "b"), ("a", ("r",), "c"), ("b", ("r",), "c"), ("c", ("s",), "a"), ("d", ("s",), "a")]
    )
    trainer = FactorTrainer(triples, LinkFactorizationConfig(rank=3), 0.1, seed=0)
    nodes, relations = trainer.nodes.clone().requires_grad_(), trainer.relations.clone().requires_grad_()
    loss_of(nodes, relations, with_inverses(triples.numbered, 2), 0.1, 2).backward()
    trainer.run(None, epochs=1)  # all queries are in one step
    for before, after, gradient in (
        (nodes, trainer.nodes, nodes.grad),
        (relations, trainer.relations, relations.grad),
    ):
        step = RATE * gradient / (gradient.abs() + EPSILON)  # the first step of Adagrad has the gradient's signs
        assert torch.allclose(after, before - step, atol=1e-4)


def test_drawn_candidates_estimate_the_same_normalisation():
    triples = ring(60)
    config = LinkFactorizationConfig(rank=4, max_scored=30)
    trainer = FactorTrainer(triples, config, 0.0, seed=0)
    factors = trainer.factors
    side = trainer.sides[0]
    query = factors.queries(torch.tensor([0]), torch.tensor([0]))
    exact = factors.scores(query, slice(0, 60)).exp().sum()
    estimates = []
    for _ in range(300):
        nodes, _, log_weight = trainer._candidates(side.candidates, torch.tensor([5]))
        estimates.append((factors.scores(query, nodes) + log_weight).exp().sum())
    assert torch.stack(estimates).mean() == pytest.approx(float(exact), rel=0.05)


def test_drawn_candidates_learn_too():
    triples = ring(60)
    trainer = FactorTrainer(triples, LinkFactorizationConfig(rank=16, max_scored=30), 0.001, seed=0)
    trainer.run(None, epochs=200)
    asked = with_inverses(triples.links, 2)
    found = ranks(trainer.factors, asked, Answers(triples.links, 2), 60)
    assert float((found == 1).double().mean()) > 0.9


def test_ranks_leave_out_other_known_answers_and_share_equal_scores():
    nodes = torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    factors = Factors(nodes, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    asked = torch.tensor([[0, 0, 2], [0, 0, 4]])
    known = Answers(torch.tensor([[0, 0, 1], [0, 0, 2]]), 1)
    # For 2: node 1 is another answer, 3 has the same score. For 4: 1 and 2 are left out, 3 is ahead, 0 has the same score.
    assert ranks(factors, asked, known, 5).tolist() == [1.5, 2.5]


def test_a_rule_of_the_graph_is_learnt_and_repeats_to_the_bit():
    triples = ring()
    first, second = (fit(triples, SMALL, seed=1) for _ in range(2))
    assert torch.equal(first.factors.nodes, second.factors.nodes)
    asked = with_inverses(triples.links, 2)
    found = ranks(first.factors, asked, Answers(triples.links, 2), 40)
    assert float((1 / found).mean()) > 0.9
    assert not torch.equal(first.factors.nodes, fit(triples, SMALL, seed=2).factors.nodes)


def test_candidates_are_those_of_a_full_sort_without_known_answers(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    factors = Factors(torch.randn(50, 6, generator=generator), torch.randn(2, 6, generator=generator))
    queries = factors.queries(torch.arange(3), torch.zeros(3, dtype=torch.long))
    known = torch.tensor([0, 0, 2]), torch.tensor([7, 30, 49])
    scores = factors.scores(queries, slice(0, 50))
    scores[known] = -torch.inf
    expected = scores.softmax(1).topk(5, 1)
    for at_once in (1 << 24, 24):  # all at once, and in parts of 8 entities
        monkeypatch.setattr(links, "MAX_SCORES", at_once)
        found = candidates(factors, queries, known, 50, 5)
        assert torch.equal(found.nodes, expected.indices)
        assert torch.allclose(found.probability, expected.values, atol=1e-6)


def some_factors(entities: int) -> tuple[Factors, torch.Tensor]:
    """Factors, and queries to them."""
    generator = torch.Generator().manual_seed(0)
    factors = Factors(torch.randn(entities, 16, generator=generator), torch.randn(2, 16, generator=generator))
    return factors, torch.randn(7, 16, generator=generator)


def test_a_search_in_bfloat16_finds_what_one_in_float32_finds(monkeypatch):
    factors, queries = some_factors(300)
    known = torch.tensor([0, 0, 2]), torch.tensor([7, 30, 49])
    norms = factors.nodes.norm(dim=1)
    searches = [links.Search(queries, known, 5), links.Search(queries[:3], known, 9, norms)]
    monkeypatch.setattr(links, "MAX_SCORES", 640)  # 64 entities at once
    results = []
    for is_native in (False, True):
        monkeypatch.setattr(links, "has_native_bfloat16", lambda device, answer=is_native: answer)
        results.append(links.nearest(factors, 300, searches))
    for of_float, of_bfloat16 in zip(*results, strict=True):
        assert torch.equal(of_float.nodes, of_bfloat16.nodes)
        assert torch.allclose(of_float.scores, of_bfloat16.scores, atol=1e-4)
        assert torch.allclose(of_float.log_total, of_bfloat16.log_total, atol=0.02)


def test_ranks_are_the_same_in_parts(monkeypatch):
    factors, _ = some_factors(50)
    ends = torch.randint(50, (30, 2), generator=torch.Generator().manual_seed(1))
    asked = torch.stack([ends[:, 0], torch.zeros(30).long(), ends[:, 1]], 1)
    known = Answers(asked[:10], 1)
    together = ranks(factors, asked, known, 50)
    monkeypatch.setattr(links, "MAX_SCORES", 100)
    monkeypatch.setattr(links, "RANKED_AT_ONCE", 20)
    assert torch.equal(together, ranks(factors, asked, known, 50))


def test_fewer_entities_than_wanted_are_filled_up():
    factors = Factors(torch.eye(4), torch.ones(2, 4))
    found = candidates(factors, torch.ones(1, 4), (torch.tensor([0]), torch.tensor([2])), 4, 9)
    assert found.nodes.tolist()[0][3:] == [-1]
    assert found.probability[0].sum() == pytest.approx(1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_the_place_of_a_new_node_has_the_least_loss(seed):
    generator = torch.Generator().manual_seed(seed)
    factors = Factors(torch.randn(12, 8, generator=generator), torch.randn(4, 8, generator=generator))
    relations, answers = torch.tensor([0, 0, 1, 3]), torch.tensor([2, 5, 7, 1])

    def loss(vector: torch.Tensor) -> torch.Tensor:
        queries = times(vector.expand(4, 8), factors.relations[relations])
        entropy = F.cross_entropy(queries @ factors.nodes.T, answers)
        return entropy + 0.05 * links.cubes(vector[None]).sum()

    placed = factors.place([(relations, answers, slice(0, 12))], 0.05)
    least = placed.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([least], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(least)
        value.backward()
        return value

    optimizer.step(closure)
    assert float(loss(placed)) <= float(loss(least.detach())) + 0.05


def test_a_classifier_is_right_as_often_as_it_says():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(4000, 4, generator=generator, dtype=torch.float64)
    relation = torch.arange(4000) % 2
    odds = 2 * features[:, 0] - features[:, 2] + 3 * relation - 1.5
    is_true = torch.rand(4000, generator=generator, dtype=torch.float64) < odds.sigmoid()
    classifier = LinkClassifier.fit(features, relation, is_true, 2)
    assert (classifier(features, relation) - odds.sigmoid()).abs().mean() < 0.03


def test_links_are_told_from_false_ones():
    triples = ring()
    fitted = fit(triples, SMALL)
    classifier = fitted.held_out.classifier
    true = triples.links
    false = true.clone()
    false[:, 2] = (true[:, 2] + 7) % 40
    both = torch.cat([true, false])
    probability = classifier(links_features(fitted, both), both[:, 1])
    is_true = torch.arange(len(both)) < len(true)
    assert float(((probability > 0.5) == is_true).double().mean()) > 0.9


def links_features(fitted: links.Fitted, asked: torch.Tensor) -> torch.Tensor:
    return links.link_features(fitted.factors, asked, 40, 2)


def predictor_of(triples: Triples, factors: Factors) -> LinkPredictor:
    """A predictor whose correctness is the probability itself."""
    zero, relations = torch.zeros((), dtype=torch.float64), len(triples.relations)
    correctness = Correctness(zero + 1, zero, torch.zeros(2 * relations).double())
    classifier = LinkClassifier(torch.zeros(5).double(), torch.zeros(relations).double())
    return LinkPredictor(triples, factors, 0.1, correctness, classifier, torch.zeros(0, 3).long(), torch.zeros(0))


def test_presence_goes_by_the_links_of_others():
    """Ten of twenty have one link, five of these a second one."""
    pairs = [(f"a{n}", ("r",), "x") for n in range(10)] + [(f"a{n}", ("r",), "y") for n in range(5)]
    pairs += [(f"b{n}", ("s",), "x") for n in range(10)]
    triples = Triples.of_links(pairs)
    vectors = torch.zeros(len(triples.entities), 4)
    for number, id in enumerate(triples.entities):
        vectors[number, {"a": 0, "b": 1}.get(id[0], 2)] = 1.0
    predictor = predictor_of(triples, Factors(vectors, torch.ones(4, 4)))
    relation = torch.tensor([0, 0])
    asked = torch.tensor([0, 1]), vectors[:2], relation, none(), torch.tensor([1, 2])
    one, two = predictor.predict(*asked, 1).presence.tolist()
    assert one == pytest.approx((5 + 0.5) / (10 + 1))
    assert two == pytest.approx(0.5 / (5 + 1))


def test_presence_of_a_first_link_goes_by_the_entities_most_like_it(monkeypatch):
    monkeypatch.setattr(links, "MOST_LIKE", 10)
    pairs = [(f"a{n}", ("r",), "x") for n in range(10)] + [(f"b{n}", ("s",), "x") for n in range(10)]
    triples = Triples.of_links(pairs)
    vectors = torch.eye(4)[[{"a": 0, "b": 1}.get(id[0], 2) for id in triples.entities]]
    predictor = predictor_of(triples, Factors(vectors, torch.ones(4, 4)))
    new = torch.tensor([-1, -1])
    zeros = torch.tensor([0, 0])
    like_a, like_b = predictor.predict(new, torch.eye(4)[:2], zeros, none(), zeros, 1).presence.tolist()
    assert like_a == pytest.approx(10.5 / 11)
    node = torch.tensor([triples.number_of["a0"]])  # it is no neighbour of its own: one of the ten is now another
    [as_a0] = predictor.predict(node, torch.eye(4)[:1], zeros[:1], none(), zeros[:1], 1).presence.tolist()
    assert as_a0 == pytest.approx(9.5 / 11)
    assert like_b == pytest.approx(0.5 / 11)


def test_a_stored_predictor_predicts_the_same(tmp_path):
    triples = ring()
    fitted = fit(triples, SMALL)
    correctness = Correctness(*(torch.tensor(x, dtype=torch.float64) for x in (0.9, -0.1)), torch.zeros(4).double())
    predictor = LinkPredictor(
        triples,
        fitted.factors,
        fitted.strength,
        correctness,
        fitted.held_out.classifier,
        fitted.held_out.links,
        fitted.held_out.ranks,
    )
    file = tmp_path / "links.safetensors"
    file.write_bytes(serialize.to_bytes(serialize.LINK_FACTORIZATION, predictor))
    read = serialize.read(serialize.LINK_FACTORIZATION, file, NoCodec(), torch.device("cpu"))
    assert read.triples.entities == triples.entities
    assert read.triples.relations == triples.relations
    assert torch.equal(read.triples.numbered, triples.numbered)
    relations = torch.zeros(40, dtype=torch.long)
    before, after = (
        links_of.predict(
            torch.arange(40), links_of.factors.node_vectors(torch.arange(40)), relations, none(), relations, 3
        )
        for links_of in (predictor, read)
    )
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["triples", "held_out"])
def test_numbers_of_other_triples_are_refused(name, tmp_path):
    triples = ring(10)
    zero = torch.zeros((), dtype=torch.float64)
    held_out, of_ranks = torch.zeros(1, 3, dtype=torch.long), torch.ones(2)
    factors = Factors(torch.zeros(10, 4), torch.zeros(4, 4))
    classifier = LinkClassifier(torch.zeros(5).double(), torch.zeros(2).double())
    correctness = Correctness(zero, zero, torch.zeros(4).double())
    predictor = LinkPredictor(triples, factors, 0.1, correctness, classifier, held_out, of_ranks)
    tensors, _ = serialize.LINK_FACTORIZATION.write(predictor)
    broken = {key: tensor.clone() for key, tensor in tensors.items()}
    broken[name][0, 2] = 10
    with pytest.raises(ValueError, match="other triples"):
        serialize.LINK_FACTORIZATION.read(NoCodec(), broken, {})


class NoCodec:
    """A codec of nothing: a predictor of links asks it nothing."""

    classes: tuple[str, ...] = ()
    slots: tuple[object, ...] = ()


def none() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long)


def test_the_rank_is_the_configured_one_or_follows_the_time():
    triples, chosen = ring(), LinkFactorizationConfig()
    assert links.rank_of(triples, LinkFactorizationConfig(rank=8), 0, 1e9) == 8
    assert links.rank_of(triples, chosen, 0, None) == links.DEFAULT_RANK
    assert links.rank_of(triples, chosen, 0, 1e-9) == links.SMALLEST_RANK
    assert links.rank_of(triples, chosen, 0, 1e9) == max(links.LARGER_RANKS)


@pytest.mark.parametrize(
    ("epochs", "rank"), [(0.1, 50), (9, 50), (10, 100), (39, 100), (40, 200), (160, 400), (429, 400), (430, 800)]
)
def test_the_rank_that_is_chosen_grows_with_the_epochs_that_there_is_time_for(epochs, rank):
    assert links.suitable_rank(epochs, 1000) == rank


def test_ranks_above_the_default_are_for_few_nodes():
    nodes = links.MAX_NUMBERS // 800
    assert links.suitable_rank(1e9, nodes) == 400
    assert links.suitable_rank(1e9, nodes + 1) == 200
    assert links.suitable_rank(1e9, 1 << 40) == 200


def test_the_seconds_of_an_epoch_are_those_of_its_steps(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr(links.time, "monotonic", lambda: float(next(now)))
    trainer = FactorTrainer(ring(), LinkFactorizationConfig(rank=2, queries=10), 0.0, 0)
    assert trainer.seconds_of_epoch() == len(list(trainer.epoch())) == 16


def test_the_rate_falls_over_the_epochs():
    trainer = FactorTrainer(ring(), SMALL, 0.01, seed=0)
    trainer.run(None, epochs=10, rates=(1.0, 0.5))
    assert 0.5 * RATE <= trainer.rate < 0.6 * RATE


def test_bfloat16_steps_go_where_float32_steps_go():
    first, second = (FactorTrainer(ring(), SMALL, 0.01, seed=0) for _ in range(2))
    first.precision, second.precision = torch.float32, torch.bfloat16
    asked, known = with_inverses(ring().links, 2), Answers(ring().links, 2)
    for trainer in (first, second):
        trainer.run(None, epochs=60)
        assert float((1 / ranks(trainer.factors, asked, known, 40)).mean()) > 0.9


def test_a_number_of_steps_ends_the_training():
    trainer = FactorTrainer(ring(), SMALL, 0.01, seed=0)
    taken = []
    step = trainer.step
    trainer.step = lambda *arguments: (taken.append(1), step(*arguments))
    trainer.run(None, steps=7)
    trainer.run(1e9, steps=4)
    assert len(taken) == 11


def test_factors_that_are_set_aside_while_others_are_tried_are_the_same(monkeypatch):
    triples = Triples.of_links([(f"e{a}", ("near",), f"e{(a * step) % 40}") for a in range(40) for step in (2, 3, 7)])
    config = LinkFactorizationConfig(rank=4)
    in_memory = links.fit(triples, config, steps=40)
    monkeypatch.setattr(links, "MIN_NUMBERS_SET_ASIDE", 0)
    set_aside = links.fit(triples, config, steps=40)
    assert torch.equal(set_aside.factors.nodes, in_memory.factors.nodes)
    assert set_aside.strength == in_memory.strength


@given(
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_an_epoch_takes_each_triple_once_in_pieces_of_a_few_answers(drawn, answers, queries):
    triples = Triples.of_links([(f"n{head}", (f"p{relation}",), f"n{tail}") for head, relation, tail in sorted(drawn)])
    trainer = FactorTrainer(triples, LinkFactorizationConfig(rank=2, answers=answers, queries=queries), 0.0, 0)
    expected = sorted(map(tuple, with_inverses(triples.links, len(triples.relations)).tolist()))
    for _ in range(3):
        taken, pieces = [], []
        for side, chosen in trainer.epoch():
            heads, relations, rows, tails, counts = side.take(chosen)
            taken += zip(heads[rows].tolist(), relations[rows].tolist(), tails.tolist(), strict=True)
            pieces += counts.tolist()
            assert torch.equal(torch.bincount(rows, minlength=len(chosen)).float(), counts)
        assert sorted(taken) == expected
        assert max(pieces) <= answers


def test_answers_of_a_query_are_in_other_pieces_in_each_epoch():
    triples = Triples.of_links([("hub", ("p",), f"n{number}") for number in range(40)])
    trainer = FactorTrainer(triples, LinkFactorizationConfig(rank=2, answers=20, queries=1), 0.0, 0)

    def of_hub():
        taken = (side.take(pieces) for side, pieces in trainer.epoch())
        return {frozenset(tails.tolist()) for heads, _, _, tails, _ in taken if len(tails) == 20}

    assert len(of_hub() | of_hub()) == 4
