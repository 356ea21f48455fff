"""Zero-shot comparisons: rankings of entities whose names have spaces."""

from experiments.docent.comparison import without_spaces
from retrieval_jax.rankings import read_ranking, write_ranking


def test_titles_become_ids_of_a_trec_file(tmp_path):
    ranking = {"q1": {"Mom (1991) [tt0100172]": 2.0, "lib.fft": 1.0}}
    write_ranking(tmp_path / "r.trec", without_spaces(ranking), "x")
    read = read_ranking(tmp_path / "r.trec")
    assert read == {"q1": {"Mom_(1991)_[tt0100172]": 2.0, "lib.fft": 1.0}}
