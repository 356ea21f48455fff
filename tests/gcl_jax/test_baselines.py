"""Overlap of trees beside counting one by one, and the published numbers."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from gcl_jax import baselines
from gcl_jax.baselines import Overlap, both_overlap_scores, edge_dice, overlap_scores
from gcl_jax.data import Formulas, forest_of
from gcl_jax.datasets.ntcir12 import RUNS, JudgedFormulas, read_judged, read_runs
from gcl_jax.evaluation import evaluate_ranking, rank
from gcl_jax.formulas.trees import Tree
from retrieval_jax.errors import InputError
from tests.gcl_jax.toy_trees import paths, random_tree

REAL = Path(os.environ.get("RETRIEVAL_DATA", "absent"), "formulas")
needs_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="needs formulas in the folder RETRIEVAL_DATA"
)


def test_edge_dice_of_hand_made_trees() -> None:
    # x = y and x = x, without ends: (x =) is shared, (= y) and (= x) are not.
    first = Tree("slt", ("V!x", "=", "V!y"), (-1, 0, 1), ("", "n", "n"))
    second = Tree("slt", ("V!x", "=", "V!x"), (-1, 0, 1), ("", "n", "n"))
    assert edge_dice(first, second, end_marks=False) == 0.5
    assert edge_dice(first, second) == pytest.approx(1 / 3)  # also (y end), (x end)
    assert edge_dice(first, first) == 1
    # Repeated edges count as often: x + x + x against x + x shares 4 of 4 + 2... and the end.
    long = Tree("slt", ("V!x", "+", "V!x", "+", "V!x"), (-1, 0, 1, 2, 3), ("", *"nnnn"))
    short = Tree("slt", ("V!x", "+", "V!x"), (-1, 0, 1), ("", "n", "n"))
    assert edge_dice(long, short, end_marks=False) == 2 * 2 / (4 + 2)
    assert edge_dice(long, short) == 2 * 3 / (5 + 3)
    one, other = Tree("slt", ("V!x",), (-1,), ("",)), Tree("slt", ("V!y",), (-1,), ("",))
    assert (edge_dice(one, one, False), edge_dice(one, other, False)) == (1, 0)
    with pytest.raises(InputError, match="slt and opt"):
        edge_dice(one, Tree("opt", ("V!x",), (-1,), ("",)))


@pytest.mark.parametrize("layout", ["slt", "opt"])
@pytest.mark.parametrize(
    "overlap",
    [
        Overlap(),
        Overlap(path_length=4, query_weight=0.8),
        Overlap(path_length=3, types_only=True),
        Overlap(path_length=2, end_marks=False, query_weight=1.0),
        Overlap(path_length=60),
    ],
)
def test_overlaps_equal_counting_one_by_one(layout, overlap: Overlap) -> None:
    rng = random.Random(3)
    queries = [random_tree(rng, layout, size) for size in (1, 6, 15)]
    documents = [random_tree(rng, layout, rng.randint(1, 40)) for _ in range(30)] + queries
    scores = overlap_scores(forest_of(queries), forest_of(documents), overlap)
    assert scores.shape == (3, 33)
    settings = overlap.path_length, overlap.types_only, overlap.end_marks
    for i, query in enumerate(queries):
        of_query = paths(query, *settings)
        for j, document in enumerate(documents):
            of_document = paths(document, *settings)
            w = overlap.query_weight
            size = w * of_query.total() + (1 - w) * of_document.total()
            shared = (of_query & of_document).total()
            assert scores[i, j] == pytest.approx(shared / size if size else 0.0)
    if overlap == Overlap():
        wanted = [[edge_dice(q, d) for d in documents] for q in queries]
        np.testing.assert_allclose(scores, wanted)
        assert np.diag(scores[:, 30:]).tolist() == [1, 1, 1]


def test_scores_do_not_depend_on_the_other_documents() -> None:
    rng = random.Random(4)
    query, *documents = [random_tree(rng, "slt", rng.randint(1, 20)) for _ in range(9)]
    overlap = Overlap(path_length=3, query_weight=0.7)
    together = overlap_scores(forest_of([query]), forest_of(documents), overlap)[0]
    alone = [overlap_scores(forest_of([query]), forest_of([d]), overlap)[0, 0] for d in documents]
    np.testing.assert_allclose(together, alone)


def test_many_documents_are_compared_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(6)
    documents = forest_of([random_tree(rng, "slt", rng.randint(1, 20)) for _ in range(10)])
    queries, overlap = documents.subset([3, 5]), Overlap(path_length=2)
    whole = overlap_scores(queries, documents, overlap)
    monkeypatch.setattr(baselines, "_BLOCK", 4)
    np.testing.assert_array_equal(overlap_scores(queries, documents, overlap), whole)
    assert overlap_scores(queries, documents.subset([]), overlap).shape == (2, 0)


def test_both_layouts_are_summed() -> None:
    rng = random.Random(5)
    slts = forest_of([random_tree(rng, "slt", 8) for _ in range(4)])
    opts = forest_of([random_tree(rng, "opt", 8) for _ in range(4)])
    formulas = Formulas(tuple("abcd"), slts, opts)
    overlap = Overlap()
    np.testing.assert_array_equal(
        both_overlap_scores(formulas, formulas, overlap),
        overlap_scores(slts, slts, overlap) + overlap_scores(opts, opts, overlap),
    )


@pytest.mark.parametrize("settings", [{"path_length": 0}, {"query_weight": 1.1}])
def test_settings_are_checked(settings) -> None:
    with pytest.raises(InputError):
        Overlap(**settings)


@pytest.fixture(scope="module")
def judged() -> JudgedFormulas:
    return read_judged(REAL)


@needs_data
@pytest.mark.parametrize(
    ("overlap", "all_topics", "even_topics", "small_pool"),
    [
        (Overlap(), (0.720, 0.574), (0.664, 0.498), (0.750, 0.586)),
        (Overlap(types_only=True), (0.723, 0.574), None, (0.761, 0.578)),
        (Overlap(3), (0.746, 0.647), (0.720, 0.617), (0.765, 0.648)),
        (Overlap(4, query_weight=0.8), (0.771, 0.679), (0.758, 0.664), (0.786, 0.679)),
    ],
)
def test_the_published_overlaps(
    judged: JudgedFormulas, overlap: Overlap, all_topics, even_topics, small_pool
) -> None:
    ranking = rank(judged, both_overlap_scores(judged.queries, judged.formulas, overlap))
    for pool, topics, wanted in (
        ("all", "all", all_topics),
        ("all", "even", even_topics),
        ("small", "all", small_pool),
    ):
        if wanted is not None:
            found = evaluate_ranking(judged, ranking, pool, topics).mean
            assert (found["partial"], found["full"]) == pytest.approx(wanted, abs=0.001)


@needs_data
def test_the_published_runs(judged: JudgedFormulas) -> None:
    runs, _ = read_runs(REAL / RUNS, judged.queries.ids)
    for name, wanted in {
        "graphcl_slt_bs2048": (0.676, 0.538),
        "graphcl_opt_bs2048": (0.711, 0.523),
        "bgrl_slt_bs256": (0.706, 0.501),
        "bgrl_opt_bs256": (0.688, 0.517),
        "infograph_slt_bs256": (0.696, 0.541),
        "infograph_opt_bs256": (0.686, 0.515),
        "tangentcft_full590k": (0.713, 0.596),
    }.items():
        found = evaluate_ranking(judged, runs[name]).mean
        assert (found["partial"], found["full"]) == pytest.approx(wanted, abs=0.0011)
