"""What moves a network's weights: Muon where two widths meet and AdamW elsewhere, or AdamW alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kbdisk.data import Codec
from kbdisk.model import mup
from kbdisk.model.network import DiSK
from kbdisk.model.optimizers import AdamW
from kbdisk.training.muon import STRENGTH, TURNED, Muon
from kbdisk.training.run import Run

BETAS = (0.9, 0.98)


def optimizer(network: DiSK, codec: Codec, run: Run, grown: Mapping[str, mup.Growth]) -> AdamW:
    """For a network as `grown`; the rate of each group is its share of the run's."""
    decay, width = run.train.decay, run.model.width
    if run.train.optimizer == "adamw":
        return AdamW(mup.parameter_groups(network, grown, 1.0, decay), BETAS)
    wider = mup.growths(DiSK(codec, replace(run.model, width=2 * width)), network)
    hidden = frozenset(name for name, growth in wider.items() if growth.hidden)
    groups = mup.parameter_groups(network, grown, 1.0, decay, apart=hidden)
    turned = [parameter for name, parameter in network.named_parameters() if name in hidden]
    return Muon([*groups, {"params": turned, "lr": STRENGTH, "weight_decay": decay, TURNED: True}], width, BETAS)
