"""Peers: other methods for what kbdisk does, each a file of this folder and a row in PEERS.

A peer fills hidden cells, draws rows like those of a table, or ranks the ends of links (`protocol` says how). A peer without
requirements runs in this process. A peer with requirements runs in an environment of its own, which
`python -m benchmarks peers install NAME` makes: there its file is a program, which `exchange` asks and answers by plain files.
Such a program imports `exchange` and its own packages alone, as kbdisk is not installed there; so this module imports the
standard library alone.
"""

from __future__ import annotations

from typing import NamedTuple

# TEXTS: what fills writes texts, too. LITERALS: what fills predicts the numbers of a graph's nodes, and nothing else.
FILLS, SAMPLES, TEXTS, RANKS, LITERALS = "fills", "samples", "texts", "ranks", "literals"
TORCH = "torch>=2.6,<2.14"
CTGAN = (TORCH, "ctgan==0.12.1")  # which holds pandas below 3
LLM = (TORCH, "transformers==5.24.0", "peft==0.21.2")


class Peer(NamedTuple):
    """What is known of a peer before it is imported."""

    summary: str
    abilities: frozenset[str]  # FILLS, SAMPLES, TEXTS, RANKS, LITERALS
    packages: tuple[str, ...] = ()  # by their names on PyPI; their versions are stored with results
    requirements: tuple[str, ...] = ()  # of an environment of its own, as pip takes them
    shares: str = ""  # the peer whose environment it shares
    weights: str = ""  # the environment variable that names the folder of a pretrained model
    has_weights: bool = False  # files of weights, which the user has to have


PEERS = {
    "constant": Peer("The median of numbers, the most frequent label.", frozenset({FILLS})),
    "catboost": Peer("A CatBoost for each property.", frozenset({FILLS}), ("catboost",)),
    "iterative": Peer(
        "Chained equations with histogram boosting, classifiers for labels.",
        frozenset({FILLS}),
        ("scikit-learn",),
    ),
    "neighbours": Peer(
        "k nearest neighbours by Gower's distance, k by held-out values.", frozenset({FILLS}), ("numpy",)
    ),
    "missforest": Peer("MissForest: chained equations with random forests.", frozenset({FILLS}), ("scikit-learn",)),
    "miceforest": Peer(
        "Multiple imputation by chained equations with LightGBM.",
        frozenset({FILLS}),
        ("miceforest", "lightgbm"),
        requirements=("miceforest==6.0.3", "lightgbm==4.5.0", "pandas>=2.2,<4"),  # miceforest fails with lightgbm 4.7
    ),
    "tabularargn": Peer(
        "TabularARGN: an autoregressive network of all columns.",
        frozenset({FILLS}),
        ("mostlyai-engine", "torch"),
        requirements=(TORCH, "mostlyai-engine==2.7.3"),
    ),
    "smote": Peer(
        "SMOTE: rows between a row and its nearest neighbours.",
        frozenset({SAMPLES}),
        ("imbalanced-learn", "scikit-learn"),
        requirements=("imbalanced-learn==0.14.2", "scikit-learn==1.9.1", "pandas>=2.2,<4"),
    ),
    "tabddpm": Peer(
        "TabDDPM: Gaussian and multinomial diffusion with an MLP; fills by inpainting.",
        frozenset({FILLS, SAMPLES}),
        ("torch",),
    ),
    "lm-scratch": Peer(
        "The paper's decoder-only transformer, trained from scratch on entities as tokens.",
        frozenset({FILLS, TEXTS}),
        ("torch",),
    ),
    "llm": Peer(
        "A pretrained language model, fine-tuned with LoRA on entities as JSON.",
        frozenset({FILLS, TEXTS}),
        ("transformers", "peft", "torch"),
        requirements=LLM,
        weights="KBDISK_LLM",
    ),
    "llm-zero-shot": Peer(
        "The same language model as it is.",
        frozenset({FILLS, TEXTS}),
        ("transformers", "torch"),
        requirements=LLM,
        shares="llm",
        weights="KBDISK_LLM",
    ),
    "tvae": Peer(
        "TVAE: a variational autoencoder of rows.", frozenset({SAMPLES}), ("ctgan", "torch"), requirements=CTGAN
    ),
    "ctgan": Peer(
        "CTGAN: a conditional generative adversarial network of rows.",
        frozenset({SAMPLES}),
        ("ctgan", "torch"),
        requirements=CTGAN,
    ),
    "ctabgan": Peer(
        "CTAB-GAN: a conditional adversarial network of rows as images.",
        frozenset({SAMPLES}),
        ("torch", "scikit-learn"),
    ),
    "ctabgan+": Peer(
        "CTAB-GAN+: CTAB-GAN with a Wasserstein loss.",
        frozenset({SAMPLES}),
        ("torch", "scikit-learn"),
    ),
    "pykeen": Peer(
        "PyKEEN: ComplEx with inverse relations and cross-entropy over all entities.",
        frozenset({RANKS}),
        ("pykeen", "torch"),
        requirements=(TORCH, "pykeen==1.11.1"),
    ),
    "dicee": Peer(
        "dice-embeddings: numbers from embeddings of links and labels.",
        frozenset({FILLS, LITERALS}),
        ("dicee", "torch"),
        requirements=(TORCH, "dicee==0.3.3", "pandas>=2.2,<3", "pyarrow<22", "rdflib"),  # it does not name the last two
    ),
    "hyperimpute": Peer(
        "HyperImpute: chained equations that choose a model for each column.",
        frozenset({FILLS}),
        ("hyperimpute", "torch"),
        requirements=(
            TORCH,
            "hyperimpute==0.1.17",
            "scikit-learn==1.5.2",
            "pandas>=2.2,<3",
            "xgboost==2.1.4",
            "lightgbm==4.5.0",
        ),
    ),
    "tabpfn": Peer(
        "TabPFN: a pretrained transformer that learns in context.",
        frozenset({FILLS}),
        ("tabpfn", "torch"),
        requirements=(TORCH, "tabpfn==9.2.0"),
        has_weights=True,
    ),
    "tabicl": Peer(
        "TabICL: a pretrained transformer that learns in context.",
        frozenset({FILLS}),
        ("tabicl", "torch"),
        requirements=(TORCH, "tabicl==2.2.0", "pandas>=2.2,<4"),
        has_weights=True,
    ),
    "utrees": Peer(
        "UnmaskingTrees: XGBoost draws each column from any subset of the others.",
        frozenset({FILLS}),
        ("utrees", "xgboost"),
        requirements=("utrees==0.3.0", "xgboost==3.2.0", "scikit-learn<1.7", "pandas>=2.2,<4"),
    ),
}


def module_name(name: str) -> str:
    """The module of a peer."""
    return f"benchmarks.peers.{name.replace('-', '_').replace('+', '_plus')}"
