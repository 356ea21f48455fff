"""The paper's tables and figures, drawn from small results."""

import json
import sys

from experiments.docent import figures
from experiments.report.figures import auc_by_tags


def summary(value, sd=0.0):
    measures = {name: {"mean": value, "sd": sd} for name in ("MAP", "AUC", "P@10", "NDCG@10")}
    part = {**measures, "precision_at_k": [value, value / 2], "ndcg_at_k": [value, value]}
    return {"T = 0": {"dev": part, "test": part}}


TAGS = {
    "experiment": "docent tag prediction",
    "data": "3 entities",
    "protocol": "small",
    "closed": {"TF-IDF": summary(0.25), "a|b": summary(0.5, 0.125)},
    "open": {
        "100": {"a|b": summary(0.375)},
        "all": {"TF-IDF": summary(0.25), "a|b": summary(0.75)},
    },
    "open_training_tags": 300,
}
RANKING = {
    "experiment": "docent zero-shot ranking",
    "data": "films",
    "seeds": [0],
    "systems": {
        "BM25": {"test": {"RR": {"mean": 0.5, "sd": 0.0}, "R@50": {"mean": 0.75, "sd": 0.0}}}
    },
    "significance": [],
}


def test_a_system_without_training_is_level_in_figure_2c():
    lines = auc_by_tags(TAGS, "T = 0")
    assert lines == {"TF-IDF": ([100, 300], [0.25, 0.25]), "a|b": ([100, 300], [0.375, 0.75])}


def test_table_4_has_a_row_a_system_and_task():
    lines = figures.table_4(TAGS).splitlines()
    assert [line for line in lines if line.startswith("## ")] == [
        "## Table 4: tag prediction, closed vocabulary, T = 0",
        "## Table 4: tag prediction, open vocabulary, T = 0",
    ]
    assert lines[6] == "| TF-IDF | 0.250 | 0.250 | 0.250 | 0.250 |"
    assert lines[7].startswith("| a\\|b | 0.500 ± 0.125 |")


def test_cells_keep_their_place_in_a_table():
    assert figures.cell("a | b\n`c` <d>") == "a \\| b \\`c\\` \\<d>"
    assert figures.cell("w " * 61) == "w " * 60 + "..."


def test_the_command_writes_markdown_and_pictures(tmp_path, monkeypatch):
    for name, results in (("tags", TAGS), ("ranking", RANKING)):
        (tmp_path / f"{name}.json").write_text(json.dumps(results))
    out = tmp_path / "out"
    inputs = ["--tags", f"{tmp_path}/tags.json", "--ranking", f"{tmp_path}/ranking.json"]
    monkeypatch.setattr(sys, "argv", ["figures", *inputs, "--output", str(out)])
    figures.main()
    written = (out / "figures.md").read_text()
    assert "| BM25 | 0.500 | 0.750 |" in written
    pictures = sorted(path.name for path in out.glob("*.png"))
    assert pictures == ["figure2a.png", "figure2b.png", "figure2c.png", "table5.png"]
    assert all(f"({name})" in written for name in pictures)
