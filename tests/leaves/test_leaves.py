"""Every row of KINDS keeps the same promises. A new kind needs only an example here; a made-up one shows that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, asdict, fields
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
import torch
from counts import COUNT, Count
from torch import Tensor, nn

from kbdisk.entity import Link as LinkValue
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.registry import LEARNT_KINDS, LeafModules, learnt_kind, learnt_leaf
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.schemas.kinds import KINDS, Boolean, Category, Link, Number, Set, Text

WIDTH = 16


class Example(NamedTuple):
    """A leaf, values that fit it, one that does not, and the complaint."""

    leaf: Any
    values: Sequence[Any]
    wrong: Any
    complaint: str


EXAMPLES = {
    Number: Example(Number(minimum=0), [133.0, 194, 80.5, Decimal("99.5"), 133.0], "heavy", "expected a number"),
    Category: Example(Category(("g", "oz"), closed=True), ["oz", "g", "oz"], "kg", "expected one of g, oz, got 'kg'"),
    Boolean: Example(Boolean(), [True, False, True], 1, "expected true or false, got 1"),
    Text: Example(Text(max_length=60), ["Nokia 3310", "", "Galaxy S21"], 3310, "expected text, got 3310"),
    Link: Example(Link("Country"), [LinkValue("fr"), LinkValue("de"), LinkValue("fr")], 7, "expected a link"),
    Set: Example(Set(Category(), most=3), [["blue", "red"], [], ["red"]], [b"no"], "expected a label"),
}


MADE_UP = Example(Count(), [0, 3, 17], -1, "expected a count, got -1")


# ---------------------------------------------------------------- the promises


@pytest.fixture(params=[*EXAMPLES, Count], ids=lambda leaf: leaf.__name__)
def example(request, monkeypatch) -> Example:
    if request.param is Count:
        monkeypatch.setitem(KINDS, "count", COUNT)
        return MADE_UP
    return EXAMPLES[request.param]


@pytest.fixture
def kind(example) -> LeafModules:
    return LEARNT_KINDS[learnt_kind(example.leaf)]


@pytest.fixture
def words(example) -> Tokenizer:
    return Tokenizer.fit([value for value in example.values if isinstance(value, str)], 512) or Tokenizer()


@pytest.fixture
def codecs(example, kind, words) -> list[Any]:
    """Of three slots: of all the values, of the first one, of all again."""
    some = [example.values, example.values[:1], example.values]
    return [kind.codec.fit(learnt_leaf(example.leaf), values, kind.config(), words) for values in some]


@pytest.fixture
def setting(kind, words) -> Setting:
    return Setting(WIDTH, [0, 1, 1], kind.config(), tokenizer=words)


@pytest.fixture
def encoder(kind, codecs, setting) -> nn.Module:
    return kind.encoder(codecs, setting).eval()


@pytest.fixture
def decoder(kind, codecs, setting) -> nn.Module:
    return kind.decoder(codecs, setting).eval()


@pytest.fixture
def rows() -> Rows:
    """Five rows: two of the first slot, one of the second, two of the third."""
    return Rows(torch.tensor([0, 0, 1, 2, 2]), [2, 3], torch.randn(5, WIDTH))


@pytest.fixture
def codes(example, codecs) -> Tensor:
    """Of the five rows."""
    first, second = example.values[:2]
    own = [[first, second], [first], [second, first]]
    return torch.cat([codec.encode(values) for codec, values in zip(codecs, own, strict=True)])


def _plain(value: Any) -> Any:
    """A set has no order."""
    return sorted(value) if isinstance(value, list) else value


def test_every_kind_has_an_example():
    assert EXAMPLES.keys() == {row.type for row in KINDS.values()}


def test_every_kind_comes_by_one_name_and_the_order_of_kinds_is_that_of_batches():
    assert [kind.name for kind in LEARNT_KINDS.values()] == ["number", "category", "text", "link", "set"]


def test_values_survive_the_round_trip(example, codecs):
    again = codecs[0].decode(codecs[0].encode(example.values))
    assert list(map(_plain, again)) == list(map(_plain, example.values))
    for value in again:
        example.leaf.check(value)


def test_a_value_that_does_not_fit_is_refused_with_a_reason(example, codecs):
    with pytest.raises(ValueError, match=example.complaint):
        codecs[0].encode([example.values[0], example.wrong])


def test_a_codec_is_plain_data_and_comes_back_from_json(kind, codecs, words):
    for codec in codecs:
        assert kind.codec.from_json(json.loads(json.dumps(codec.to_json())), words) == codec
        with pytest.raises(FrozenInstanceError):
            setattr(codec, (fields(codec)[0].name if fields(codec) else "new"), None)


def test_no_value_in_training_is_enough_for_a_codec(example, kind, words, setting):
    codec = kind.codec.fit(learnt_leaf(example.leaf), [], kind.config(), words)
    assert kind.codec.from_json(json.loads(json.dumps(codec.to_json())), words) == codec
    rows = Rows(torch.zeros(2, dtype=torch.long), [2], torch.randn(2, WIDTH))
    belief = kind.decoder([codec], Setting(WIDTH, [0], setting.config, tokenizer=words)).eval()(
        torch.randn(2, WIDTH), rows
    )
    assert belief.entropy().isfinite().all()
    assert len(codec.decode(belief.mode())) == 2


def test_choices_are_frozen_plain_data_with_defaults(kind):
    config = kind.config()
    assert kind.config(**json.loads(json.dumps(asdict(config)))) == config
    with pytest.raises(FrozenInstanceError):
        setattr(config, fields(config)[0].name, None)


def test_values_and_their_paths_are_read(encoder, codes, rows):
    x = encoder(codes, rows)
    assert x.shape == (5, WIDTH)
    assert (x - encoder(codes, Rows(rows.slot, rows.counts, torch.randn(5, WIDTH)))).abs().max() > 1e-3
    other = codes[torch.tensor([1, 0, 2, 4, 3])]
    assert ((encoder(other, rows) - x).abs() > 1e-4).any(1).tolist() == [True, True, False, True, True]


def test_beliefs_score_draw_and_say_how_sure(example, decoder, codes, rows, codecs):
    h = torch.randn(5, WIDTH)
    belief = decoder(h, rows)
    log_prob = belief.log_prob(codes)
    assert log_prob.shape == belief.entropy().shape == (5,)
    assert (log_prob <= 0).all()
    assert log_prob.isfinite().all()
    assert belief.entropy().isfinite().all()
    for drawn in (belief.sample(), belief.sample(0.5), belief.mode()):
        assert len(drawn) == 5
        assert drawn.dtype == codes.dtype
        assert belief.log_prob(drawn).isfinite().all()
        for row, slot in enumerate(rows.slot.tolist()):
            (value,) = codecs[slot].decode(drawn[row : row + 1])
            example.leaf.check(value)


def test_draws_repeat_with_the_generator_and_the_mode_is_the_same_each_time(decoder, rows):
    belief = decoder(torch.randn(5, WIDTH), rows)
    first, second = (belief.sample(generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(belief.mode(), belief.mode())
    drawn = [belief.sample(generator=torch.Generator().manual_seed(seed)) for seed in range(8)]
    assert any(one.shape != first.shape or not torch.equal(one, first) for one in drawn)


def test_some_of_the_beliefs_are_what_they_were_among_all(decoder, codes, rows):
    belief, some = decoder(torch.randn(5, WIDTH), rows), torch.tensor([4, 1, 1])
    torch.testing.assert_close(belief.pick(some).log_prob(codes[some]), belief.log_prob(codes)[some])
    assert len(belief.pick(some).sample()) == len(belief.pick(some).mode()) == 3


def test_no_row_depends_on_another(encoder, decoder, codes, rows):
    h = torch.randn(5, WIDTH)
    x, log_prob = encoder(codes, rows), decoder(h, rows).log_prob(codes)
    for row, slot in enumerate(rows.slot.tolist()):
        own = slice(row, row + 1)
        alone = Rows(rows.slot[own], [int(slot == 0), int(slot > 0)], rows.path[own])
        torch.testing.assert_close(encoder(codes[own], alone), x[own])
        torch.testing.assert_close(decoder(h[own], alone).log_prob(codes[own]), log_prob[own])


def test_the_path_tells_properties_apart(decoder, codes, rows):
    h = torch.randn(5, WIDTH)
    other = Rows(rows.slot, rows.counts, torch.randn(5, WIDTH))
    assert (decoder(h, rows).log_prob(codes) != decoder(h, other).log_prob(codes))[:2].all()


def test_there_may_be_no_row_at_all(encoder, decoder, codes):
    none = Rows(torch.zeros(0, dtype=torch.long), [0, 0], torch.zeros(0, WIDTH))
    assert encoder(codes[:0], none).shape == (0, WIDTH)
    belief = decoder(torch.zeros(0, WIDTH), none)
    assert belief.log_prob(codes[:0]).shape == belief.entropy().shape == (0,)
    assert len(belief.sample()) == len(belief.mode()) == 0


def test_blank_rows_break_nothing(encoder, decoder, codes, rows):
    belief = decoder(torch.randn(5, WIDTH), rows)
    for blank in (torch.zeros_like(codes), torch.full_like(codes, -1))[: 1 if codes.dim() > 1 else 2]:
        assert belief.log_prob(blank).shape == (5,)
        assert not encoder(blank.clamp(min=0), rows).isnan().any()


def test_beliefs_are_floats_even_where_the_network_runs_in_halves(encoder, decoder, codes, rows):
    with torch.autocast("cpu", torch.bfloat16):
        x = encoder(codes, rows)
        belief = decoder(x, rows)
        assert belief.log_prob(codes).dtype == belief.entropy().dtype == torch.float32
        assert belief.log_prob(codes).isfinite().all()


def test_weights_come_back_into_modules_made_from_saved_codecs(kind, codecs, setting, words, codes, rows):
    saved = [kind.codec.from_json(json.loads(json.dumps(codec.to_json())), words) for codec in codecs]
    before, after = kind.decoder(codecs, setting).eval(), kind.decoder(saved, setting).eval()
    after.load_state_dict(before.state_dict())
    h = torch.randn(5, WIDTH)
    torch.testing.assert_close(before(h, rows).log_prob(codes), after(h, rows).log_prob(codes), rtol=0, atol=0)
    before, after = kind.encoder(codecs, setting).eval(), kind.encoder(saved, setting).eval()
    after.load_state_dict(before.state_dict())
    assert torch.equal(before(codes, rows), after(codes, rows))


@pytest.mark.slow
def test_what_is_seen_is_learnt(encoder, decoder, codes, rows):
    decoder.train()
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.02)
    losses = []
    for _ in range(45):
        optimizer.zero_grad()
        loss = -decoder(encoder(codes, rows), rows).log_prob(codes).mean()
        loss.backward()
        assert all(one.grad is None or one.grad.isfinite().all() for one in decoder.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.85 * losses[0]
