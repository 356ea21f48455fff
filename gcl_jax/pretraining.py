"""Training an encoder of formulas: from a configuration and trees to a run folder."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gcl_jax.config import Config
from gcl_jax.data import Forest, Formulas, sample
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.encoding import Tables, index_formulas
from gcl_jax.evaluation import evaluate_ranking, rank
from gcl_jax.graphs import RESERVED, UNKNOWN_LABELS, Vocabulary, equal_ids, make_vocabulary
from gcl_jax.model import FEATURES, LAYOUTS, make_encoder
from gcl_jax.task import ContrastTask, DevSet
from retrieval_jax.config import to_dict
from retrieval_jax.distributed import main_first
from retrieval_jax.errors import InputError
from retrieval_jax.kept import content_name, keep
from retrieval_jax.optimizers import OptimizerConfig
from retrieval_jax.params import Params
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.sharding import DATA, make_mesh
from retrieval_jax.training import Trained, train

PACKAGE = "gcl_jax"
VOCABULARY = "vocabulary.json"
NODE_EMBEDDINGS = "node_embeddings"

Features = Mapping[str, Mapping[str, np.ndarray]]
"""Fixed node features of each layout: `types` `[types, dim]`, `labels` `[labels, dim]`."""


def choose_formulas(formulas: Formulas, config: Config) -> Formulas:
    """What is trained on: neither too large nor twice there, in both layouts, and a sample of that.

    Raises:
        InputError: nothing is left.
    """
    data = config.data
    sizes = [
        (forest.with_end_marks() if data.end_marks else forest).sizes
        for forest in (formulas.slt, formulas.opt)
    ]
    small = np.flatnonzero(np.max(sizes, axis=0) <= data.max_nodes)
    if not len(small):
        raise InputError(
            f"none of {len(formulas)} formulas has {data.max_nodes} nodes or fewer",
            "Raise data.max_nodes, or give other formulas.",
        )
    formulas = formulas.subset(small)
    plain = make_vocabulary([formulas.slt, formulas.opt])
    without_marks = dataclasses.replace(data, end_marks=False)
    ids = equal_ids(list(index_formulas(formulas, plain, "both", without_marks).values()))
    formulas = formulas.subset(np.unique(ids, return_index=True)[1])
    return sample(formulas, data.formulas, seed=0)


def model_vocabulary(formulas: Formulas, config: Config) -> Vocabulary:
    """The symbols of training formulas, of both layouts, which share them."""
    forests = [formulas.slt, formulas.opt]
    if config.data.end_marks:
        forests = [forest.with_end_marks() for forest in forests]
    return make_vocabulary(forests, config.data.min_count)


def fasttext_features(
    formulas: Formulas, vocabulary: Vocabulary, config: Config, folder: Path
) -> Features:
    """Vectors of fastText over random walks for a vocabulary, brought to unit variance.

    Reserved symbols have zeros. Unknown labels have random vectors of the same variance: two of one
    id have something in common.

    Args:
        formulas: whose trees are walked.
        vocabulary: whose symbols get vectors.
        config: layouts, end marks, and how fastText is trained.
        folder: of these formulas and this configuration, where what was trained is kept.
    """
    from gcl_jax.embeddings import label_words, load_node_embeddings, train_node_embeddings

    reserved = len(RESERVED)
    rng = np.random.default_rng(config.embeddings.seed)
    unknown = rng.normal(size=(UNKNOWN_LABELS, config.embeddings.dim)).astype(np.float32)
    features = {}
    for layout in LAYOUTS[config.model.layout]:
        forest = getattr(formulas, layout)
        forest = forest.with_end_marks() if config.data.end_marks else forest

        def train_into(unfinished: Path, forest: Forest = forest) -> None:
            train_node_embeddings(forest, config.embeddings).save(unfinished)

        embeddings = load_node_embeddings(keep(folder, layout, train_into))
        values = [label_words(label)[1] for label in vocabulary.labels[reserved:]]
        types = _unit_variance(embeddings.types.lookup(vocabulary.types[reserved:]))
        labels = _unit_variance(embeddings.values.lookup(values))
        features[layout] = {
            name: np.pad(table, ((reserved, 0), (0, 0)))
            for name, table in (("types", types), ("labels", np.concatenate([labels, unknown])))
        }
    return features


def _unit_variance(table: np.ndarray) -> np.ndarray:
    return table / max(float(table.std()), 1e-6)


def dev_set(judged: JudgedFormulas, vocabulary: Vocabulary, config: Config) -> DevSet:
    """The odd-numbered topics, by which parameters are chosen, on the pool of all judged formulas.

    Its measures are `partial` and `full` bpref, and `mean`, the mean of both.
    """
    layout, data = config.model.layout, config.data

    def measures(scores: np.ndarray) -> dict[str, float]:
        found = evaluate_ranking(judged, rank(judged, scores), topics="odd").mean
        return found | {"mean": sum(found.values()) / len(found)}

    return DevSet(
        index_formulas(judged.queries, vocabulary, layout, data),
        index_formulas(judged.formulas, vocabulary, layout, data),
        measures,
    )


def optimizer_of(config: Config) -> OptimizerConfig:
    """The optimizer, with what the model's settings say of rates and frozen tables."""
    optimizer = config.training.optimizer
    if config.model.features == "fasttext":
        frozen = tuple(dict.fromkeys((*optimizer.frozen, f"/{FEATURES}/")))
        optimizer = dataclasses.replace(optimizer, frozen=frozen)
    if config.contrast.slt_rate != 1 and "slt" in LAYOUTS[config.model.layout]:
        scaled = (*optimizer.scaled, ("^slt/", config.contrast.slt_rate))
        optimizer = dataclasses.replace(optimizer, scaled=scaled)
    return optimizer


