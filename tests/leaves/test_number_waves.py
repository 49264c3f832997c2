"""SingleStep numbers are read by their remainders: what is even is told from what is odd, however large it is."""

from __future__ import annotations

import torch
from tables import for_each

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.number import NumberCodec, NumberConfig, NumberEncoder
from kbdisk.leaves.number.encoder import PERIODS, Remainders
from kbdisk.schemas.kinds import Number

WHOLE = NumberCodec.fit(Number(integer=True), list(range(2000)), NumberConfig(), None)
BROKEN = NumberCodec.fit(Number(), [n / 7 for n in range(2000)], NumberConfig(), None)
SETTING = Setting(width=8, groups=[0, 1], config=NumberConfig())


def waves(values: list[int]) -> torch.Tensor:
    own = Remainders([WHOLE, BROKEN], SETTING)
    rows = Rows(torch.zeros(len(values), dtype=torch.long), [len(values), 0], torch.zeros(len(values), 8))
    with torch.no_grad():
        return own(WHOLE.encode(values)[:, 0], rows)


def test_what_has_the_same_remainders_is_the_same_and_else_another():
    common = torch.lcm(torch.tensor(16), torch.lcm(torch.tensor(12), torch.lcm(torch.tensor(20), torch.tensor(28))))
    one, neighbour, far = waves([5, 6, 5 + int(common)])
    torch.testing.assert_close(one, far, atol=1e-4, rtol=1e-4)
    assert (one - neighbour).abs().max() > 0.05
    assert all(int(common) % period == 0 for period in PERIODS)


def test_numbers_that_are_not_whole_have_none():
    own = Remainders([WHOLE, BROKEN], SETTING)
    rows = Rows(torch.ones(3, dtype=torch.long), [0, 3], torch.zeros(3, 8))
    assert own(BROKEN.encode([1.0, 2.5, 3.0])[:, 0], rows).abs().max() == 0


@for_each(("choice", "codecs", "there"), [(True, [WHOLE], True), (False, [WHOLE], False), (True, [BROKEN], False)])
def test_an_encoder_has_them_where_some_number_is_whole(choice, codecs, there):
    setting = Setting(width=8, groups=[0], config=NumberConfig(waves=choice))
    assert (NumberEncoder(codecs, setting).waves is not None) == there


def test_odd_and_even_can_be_learnt_of_numbers_that_were_never_met():
    encoder = NumberEncoder([WHOLE], Setting(width=8, groups=[0], config=NumberConfig(), blocks=0))
    read = torch.nn.Linear(8, 1)
    met = torch.arange(0, 2000, 3)
    new = torch.arange(1, 2000, 3)
    learner = torch.optim.Adam([*encoder.parameters(), *read.parameters()], lr=0.01)

    def logits(values: torch.Tensor) -> torch.Tensor:
        rows = Rows(torch.zeros(len(values), dtype=torch.long), [len(values)], torch.zeros(len(values), 8))
        return read(encoder(WHOLE.encode(values.tolist()), rows))[:, 0]

    for _ in range(200):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits(met), (met % 2).float())
        learner.zero_grad()
        loss.backward()
        learner.step()
    assert ((logits(new) > 0) == (new % 2 == 1)).float().mean() > 0.95
