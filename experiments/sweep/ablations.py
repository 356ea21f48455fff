"""The ablations: named sweeps, each of one part of a system, all else by a preset for CPU cores.

`python -m experiments.sweep --ablation NAME --output runs/ablations/NAME`. Words after `--` are
added to every cell, but may not name what is varied: `-- --training.steps 2000` runs cells longer,
but for `gcl_batch_size`; those of `ltr_*` count epochs, `-- --epochs 10`.
"""

from experiments.sweep.cells import Axis, Sweep

DOCENT, GCL = "experiments.docent.pretrain", "experiments.gcl.train"
LTR, MATHSIM = "experiments.ltr.train", "experiments.mathsim.cross_validation"
SEEDS = (0, 1, 2)
# Of partial and full relevance, in both pools: on the even topics, which choose nothing, and on
# all, of which the odd ones choose the checkpoint and the share of layout trees.
BPREF = ("bpref.*.even.*", "bpref.*.all.*")
SIMILARITY = ("measures.Spearman", "measures.AP")
# Of DocEnt's parameters; BERT is its `encoder`.
LOWER_LAYERS = ("^encoder/embeddings/", "^encoder/encoder/layer_[01]/")


def choices(option: str, *values: object) -> Axis:
    """An axis of the values of one option; a tuple is several words."""
    axis = {}
    for value in values:
        words = [str(word) for word in (value if isinstance(value, tuple) else (value,))]
        axis[", ".join(words)] = (f"--{option}", *words)
    return axis


def switch(option: str) -> Axis:
    """An axis of a yes or no option."""
    group, _, name = option.rpartition(".")
    return {"yes": (f"--{option}",), "no": (f"--{group}.no-{name}",)}


def docent(about: str, preset: str = "quickstart", **axes: Axis) -> Sweep:
    """A sweep of DocEnt: dev RR of zero-shot ranking, here on the quickstart's subset."""
    return Sweep(DOCENT, _named(axes), SEEDS, ("--preset", preset), about=about)


def gcl(about: str, preset: str = "ablation", **axes: Axis) -> Sweep:
    """A sweep of formula retrieval: bpref of NTCIR-12 on the even and on all topics."""
    return Sweep(GCL, _named(axes), SEEDS, ("--preset", preset), measures=BPREF, about=about)


def ltr(about: str, **axes: Axis) -> Sweep:
    """A sweep of the cross-lingual ranker, English to German: dev NDCG."""
    options = ("--preset", "small", "--data.pair", "en-de")
    names = ("steps", "evaluate-every", "checkpoint-every")
    decided_by = {f"--training.{name}": "--epochs" for name in names}
    return Sweep(LTR, _named(axes), SEEDS, options, about=about, decided_by=decided_by)


def mathsim(about: str, **axes: Axis) -> Sweep:
    """A sweep of similarity: held-out pairs of a cross-validation over train and dev."""
    return Sweep(
        MATHSIM, _named(axes), SEEDS, ("--preset", "small"), measures=SIMILARITY, about=about
    )


def _named(axes: dict[str, Axis]) -> dict[str, Axis]:
    """Axes by their names as people write them."""
    return {name.replace("_", " "): of for name, of in axes.items()}


