"""Configuration of graph contrastive learning on formulas, and its presets.

Origin of the values of `paper`: (P) published; (A) the authors' code; (O) ours, where neither says.
"""

import dataclasses
from typing import Literal

from gcl_jax.augmentations import AugmentationConfig
from gcl_jax.embeddings import NodeEmbeddingConfig
from retrieval_jax.contrastive_blocked import LOWEST_TEMPERATURE
from retrieval_jax.errors import InputError, check_fields
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.training import TrainingConfig

Layouts = Literal["slt", "opt", "both"]
Features = Literal["learned", "fasttext"]


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Which formulas are trained on.

    Attributes:
        source: prepared set of formulas (`gcl_jax.datasets`).
        formulas: keep so many, drawn at random; None = all.
        end_marks: add the marks of ends that Tangent-CFT and the published graphs have.
        max_nodes: leave out formulas with a larger tree.
        min_count: labels that occur less often are unknown.

    Raises:
        InputError: a count below 1.
    """

    source: Literal["enwiki"] = "enwiki"
    formulas: int | None = None
    end_marks: bool = True
    max_nodes: int = 200
    min_count: int = 2

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_fields(self, ("formulas", "max_nodes", "min_count"), "data", at_least=1)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """How a formula becomes a vector.

    Attributes:
        layout: which tree is encoded; both = an encoder for each, their unit vectors side by side.
        encoder: gin = graph isomorphism network (Xu et al., 2019), the published one; paths = ours:
            the formula is the set of its paths, each hashed and weighed by learned weights.
        features: of gin, of nodes: learned vectors of types and labels; or vectors of fastText over
            random walks, fixed.
        hidden: of gin: width of features (learned) and layers.
        layers: of gin.
        norm: of gin's layers. Batch norm, as published, would need running statistics beside the
            parameters, and would let a formula's vector depend on its neighbours in the batch.
        edges: of gin: what edge labels do: nothing, as published; add a vector to the message; or
            scale it, dimension by dimension.
        direction: of gin: other weights for messages from the parent than for those from children.
        pooling: of gin: nodes to graph, of every layer; the layers are concatenated.
        depth: of paths: edges of the longest path.
        dim: of paths: width of each layout's vector.
        salt: of paths: another number gives another hash.
        document_exponent: p of the score cosine * (|document| / |query|)^(1 - p). 1 = the cosine;
            less prefers documents that contain the query and more.
    """

    layout: Layouts = "both"
    encoder: Literal["gin", "paths"] = "paths"
    features: Features = "learned"
    hidden: int = 128
    layers: int = 2
    norm: Literal["layer", "none"] = "layer"
    edges: Literal["none", "sum", "scale"] = "sum"
    direction: bool = True
    pooling: Literal["sum", "mean", "attention"] = "sum"
    depth: int = 4
    dim: int = 256
    salt: int = 0
    document_exponent: float = 1.0

    def __post_init__(self) -> None:
        """Refuses sizes below 1, and vectors of fastText where nothing reads them.

        Raises:
            InputError: the field and its value.
        """
        check_fields(self, ("hidden", "layers", "depth", "dim"), "model", at_least=1)
        if self.encoder == "paths" and self.features == "fasttext":
            raise InputError(
                "model.features is fasttext, but model.encoder paths has no node features",
                "Set --model.encoder gin.",
            )


@dataclasses.dataclass(frozen=True)
class ContrastConfig:
    """The contrastive loss of formulas and their views.

    Attributes:
        temperature: divides cosines.
        chunk_graphs: formulas encoded at a time; a larger batch is encoded in chunks, whose inner
            states are computed again for the gradient, so that memory does not grow with it.
        block_size: side of a tile of the loss.
        slt_rate: factor on the learning rate of the encoder of layout trees.

    Raises:
        InputError: a temperature that the loss does not take, or a size below 1.
    """

    temperature: float = 0.03
    chunk_graphs: int = 256
    block_size: int = 512
    slt_rate: float = 1.0

    def __post_init__(self) -> None:
        """Checks the fields."""
        check_fields(self, ("temperature",), "contrast", at_least=LOWEST_TEMPERATURE)
        check_fields(self, ("chunk_graphs", "block_size"), "contrast", at_least=1)


@dataclasses.dataclass(frozen=True)
class Config:
    """A training run.

    Attributes:
        data: which formulas.
        model: which encoder.
        embeddings: how fastText's vectors are trained, where they are the features.
        augmentation: how the second view is made.
        contrast: the loss.
        training: how it is trained.
    """

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    embeddings: NodeEmbeddingConfig = NodeEmbeddingConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    contrast: ContrastConfig = ContrastConfig()
    training: TrainingConfig = TrainingConfig()


def adam(
    learning_rate: float, schedule: Literal["cosine", "cosine_to_tenth"] = "cosine"
) -> OptimizerConfig:
    """Adam without warm-up, decay and clipping."""
    return OptimizerConfig(
        learning_rate=learning_rate,
        schedule=schedule,
        warmup=0.0,
        weight_decay=0.0,
        clip_norm=None,
    )


PAPER = Config(
    data=DataConfig(max_nodes=1000, min_count=1),  # (O)
    model=ModelConfig(
        layout="slt",  # (P) SLT and OPT are trained apart
        encoder="gin",  # (A)
        features="fasttext",  # (P)
        hidden=128,  # (A)
        layers=2,  # (A)
        norm="layer",  # (O) batch norm (A); see ModelConfig
        edges="none",  # (A)
        direction=False,  # (A)
        pooling="sum",  # (A)
    ),
    augmentation=AugmentationConfig(("substitute_typed",), rate=0.3),  # (A)
    contrast=ContrastConfig(temperature=0.03),  # (A)
    training=TrainingConfig(
        steps=72_500,  # (A) 50 epochs, of 372k formulas in batches of 256
        batch_size=256,  # (P) the least of 256 to 8192
        log_every=50,
        evaluate_every=1450,
        checkpoint_every=1450,
        best_measure="partial",
        optimizer=adam(0.01, "cosine_to_tenth"),  # (A)
    ),
)

PRESETS: dict[str, Config] = {
    "paper": PAPER,
    # Chosen on the odd-numbered topics; see experiments/gcl/models.py.
    "small": Config(
        data=DataConfig(formulas=31_000),
        model=ModelConfig(document_exponent=0.4),
        augmentation=AugmentationConfig(("subformula", "edge_mask"), rate=0.3),
        contrast=ContrastConfig(temperature=0.1, slt_rate=0.25),
        training=TrainingConfig(
            steps=120,
            batch_size=256,
            log_every=20,
            evaluate_every=40,
            checkpoint_every=40,
            best_measure="mean",
            optimizer=adam(4e-3),
        ),
    ),
    # As `paper`, but on a sample, with learned features and with edges in the encoder, without
    # which an edge mask does nothing.
    "ablation": dataclasses.replace(
        PAPER,
        data=DataConfig(formulas=20_000),
        model=dataclasses.replace(PAPER.model, features="learned", edges="sum"),
        augmentation=AugmentationConfig(("substitute_variables",), rate=0.3),
        training=dataclasses.replace(
            PAPER.training,
            steps=156,
            log_every=20,
            evaluate_every=156,
            checkpoint_every=156,
            best_measure="mean",
        ),
    ),
    "smoke": Config(
        data=DataConfig(formulas=200, max_nodes=60),
        model=ModelConfig(hidden=16, dim=64, depth=2),
        contrast=ContrastConfig(chunk_graphs=16),
        training=TrainingConfig(
            steps=4,
            batch_size=32,
            log_every=2,
            evaluate_every=2,
            checkpoint_every=2,
            best_measure="partial",
            optimizer=adam(1e-3),
        ),
    ),
}
