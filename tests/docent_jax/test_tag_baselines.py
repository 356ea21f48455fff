"""Tag baselines and word vectors against closed forms on hand-made cases."""

import math
import zipfile

import numpy as np
import pytest

from docent_jax.baselines import bm25_scores
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.movielens import MovieLens
from docent_jax.tag_baselines import (
    bag_of_sentences_tag_scores,
    bag_of_words_tag_scores,
    bm25_tag_scores,
    tag_genome_scores,
    tfidf_tag_scores,
    top_tags_scores,
)
from docent_jax.word_vectors import (
    WordVectors,
    read_word_vectors,
    train_word2vec,
    write_word2vec,
)
from retrieval_jax.errors import InputError

CORPUS = EntityCorpus(
    entities=("space", "crime", "romance"),
    sentences=(
        "A sci-fi film, sci fi at its best",
        "Set in space",
        "Organised crime in space",
        "They fall in love. Science",
    ),
    sentence_entities=np.array([0, 0, 1, 2], np.int32),
    queries={},
)
TAGS = ("sci-fi", "space", "crime in space", "love science", "best set", "!", "sci fi")


def test_top_tags_are_the_same_for_every_film():
    scores = top_tags_scores(np.array([[3, 0, 1], [9, 0, 0]]), 4)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, [[2, 0, 1]] * 4)


def test_tfidf_of_phrases():
    idf = {n: math.log((1 + 3) / (1 + n)) + 1 for n in (1, 2)}
    first = np.array([(1 + math.log(2)) * idf[1], idf[2]])
    second = np.array([idf[2], idf[1]])
    expected = np.zeros((3, 7))
    expected[0, :2] = first / np.linalg.norm(first)
    expected[0, 6] = expected[0, 0]  # "sci fi" is "sci-fi"
    expected[1, 1:3] = second / np.linalg.norm(second)
    expected[2, 3] = 1  # full stops end no phrase, ends of sentences do
    scores = tfidf_tag_scores(CORPUS, TAGS)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_array_equal(tfidf_tag_scores(CORPUS, ("!",)), np.zeros((3, 1)))


def test_bm25_of_a_tag_is_that_of_a_query():
    scores = bm25_tag_scores(CORPUS, TAGS)
    np.testing.assert_array_equal(scores.T, bm25_scores(CORPUS, TAGS))
    assert scores[0, 1] > 0 == scores[2, 1]


def test_bag_of_sentences_is_the_mean_of_cosines():
    sentences = np.array([[2.0, 0], [0, 1], [0, 3], [3, 4]])
    scores = bag_of_sentences_tag_scores(np.array([[5.0, 0], [0, 1]]), sentences, CORPUS)
    np.testing.assert_allclose(scores, [[0.5, 0.5], [0, 1], [0.6, 0.8]], atol=1e-6)


WORDS = WordVectors(("space", "crime", "set"), np.array([[1, 0], [0, 2], [3, 0]], np.float32))


def test_a_text_is_the_mean_of_its_known_words():
    vectors = WORDS.encode(["Space, space and CRIME!", "unknown", ""])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[2 / 3, 2 / 3], [0, 0], [0, 0]], rtol=1e-6)


def test_bag_of_words():
    scores = bag_of_words_tag_scores(CORPUS, ("space", "crime", "love"), WORDS)
    # The first film has a sentence of unknown words; the second one's vector is [1, 2] / 2.
    root = math.sqrt(5)
    expected = [[0.5, 0, 0], [1 / root, 2 / root, 0], [0, 0, 0]]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_word_vectors_survive_the_text_format(tmp_path):
    rng = np.random.default_rng(0)
    vectors = WordVectors(("été", "007", "x"), rng.normal(size=(3, 4)).astype(np.float32))
    write_word2vec(tmp_path / "vectors.txt", vectors.words, vectors.vectors)
    text = (tmp_path / "vectors.txt").read_text(encoding="utf-8")
    for first in (0, 1):  # word2vec's format and GloVe's, which has no first line of sizes
        (tmp_path / "read.txt").write_text("".join(text.splitlines(True)[first:]), encoding="utf-8")
        read = read_word_vectors(tmp_path / "read.txt")
        assert read.words == vectors.words
        np.testing.assert_array_equal(read.vectors, vectors.vectors)
    some = read_word_vectors(tmp_path / "read.txt", frozenset({"007"}))
    np.testing.assert_array_equal(some.vectors, vectors.vectors[1:2])


def test_glove_words_with_spaces_and_repeated_words(tmp_path):
    (tmp_path / "glove.txt").write_text("a 1 2\n. . . 3 4\na 5 6\n", encoding="utf-8")
    read = read_word_vectors(tmp_path / "glove.txt")
    assert read.words == ("a", ". . .")
    np.testing.assert_array_equal(read.vectors, [[1, 2], [3, 4]])
    (tmp_path / "glove.txt").write_text("\u00b2 1\nb 2\n", encoding="utf-8")  # no line of sizes
    assert read_word_vectors(tmp_path / "glove.txt").words == ("\u00b2", "b")


