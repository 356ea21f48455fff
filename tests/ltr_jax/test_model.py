"""The ranker's formulas against plain NumPy; the split first layer against the unsplit one."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ltr_jax.config import PRESETS, ModelConfig
from ltr_jax.data import feature_table
from ltr_jax.model import (
    DOCUMENT,
    QUERY,
    SHARPNESS,
    PooledConvolution,
    Ranker,
    init_params,
)
from retrieval_jax.packing import place
from retrieval_jax.word_vectors import WordVectors

WORDS = WordVectors(
    tuple("abcdefgh"), np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
)
LISTS = [list("abcdefg"), list("ab"), [], list("hgfe"), list("xax"), list("ccccc")]


def packed(lists, window, vectors=WORDS, width=16):
    table = feature_table(lists, vectors, window, 10)
    placement = place(table.table.lengths, width)
    return table.pack(np.arange(len(lists)), placement.num_rows + 1, placement, width)


def pooled_by_hand(lists, kernel, bias, vectors=WORDS):
    """c of each text, window by window; a text shorter than a window is filled with zeros."""
    window = len(kernel)
    pooled = []
    for names in lists:
        known = vectors.lookup([name for name in names if name in vectors.vocabulary])
        if len(known) == 0:
            pooled.append(np.zeros(len(bias)))
            continue
        spare = max(window - len(known), 0)
        known = np.concatenate([known, np.zeros((spare, known.shape[1]))])
        windows = [known[i : i + window] for i in range(len(known) - window + 1)]
        pooled.append(np.mean([np.tanh(np.tensordot(w, kernel) + bias) for w in windows], axis=0))
    return np.array(pooled)


@pytest.mark.parametrize("window", [1, 2, 4])
def test_the_convolution_is_that_of_the_paper(window):
    module = PooledConvolution(3, window)
    vectors, windows = packed(LISTS, window)
    params = module.init(jax.random.key(0), vectors, windows, len(LISTS))["params"]
    params = {"kernel": params["kernel"], "bias": jnp.array([0.1, -0.2, 0.3])}
    outputs = module.apply({"params": params}, vectors, windows, len(LISTS))
    expected = pooled_by_hand(LISTS, np.asarray(params["kernel"]), np.asarray(params["bias"]))
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    np.testing.assert_array_equal(outputs[2], 0)  # a text without words


def test_the_order_of_categories_does_not_count():
    module = PooledConvolution(3, 1)
    there, back = packed(LISTS, 1), packed([names[::-1] for names in LISTS], 1)
    params = module.init(jax.random.key(0), *there, len(LISTS))
    outputs = [module.apply(params, *rows, len(LISTS)) for rows in (there, back)]
    np.testing.assert_allclose(*outputs, atol=1e-6)


CONFIG = ModelConfig(filters=6, category_filters=4, layers=3, hidden=10, dropout=0.0)


def toy_ranker(**changes):
    model = Ranker(dataclasses.replace(CONFIG, **changes))
    init = jax.jit(lambda key: init_params(model, key, {"words": 5, "categories": 5}))
    params = init(jax.random.key(1))
    # Biases start at zero: other values show where they belong.
    keys = iter(jax.random.split(jax.random.key(2), 99))
    return model, jax.tree.map(
        lambda leaf: leaf if leaf.ndim > 1 else jax.random.normal(next(keys), leaf.shape), params
    )


def encoded(model, params, side, lists):
    features = [packed(lists, model.config.window), packed(lists, 1)]
    apply = jax.jit(functools.partial(model.apply, method=Ranker.encode), static_argnums=(1, 3))
    return apply({"params": params}, side, features, len(lists))


@pytest.mark.parametrize(("activation", "layers"), [("tanh", 4), ("relu", 1)])
def test_the_split_first_layer_equals_a_perceptron_on_pairs(activation, layers):
    model, params = toy_ranker(activation=activation, layers=layers)
    lists = {QUERY: LISTS[:3], DOCUMENT: LISTS[1:]}
    halves = [encoded(model, params, side, of_side) for side, of_side in lists.items()]
    scores = np.asarray(model.apply({"params": params}, *halves, method=Ranker.score_all))

    values = jax.tree.map(np.asarray, params)
    activate = np.tanh if activation == "tanh" else lambda x: np.maximum(x, 0)
    first = np.concatenate([values["query_half"]["kernel"], values["document_half"]["kernel"]])
    for i, query in enumerate(lists[QUERY]):
        for j, document in enumerate(lists[DOCUMENT]):
            parts = []  # [c_q ; c_q^cat ; c_d ; c_d^cat]
            for side, text in ((QUERY, query), (DOCUMENT, document)):
                for kind in ("words", "categories"):
                    convolution = values[f"{side}_{kind}"]
                    parts.append(pooled_by_hand([text], convolution["kernel"], convolution["bias"]))
            hidden = activate(np.concatenate(parts, 1)[0] @ first + values["query_half"]["bias"])
            for layer in range(layers - 1):
                dense = values[f"layers_{layer}"]
                hidden = activate(hidden @ dense["kernel"] + dense["bias"])
            expected = hidden @ values["output"]["kernel"] + values["output"]["bias"]
            assert scores[i, j] == pytest.approx(expected[0], abs=1e-5)


@pytest.mark.parametrize("masks", ["query", "pair"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("interaction", ["sum", "product", "cosine"])
def test_all_pairs_score_as_pairs_do(interaction, layers, masks):
    changes = {"interaction": interaction, "layers": layers, "dropout_masks": masks}
    model, params = toy_ranker(dropout=0.5, **changes)
    halves = encoded(model, params, QUERY, LISTS), encoded(model, params, DOCUMENT, LISTS[:4])
    for deterministic in (True, False):
        grid, pairs = (
            model.apply(
                {"params": params},
                *sides,
                deterministic,
                method=method,
                rngs={"dropout": jax.random.key(3)},
            )
            for method, sides in (
                (Ranker.score_all, halves),
                (Ranker.score, (halves[0][:, None], halves[1][None])),
            )
        )
        np.testing.assert_allclose(grid, pairs, atol=1e-5)


def test_both_sides_may_share_their_filters():
    shared, params = toy_ranker(shared_filters=True)
    assert {name for name in params if "words" in name or "categories" in name} == {
        "words",
        "categories",
    }
    apart = Ranker(dataclasses.replace(shared.config, shared_filters=False))
    of_sides = {f"{side}_{kind}": params[kind] for side in (QUERY, DOCUMENT)
                for kind in ("words", "categories")}  # fmt: skip
    twice = params | of_sides
    for side in (QUERY, DOCUMENT):
        found = encoded(shared, params, side, LISTS)
        np.testing.assert_array_equal(found, encoded(apart, twice, side, LISTS))
        assert np.std(found) > 0.1
    changes = {"interaction": "cosine", "start": "similarity", "layers": 1}
    similar, params = toy_ranker(shared_filters=True, **changes)
    kernel = np.asarray(params["words"]["kernel"]).sum(axis=0)  # [5, 6], orthogonal rows
    np.testing.assert_allclose(kernel @ kernel.T, np.eye(5), atol=1e-5)
    halves = [
        np.asarray(encoded(similar, params, side, LISTS))
        - np.asarray(params[f"{side}_half"]["bias"])
        for side in (QUERY, DOCUMENT)
    ]
    np.testing.assert_allclose(*halves, atol=1e-5)


def test_factors_of_a_cosine_have_length_1():
    product, params = toy_ranker(interaction="product", layers=1)
    halves = [encoded(product, params, side, LISTS) for side in (QUERY, DOCUMENT)]
    factors = [np.tanh(half) / np.linalg.norm(np.tanh(half), axis=1, keepdims=True)
               for half in halves]  # fmt: skip
    output = jax.tree.map(np.asarray, params["output"])
    expected = factors[0] * output["kernel"].T @ factors[1].T + output["bias"]
    cosine = Ranker(dataclasses.replace(product.config, interaction="cosine"))
    scores = cosine.apply({"params": params}, *halves, method=Ranker.score_all)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    nothing = jnp.zeros_like(halves[0])
    scores = cosine.apply({"params": params}, nothing, halves[1], method=Ranker.score_all)
    np.testing.assert_allclose(scores, np.full_like(expected, output["bias"][0]), atol=1e-6)


def test_training_can_begin_with_the_similarity_of_mean_vectors():
    changes = {"interaction": "cosine", "start": "similarity", "layers": 1, "features": "text"}
    model = Ranker(dataclasses.replace(CONFIG, **changes))
    params = jax.jit(lambda key: init_params(model, key, {"words": 5}))(jax.random.key(1))
    # Small vectors: there tanh is the identity.
    small = dataclasses.replace(WORDS, vectors=WORDS.vectors * 1e-3)
    lists = LISTS[:2] + LISTS[3:]
    texts = [packed(lists, 4, small)]
    apply = jax.jit(functools.partial(model.apply, method=Ranker.encode), static_argnums=(1, 3))
    halves = [apply({"params": params}, side, texts, len(lists)) for side in (QUERY, DOCUMENT)]
    scores = model.apply({"params": params}, *halves, method=Ranker.score_all)
    means = []
    for names in lists:
        known = [WORDS.vectors[WORDS.vocabulary[name]] for name in names if name in "abcdefgh"]
        known += [np.zeros(5)] * (4 - len(known))
        windows = [np.mean(known[i : i + 4], axis=0) for i in range(len(known) - 3)]
        means.append(np.mean(windows, axis=0))
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(scores, SHARPNESS * unit @ unit.T, atol=1e-3)


def test_dropout_is_the_same_for_all_documents_of_a_query():
    model, params = toy_ranker(dropout=0.5)
    halves = encoded(model, params, QUERY, LISTS)[:, None], jnp.zeros((1, 7, 10))
    scores = model.apply(
        {"params": params},
        *halves,
        False,
        method=Ranker.score,
        rngs={"dropout": jax.random.key(3)},
    )
    np.testing.assert_allclose(scores, jnp.broadcast_to(scores[:, :1], scores.shape), atol=1e-6)
    assert np.std(scores[:, 0]) > 0.01


def test_dropout_may_differ_for_each_document_of_a_query():
    one, pairs = LISTS[:1], 4000
    scores = {}
    for dropout in (0.0, 0.5):
        # One layer: the score is linear in what is dropped, so that its mean stays.
        model, params = toy_ranker(dropout=dropout, layers=1, dropout_masks="pair")
        halves = encoded(model, params, QUERY, one)[:, None], jnp.zeros((1, pairs, 10))
        rngs = {"dropout": jax.random.key(3)}
        scores[dropout] = model.apply(
            {"params": params}, *halves, False, method=Ranker.score, rngs=rngs
        )
    hidden = np.tanh(encoded(model, params, QUERY, one)[0])
    terms = hidden * np.asarray(params["output"]["kernel"])[:, 0]
    spread = float(np.sqrt(np.sum(np.square(terms))))  # each term is 0 or twice itself
    assert np.std(scores[0.5]) == pytest.approx(spread, rel=0.1)
    assert np.mean(scores[0.5]) == pytest.approx(float(scores[0.0][0, 0]), abs=0.1 * spread)


@pytest.mark.parametrize(
    ("features", "widths"), [("text", (6, 0)), ("meta", (0, 4)), ("text+meta", (6, 4))]
)
def test_features_decide_what_there_is(features, widths):
    model = Ranker(dataclasses.replace(CONFIG, features=features))
    params = jax.eval_shape(
        lambda: init_params(model, jax.random.key(0), {"words": 5, "categories": 5})
    )
    assert params["document_half"]["kernel"].shape == (sum(widths), 10)
    assert ("query_words" in params, "query_categories" in params) == tuple(map(bool, widths))


@pytest.mark.parametrize(
    ("preset", "layers", "hidden"), [("paper", 4, 1600), ("paper-patents", 2, 3200)]
)
def test_published_shapes(preset, layers, hidden):
    config = PRESETS[preset].model
    shapes = jax.eval_shape(
        lambda: init_params(Ranker(config), jax.random.key(0), {"words": 100, "categories": 30})
    )
    assert shapes["words"]["kernel"].shape == (4, 100, config.filters)
    assert shapes["categories"]["kernel"].shape == (1, 30, config.category_filters)
    assert not [name for name in shapes if name.endswith(("_words", "_categories"))]
    squares = [name for name in shapes if name.startswith("layers_")]
    assert len(squares) == layers - 1
    assert all(shapes[name]["kernel"].shape == (hidden, hidden) for name in squares)
    assert shapes["output"]["kernel"].shape == (hidden, 1)
    assert "bias" not in shapes["document_half"]
