"""CTAB-GAN+: CTAB-GAN with a Wasserstein loss with gradient penalty. Our own code in torch, after Zhao et al. (2022).

A number with one mode is only scaled (general transform), and a numeric target has a downstream loss, too.

DIFF(paper): as of `ctabgan`; the discriminator takes two steps for each of the generator, for CPUs.
"""

from __future__ import annotations

from benchmarks.peers.ctabgan import Method, Settings, WassersteinLoss, encode_simple_or_by_modes, sample_by
from benchmarks.peers.protocol import Sampled, Sampling


def sample(sampling: Sampling) -> Sampled:
    """Rows drawn from a CTAB-GAN+."""
    settings = Settings(critic_steps=2)
    return sample_by(
        Method(encode_simple_or_by_modes, WassersteinLoss, predicts_numbers=True, settings=settings), sampling
    )