def fingerprint(
    tables: Tables, vocabulary: Vocabulary, judged: JudgedFormulas | None = None
) -> str:
    """Hash of all that is trained on, and of the judgements that choose among checkpoints."""
    arrays = [
        getattr(table, field.name)
        for table in tables.values()
        for field in dataclasses.fields(table)
    ]
    words = [word for name in ("types", "labels", "edges") for word in getattr(vocabulary, name)]
    if judged is None:
        return content_name([*words, *arrays])
    topics = json.dumps(judged.qrels, sort_keys=True)
    ids = (*judged.queries.ids, *judged.formulas.ids)
    return content_name([*words, *arrays, topics, *ids])


def pretrain(
    config: Config,
    formulas: Formulas,
    path: Path,
    judged: JudgedFormulas | None = None,
    show_progress: bool = True,
) -> tuple[RunFolder, Trained]:
    """Trains an encoder on formulas alone; judgements, if any, only choose among its checkpoints.

    Of several processes, which must all call it, the first trains vectors of fastText.

    Args:
        config: what to train.
        formulas: parsed formulas; `choose_formulas` says which are used.
        path: run folder, made here; an interrupted or finished run in it is taken up.
        judged: of whose odd-numbered topics the measures are the dev measures.
        show_progress: progress bar.

    Returns:
        The run folder, ready for `gcl_jax.load`, and what training gave.

    Raises:
        InputError: no formulas to train on, and what `train_node_embeddings`, `create_run` and
            `train` refuse.
    """
    chosen = choose_formulas(formulas, config)
    vocabulary = model_vocabulary(chosen, config)
    is_fixed = config.model.features == "fasttext"
    dim = config.embeddings.dim if is_fixed else config.model.hidden
    encoder = make_encoder(config.model, vocabulary, dim)
    tables = index_formulas(chosen, vocabulary, config.model.layout, config.data)
    training = dataclasses.replace(config.training, optimizer=optimizer_of(config))
    mesh = make_mesh(training.mesh)

    def warm_start() -> Params:
        if not is_fixed:
            return {}
        folder = path / NODE_EMBEDDINGS
        features = main_first(lambda: fasttext_features(chosen, vocabulary, config, folder))
        return {layout: {FEATURES: tables} for layout, tables in features.items()}

    task = ContrastTask(
        encoder,
        tables,
        vocabulary,
        config,
        warm_start,
        None if judged is None else dev_set(judged, vocabulary, config),
        mesh.shape[DATA],
    )
    run = create_run(path, PACKAGE, config, fingerprint(tables, vocabulary, judged))
    run.write_json(VOCABULARY, to_dict(vocabulary) | {"feature_dim": dim})
    return run, train(task, training, run, mesh, show_progress)