ABLATIONS: dict[str, Sweep] = {
    "docent_objective": docent(
        "Which of the three models, against the entities of the batch or all.",
        objective={
            "Dual, all entities": ("--model.kind", "dual", "--model.negatives", "all"),
            "Dual, in batch": ("--model.kind", "dual", "--model.negatives", "in_batch"),
            "Hybrid, all entities": ("--model.kind", "hybrid", "--model.negatives", "all"),
            "Hybrid, in batch": ("--model.kind", "hybrid", "--model.negatives", "in_batch"),
            "Full": ("--model.kind", "full"),
        },
    ),
    "docent_lambda": docent(
        "The weight of the masked words' loss, 0 to 2, in Hybrid and Full.",
        kind=choices("model.kind", "hybrid", "full"),
        weight=choices("model.mlm-weight", 0.0, 0.25, 0.5, 1.0, 2.0),
    ),
    "docent_masking": docent(
        "How many words, and how often the entity, are masked in Full.",
        kind=choices("model.kind", "full"),
        words=choices("model.word-mask-rate", 0.1, 0.15, 0.3),
        entity=choices("model.entity-mask-rate", 0.25, 0.5, 0.75, 1.0),
    ),
    "docent_names": docent(
        "What names in the reviews are worth.", preset="films", names_kept=switch("data.keep-names")
    ),
    "docent_frozen": docent(
        "Training the encoder, or the entity table alone.",
        trained={
            "table and encoder": (),
            "table, upper layers": ("--training.optimizer.frozen", *LOWER_LAYERS),
            "table only": ("--training.optimizer.frozen", "^encoder/"),
        },
    ),
    "docent_layers": docent(
        "How many layers of the encoder are used.", layers=choices("model.layers", 1, 2, 4, 6)
    ),
    "docent_start": docent(
        "Rows of the entity table at the start.",
        start=choices("model.entity-init", "random", "mean", "fitted"),
    ),
    "gcl_augmentation": gcl(
        "Variable Substitution beside the generic augmentations.",
        layout=choices("model.layout", "slt", "opt"),
        augmentation=choices(
            "augmentation.methods",
            *("none", "substitute_typed", "substitute_variables", "rename", "node_drop"),
            *("edge_drop", "node_mask", "edge_mask", "random", "subformula"),
        ),
    ),
    "gcl_rate": gcl(
        "The share of nodes that an augmentation changes.",
        augmentation=choices("augmentation.methods", "substitute_variables", "rename", "node_drop"),
        rate=choices("augmentation.rate", 0.1, 0.3, 0.5, 0.8),
    ),
    "gcl_batch_size": gcl(
        "Batch size, with as many formulas seen by each.",
        batch={
            str(size): (
                *("--training.batch-size", str(size)),
                *("--training.steps", str(156 * 256 // size)),
            )
            for size in (64, 128, 256, 512, 1024)
        },
    ),
    "gcl_encoder": gcl(
        "Graph isomorphism network, its depth, or hashed paths.",
        encoder={
            "gin, 1 layer": ("--model.encoder", "gin", "--model.layers", "1"),
            "gin, 2 layers": ("--model.encoder", "gin", "--model.layers", "2"),
            "gin, 4 layers": ("--model.encoder", "gin", "--model.layers", "4"),
            "paths, up to 2": ("--model.encoder", "paths", "--model.depth", "2"),
            "paths, up to 3": ("--model.encoder", "paths", "--model.depth", "3"),
            "paths, up to 4": ("--model.encoder", "paths", "--model.depth", "4"),
        },
    ),
    "gcl_edges": gcl(
        "What edge labels and directions are worth to the network.",
        edges=choices("model.edges", "none", "sum", "scale"),
        direction=switch("model.direction"),
    ),
    "gcl_layout": gcl(
        "Layout trees, operator trees, or both; both pools are in the measures.",
        preset="small",
        layout=choices("model.layout", "slt", "opt", "both"),
    ),
    "gcl_pooling": gcl(
        "From nodes to a formula; by cosine a mean is the same as a sum.",
        pooling=choices("model.pooling", "sum", "attention"),
    ),
    "ltr_features": ltr(
        "Words, categories, or both.",
        features=choices("model.features", "text", "meta", "text+meta"),
    ),
    "ltr_objective": ltr(
        "Pairwise hinge, or every other document of the batch as a negative.",
        objective=choices("sampling.objective", "hinge", "in_batch"),
    ),
    "ltr_embedding_size": ltr(
        "The size of the word vectors.", size=choices("word-vectors.dim", 50, 100, 200)
    ),
    "mathsim_loss": mathsim(
        "Cosine regression or in-batch contrast, with or without further pairs.",
        objective=choices("objective", "cosine", "contrastive"),
        further_pairs={
            "none": ("--extra",),
            "AFP": ("--extra", "afp"),
            "AFP, MSC": ("--extra", "afp", "msc"),
        },
    ),
    "mathsim_pooling": mathsim(
        "From word pieces to a text.", pooling=choices("pooling", "mean", "cls", "max")
    ),
    "mathsim_adaptation": mathsim(
        "Starting from an encoder that was adapted by masked words (`experiments.mathsim.adapt`).",
        start={
            "general encoder": (),
            "adapted": ("--model.encoder", "runs/mathsim/adapted/encoder"),
        },
        objective=choices("objective", "cosine", "contrastive"),
    ),
}
