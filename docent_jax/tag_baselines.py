"""Baselines of tag prediction (section 5.3 of the paper).

Each returns scores, float32 [entities, tags], higher for better.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from docent_jax.baselines import bag_of_sentences_scores, bm25_scores
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.movielens import MovieLens
from docent_jax.word_vectors import WordVectors, split_words
from retrieval_jax.errors import InputError


def top_tags_scores(train_votes: np.ndarray, num_entities: int) -> np.ndarray:
    """MovieLens top tags: one order of the tags, by the films that have them, for every entity.

    Args:
        train_votes: int [training films, tags]; a film counts once, however many votes it has.
        num_entities: rows of the result.

    Returns:
        float32 [num_entities, tags].
    """
    films = np.count_nonzero(train_votes, axis=0).astype(np.float32)
    return np.tile(films, (num_entities, 1))


def tfidf_tag_scores(corpus: EntityCorpus, tags: Sequence[str]) -> np.ndarray:
    """TF-IDF of each tag, as a phrase, in the sentences of each entity.

    (1 + log tf) times smoothed idf; the tags' values of an entity have length 1 together. Words are
    runs of letters and digits in lower case, so "sci-fi" and "sci fi" are one phrase; phrases do
    not go across sentences.

    Args:
        corpus: entities and their sentences.
        tags: the vocabulary.

    Returns:
        float32 [entities, tags]; 0 where the entity's sentences do not hold the tag.
    """
    phrases = [tuple(split_words(tag)) for tag in tags]
    vocabulary = {phrase: i for i, phrase in enumerate(dict.fromkeys(filter(None, phrases)))}
    scores = np.zeros((len(corpus.entities), len(tags)), np.float32)
    if not vocabulary:
        return scores
    by_first_word: dict[str, list[tuple[str, ...]]] = {}
    for phrase in vocabulary:
        by_first_word.setdefault(phrase[0], []).append(phrase)

    def phrases_of(sentences: Sequence[str]) -> list[tuple[str, ...]]:
        return [
            phrase
            for words in map(split_words, sentences)
            for i, word in enumerate(words)
            for phrase in by_first_word.get(word, ())
            if tuple(words[i : i + len(phrase)]) == phrase
        ]

    # The stubs know names of analyzers only.
    analyzer: Any = phrases_of
    vectorizer = TfidfVectorizer(analyzer=analyzer, vocabulary=vocabulary, sublinear_tf=True)
    documents = [corpus.sentences[start:end] for start, end in itertools.pairwise(corpus.bounds)]
    values = vectorizer.fit_transform(documents).toarray()
    for column, phrase in enumerate(phrases):
        if phrase:
            scores[:, column] = values[:, vocabulary[phrase]]
    return scores


def bm25_tag_scores(corpus: EntityCorpus, tags: Sequence[str]) -> np.ndarray:
    """BM25 of each tag as a query (`baselines.bm25_scores`), float32 [entities, tags]."""
    return bm25_scores(corpus, tags).T


def bag_of_sentences_tag_scores(
    tag_vectors: np.ndarray, sentence_vectors: np.ndarray, corpus: EntityCorpus
) -> np.ndarray:
    """Mean, over the sentences of an entity, of their cosine with the tag.

    Args:
        tag_vectors: [tags, dim].
        sentence_vectors: [sentences, dim] of the same encoder.
        corpus: whose sentences they are.

    Returns:
        float32 [entities, tags].
    """
    owners, n = corpus.sentence_entities, len(corpus.entities)
    return bag_of_sentences_scores(tag_vectors, sentence_vectors, owners, n, "mean").T


def bag_of_words_tag_scores(
    corpus: EntityCorpus, tags: Sequence[str], vectors: WordVectors
) -> np.ndarray:
    """The bag of sentences (BoS-GloVe), a text's vector being the mean of its words' vectors.

    Args:
        corpus: entities and their sentences.
        tags: the vocabulary.
        vectors: word2vec or GloVe.

    Returns:
        float32 [entities, tags]; 0 for a tag of unknown words. Sentences of unknown words count
        as 0 in an entity's mean.
    """
    return bag_of_sentences_tag_scores(
        vectors.encode(tags), vectors.encode(corpus.sentences), corpus
    )


def tag_genome_scores(
    movielens: MovieLens, movielens_ids: Sequence[int | None], tags: Sequence[str]
) -> np.ndarray:
    """TagGenome: MovieLens' own relevances (Vig et al. 2012), between 0 and 1.

    Args:
        movielens: holds the genome's scores.
        movielens_ids: of each entity.
        tags: the vocabulary.

    Returns:
        float32 [entities, tags]; 0 for pairs that the genome lacks.

    Raises:
        InputError: no genome in the zip, or none of these films and tags in the genome.
    """
    scores = movielens.genome_scores(movielens_ids, tags)
    if np.isnan(scores).all():
        raise InputError(
            f"the tag genome of {movielens.path} has none of {len(movielens_ids)} films with"
            f" {len(tags)} tags",
            "Give the zip that the films' MovieLens ids are of.",
        )
    return np.nan_to_num(scores)