def test_the_largest_file_of_a_zip_is_read_and_other_bytes_do_no_harm(tmp_path):
    with zipfile.ZipFile(tmp_path / "glove.zip", "w") as archive:
        archive.writestr("glove.1d.txt", "a 1\n")
        archive.writestr("glove.2d.txt", b"caf\xff 1 2\na 3 4\n")
    read = read_word_vectors(tmp_path / "glove.zip")
    assert read.words == ("caf\ufffd", "a")
    np.testing.assert_array_equal(read.vectors, [[1, 2], [3, 4]])
    whole = (tmp_path / "glove.zip").read_bytes()
    (tmp_path / "glove.zip").write_bytes(whole.replace(b"a 3 4", b"a 3 5"))
    with pytest.raises(InputError, match=r"glove.zip cannot be read \(Bad CRC"):
        read_word_vectors(tmp_path / "glove.zip")
    with zipfile.ZipFile(tmp_path / "glove.zip", "w") as archive:
        archive.writestr("glove.2d.txt", "a 1 2\n")
        archive.infolist()[0].compress_type = 9
    with pytest.raises(InputError, match=r"glove.zip cannot be read \(That compression method"):
        read_word_vectors(tmp_path / "glove.zip")
    with zipfile.ZipFile(tmp_path / "glove.zip", "w"):
        pass
    with pytest.raises(InputError, match=r"glove.zip is empty"):
        read_word_vectors(tmp_path / "glove.zip")


@pytest.mark.parametrize("line", ["b 1", "b 1 x", "b 1 nan"])
def test_malformed_word_vectors_are_refused_with_their_line(tmp_path, line):
    (tmp_path / "glove.txt").write_text(f"a 1 2\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2"):
        read_word_vectors(tmp_path / "glove.txt")


def test_word_vectors_cut_at_the_end_of_a_line_are_refused(tmp_path):
    vectors = WordVectors(("a", "b"), np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    write_word2vec(tmp_path / "w.txt", vectors.words, vectors.vectors)
    lines = (tmp_path / "w.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "w.txt").write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(InputError, match="holds 1 vectors; its first line says 2"):
        read_word_vectors(tmp_path / "w.txt")


def test_word_vectors_that_cannot_be_had(tmp_path):
    with pytest.raises(InputError, match="GloVe"):
        read_word_vectors(tmp_path / "none.txt")
    (tmp_path / "glove.txt").write_text("a 1 2\n", encoding="utf-8")
    with pytest.raises(InputError, match="no vector"):
        read_word_vectors(tmp_path / "glove.txt", frozenset({"b"}))


def test_word2vec_brings_words_of_one_context_together():
    pytest.importorskip("gensim")
    rng = np.random.default_rng(0)
    worlds = [[f"{name}{i}" for i in range(8)] for name in ("space", "crime")]
    sentences = [" ".join(rng.permutation(w)[:6]) for w in worlds for _ in range(1500)]
    vectors = train_word2vec(sentences, dim=16, epochs=20)
    assert set(vectors.words) == {*worlds[0], *worlds[1]}
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    same = np.array(
        [[(a in worlds[0]) == (b in worlds[0]) for a in vectors.words] for b in vectors.words]
    )
    off_diagonal = ~np.eye(16, dtype=bool)
    assert cosines[same & off_diagonal].min() > cosines[~same].max()
    again = train_word2vec(sentences, dim=16, epochs=20)
    np.testing.assert_array_equal(vectors.vectors, again.vectors)
    with pytest.raises(InputError, match="no word occurs 5 times"):
        train_word2vec(["once only"])


def movielens_zip(path, scores):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml/genome-tags.csv", 'tagId,tag\n1,Space\n2,"love, lost"\n3,other\n')
        archive.writestr("ml/genome-scores.csv", f"movieId,tagId,relevance\n{scores}")
    return MovieLens(path)


def test_tag_genome_is_read_by_movielens_ids(tmp_path):
    rows = "7,1,0.25\n7,2,0.5\n7,3,0.75\n8,1,1\n9,1,0.125\n"
    genome = movielens_zip(tmp_path / "ml.zip", rows)
    scores = tag_genome_scores(genome, [9, None, 7, 5], ["love, lost", "space", "new"])
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, [[0, 0.125, 0], [0, 0, 0], [0.5, 0.25, 0], [0, 0, 0]])
    with pytest.raises(InputError, match="none of 1 films"):
        tag_genome_scores(genome, [1], ["space"])
