"""The gallery: answers with what was meant, neighbours, maps, and nothing unescaped."""

import types

import numpy as np
import pytest

from experiments.gallery.entities import answer, answer_blocks, chosen_entities, nearest_table
from experiments.gallery.formulas import root_groups, search_blocks
from experiments.gallery.maps import (
    OTHERS,
    evenly_spaced,
    group_largest,
    groups_of,
    kept_neighbours,
    map_figure,
    project,
    without_id,
)
from experiments.report.blocks import Markup, to_html, to_markdown
from retrieval_jax.errors import InputError

NAMES = ("A (1990)", "B <b> (1991)", "C (2001)", "D (2002)", "E (2003)", "F (2004)")


class Ranker:
    """What the gallery asks of a DocEnt ranker."""

    entities = NAMES
    entity_vectors = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9], [-1, 0], [0, -1]])

    def score(self, texts):
        return np.array([[float(name in text) for name in "ABCDEF"] for text in texts])


def test_answers_say_where_the_meant_ones_are():
    asked = [("like A", frozenset({NAMES[0]})), ("<i> like C", frozenset({NAMES[1]}))]
    first, second = answers = answer(Ranker(), asked, k=2)
    assert first.best == [NAMES[0], NAMES[1]] and first.meant == {NAMES[0]: 1}
    # B ties with all but C: it may be last.
    assert second.best[0] == NAMES[2] and second.meant == {NAMES[1]: 6}
    text = to_html(answer_blocks(answers, "Two requests"))
    assert "Two requests, none chosen by its answers; 1 of 2 that were meant are among" in text
    assert f'<li class="meant">{NAMES[0]}</li>' in text
    assert "&lt;i&gt; like C" in text and "<b>" not in text
    assert "B &lt;b&gt; (1991) is at rank 6" in text
    assert answer_blocks(answer(Ranker(), [("A", frozenset())]), "Ours")[0] == "Ours."


def test_nearest_entities_by_cosine():
    table = nearest_table(Ranker(), [NAMES[0]], k=1)
    assert table.rows == [[NAMES[0], f"{NAMES[1]} (0.99)"]]
    assert chosen_entities(Ranker(), ["c (20", "none", "E"], 3) == [NAMES[2], NAMES[4]]
    assert chosen_entities(Ranker(), [], 3) == [NAMES[0], NAMES[2], NAMES[5]]


def test_points_are_coloured_by_decade_package_and_size():
    assert groups_of([*NAMES[:3], "numpy.fft.fft", "x"]) == [
        *("1990s", "1990s", "2000s", "numpy"),
        OTHERS,
    ]
    many = [str(i) for i in range(20) for _ in range(20 - i)]
    assert len(set(group_largest(many))) == 7 and group_largest(many)[-1] == OTHERS
    assert evenly_spaced(10, 3) == [0, 4, 9] and evenly_spaced(2, 9) == [0, 1]


def test_films_are_named_by_their_titles_on_a_map():
    assert [without_id(n) for n in ("A [B] (1999) [tt12]", "[tt12]", "a[0]")] == [
        *("A [B] (1999)", "", "a[0]")
    ]


def test_clusters_stay_apart_on_a_map(tmp_path):
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3, 8), 12, axis=0)
    vectors = centres + rng.normal(0, 0.05, centres.shape)
    clusters = np.repeat(range(3), 12)
    for method in ("pca", "tsne"):
        places = project(vectors, method)
        assert places.shape == (36, 2)
        distances = np.linalg.norm(places[:, None] - places[None], axis=-1)
        np.fill_diagonal(distances, np.inf)
        assert (clusters[distances.argmin(axis=1)] == clusters).all()
        assert kept_neighbours(vectors, places) > 0.8
    names = [f"$p_{i}$ (199{i % 10})" for i in range(36)]
    path = tmp_path / "map.png"
    figure = map_figure(vectors, names, groups_of(names), path, "a map", "pca", labelled=4)
    assert path.read_bytes().startswith(b"\x89PNG") and figure.svg.startswith(b"<?xml")
    assert [row[0] for row in figure.numbers.rows] == [names[i] for i in (0, 11, 23, 35)]
    with pytest.raises(InputError, match="a map of 2 points"):
        project(vectors[:2])


def test_formulas_are_rendered_with_their_scores():
    searcher = types.SimpleNamespace(encode=lambda queries: np.eye(2)[[0] * len(queries)])
    texts = [r"\frac{a}{b}", r"x<y", "a+b"]
    documents = np.array([[0.25, 0], [0.75, 0], [0.5, 0]])
    blocks = search_blocks(searcher, ["a^2"], texts, documents, k=2)
    text = to_html(blocks)
    assert text.index("0.750") < text.index("0.500") and "0.250" not in text
    assert "<msup><mi>a</mi><mn>2</mn></msup>" in text and "<mo>&lt;</mo>" in text
    assert "<code>a^2</code>" in text
    assert to_markdown(blocks).startswith("The best of 3 formulas")
    assert isinstance(blocks[1], Markup)
    groups = root_groups(["a+b", "c+d", r"\frac{a}{b}", r"\frac{"])
    assert groups[0] == groups[1] != groups[2] and groups[3] == ""
