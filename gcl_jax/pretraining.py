"""Training an encoder of formulas: from a configuration and trees to a run folder."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from gcl_jax.config import Config
from gcl_jax.data import Formulas, sample
from gcl_jax.datasets.ntcir12 import JudgedFormulas
from gcl_jax.encoding import Tables, encode_tables, index_formulas, jit_encoder
from gcl_jax.evaluation import evaluate_ranking, rank
from gcl_jax.formulas.trees import split_label
from gcl_jax.graphs import RESERVED, Vocabulary, equal_ids, make_vocabulary
from gcl_jax.model import FEATURES, LAYOUTS, OUTPUT, FormulaEncoder, init_params, make_encoder
from gcl_jax.task import ContrastTask, DevSet
from retrieval_jax.config import to_dict
from retrieval_jax.errors import InputError
from retrieval_jax.kept import content_name
from retrieval_jax.params import Params
from retrieval_jax.runs import RunFolder, create_run
from retrieval_jax.sharding import DATA, make_mesh
from retrieval_jax.training import Trained, train

PACKAGE = "gcl_jax"
VOCABULARY = "vocabulary.json"
PRINCIPAL_FORMULAS = 2000
"""How many formulas the principal components are those of."""

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


def fasttext_features(formulas: Formulas, vocabulary: Vocabulary, config: Config) -> Features:
    """Vectors of fastText over random walks for a vocabulary; zeros for its reserved symbols.

    Args:
        formulas: whose trees are walked.
        vocabulary: whose symbols get vectors.
        config: layouts, end marks, and how fastText is trained.
    """
    from gcl_jax.embeddings import train_node_embeddings

    reserved = len(RESERVED)
    features = {}
    for layout in LAYOUTS[config.model.layout]:
        forest = getattr(formulas, layout)
        forest = forest.with_end_marks() if config.data.end_marks else forest
        embeddings = train_node_embeddings(forest, config.embeddings)
        values = [split_label(label)[1] or label for label in vocabulary.labels[reserved:]]
        features[layout] = {
            "types": embeddings.types.lookup(vocabulary.types[reserved:]),
            "labels": embeddings.values.lookup(values),
        }
    return {
        layout: {name: np.pad(table, ((reserved, 0), (0, 0))) for name, table in of_layout.items()}
        for layout, of_layout in features.items()
    }


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


def start_params(
    encoder: FormulaEncoder, tables: Tables, features: Features | None, seed: int
) -> Params:
    """Parameters that are not random at the start.

    Fixed features, brought to unit variance; and the last product, the principal components (about
    zero, not the mean, so that inner products are kept) of what the untrained encoder gives for
    some training formulas.
    """
    config = encoder.config
    start: Params = {}
    for layout, tables_ in ({} if features is None else features).items():
        scaled = {name: table / max(float(table.std()), 1e-6) for name, table in tables_.items()}
        start[layout] = {FEATURES: scaled}
    if config.output is None:
        return start
    plain = encoder.clone(config=dataclasses.replace(config, output=None))
    params = init_params(plain, jax.random.key(seed))
    for layout, given in start.items():
        params[layout] |= given
    count = min(PRINCIPAL_FORMULAS, len(next(iter(tables.values()))))
    chosen = np.random.default_rng(seed).permutation(len(next(iter(tables.values()))))[:count]
    some = {name: table.subset(chosen) for name, table in tables.items()}
    for layout, vectors in encode_tables(jit_encoder(plain), params, some).items():
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        _, axes = np.linalg.eigh(unit.T @ unit)
        kernel = np.zeros((unit.shape[1], config.output), np.float32)
        best = axes[:, ::-1][:, : config.output]
        kernel[:, : best.shape[1]] = best
        # The encoder below must be the one that the components are those of.
        start[layout] = params[layout]
        start[f"{layout}_{OUTPUT}"] = {"kernel": kernel}
    return start


def fingerprint(tables: Tables, vocabulary: Vocabulary) -> str:
    """Hash of all that is trained on."""
    arrays = [
        getattr(table, field.name)
        for table in tables.values()
        for field in dataclasses.fields(table)
    ]
    words = [word for name in ("types", "labels", "edges") for word in getattr(vocabulary, name)]
    return content_name([*words, *arrays])


def pretrain(
    config: Config,
    formulas: Formulas,
    path: Path,
    judged: JudgedFormulas | None = None,
    show_progress: bool = True,
) -> tuple[RunFolder, Trained]:
    """Trains an encoder on formulas alone; judgements, if any, only choose among its checkpoints.

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
    features = fasttext_features(chosen, vocabulary, config) if is_fixed else None
    dim = config.embeddings.dim if is_fixed else config.model.hidden
    encoder = make_encoder(config.model, vocabulary, dim)
    tables = index_formulas(chosen, vocabulary, config.model.layout, config.data)
    training = config.training
    if is_fixed:
        frozen = tuple(dict.fromkeys((*training.optimizer.frozen, f"/{FEATURES}/")))
        optimizer = dataclasses.replace(training.optimizer, frozen=frozen)
        training = dataclasses.replace(training, optimizer=optimizer)
    mesh = make_mesh(training.mesh)
    task = ContrastTask(
        encoder,
        tables,
        vocabulary,
        config,
        functools.partial(start_params, encoder, tables, features, training.seed),
        None if judged is None else dev_set(judged, vocabulary, config),
        mesh.shape[DATA],
    )
    run = create_run(path, PACKAGE, config, fingerprint(tables, vocabulary))
    run.write_json(VOCABULARY, to_dict(vocabulary) | {"feature_dim": dim})
    return run, train(task, training, run, mesh, show_progress)
