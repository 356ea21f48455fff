"""The benchmark of preparing films: what it generates is prepared whole."""

from benchmarks.film_preparation import prepare, write_reviews


def test_generated_reviews_become_films(tmp_path):
    write_reviews(tmp_path, 400, seed=0)
    row = prepare(tmp_path, processes=1)
    assert (row["reviews"], row["films"]) == (400, 8)
    assert row["sentences"] > 400 and row["peak_mib"] > 0
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
