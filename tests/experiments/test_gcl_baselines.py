"""The baselines' command on a small folder: results, a kept Tangent-CFT, what is refused."""

import json
import sys
from pathlib import Path

import pytest

from experiments.gcl import baselines
from gcl_jax.datasets.ntcir12 import RUNS, read_judged
from retrieval_jax.errors import InputError
from tests.gcl_jax.datasets.ntcir12_files import EQUATION, SINGLE, write_judged


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four topics, so that odd and even ones have two each."""
    graphs = [
        {"id": name, "in_1140": name != "B:2", **trees}
        for name, trees in (("A:1", EQUATION), ("B:2", SINGLE), ("C:3", SINGLE))
    ]
    topics = [f"T-{i}" for i in range(1, 5)]
    queries = [{"id": name, **(EQUATION if name < "T-3" else SINGLE)} for name in topics]
    judgements = "".join(f"{t}\tA:1\t4\n{t}\tB:2\t0\n{t}\tC:3\t0\n" for t in topics)
    runs = "".join(f"bgrl_slt_bs256\t{t}\tB:2\t1\t.5\n" for t in topics)
    return write_judged(
        tmp_path / "files",
        judged="\n".join(map(json.dumps, graphs)),
        query="\n".join(map(json.dumps, queries)),
        qrels="topic\tformula_id\trel\n" + judgements,
        peer="run\ttopic\tformula_id\trank\tscore\n" + runs,
    )


def run(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["baselines", *map(str, words)])
    # Without the guard that turns errors into exit codes.
    baselines.main.__wrapped__()


def test_overlaps_and_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    results = tmp_path / "new" / "results.json"
    run(monkeypatch, "--folder", folder, "--results", results)
    record = json.loads(results.read_text())
    assert record["data"].startswith("NTCIR-12 formula browsing, 4 topics, 3 formulas (2 in")
    assert record["tangent_cft"] is None and record["seeds"] == []
    assert {"hardware", "wall_s", "peak_mib"} <= set(record["provenance"])
    dice = record["systems"][baselines.EDGE_DICE]
    # A query equal to A:1 ranks it first, one equal to the others last.
    for topics, wanted in (("all", 0.5), ("odd", 0.5), ("even", 0.5)):
        assert dice["all"][topics]["full"]["mean"] == wanted
    low, high = dice["all"]["all"]["full"]["interval_95"]
    assert 0 <= low < 0.5 < high <= 1
    assert record["systems"]["BGRL, SLT (published run)"]["all"]["all"]["full"]["mean"] == 0
    assert {row["topics"] for row in record["significance"]} == {"even"}
    output = capsys.readouterr().out
    assert "over all judged formulas" in output
    assert "0.500/0.500" in output
    assert set(baselines.system_rankings(read_judged(folder), folder)[0]) == set(record["systems"])
    (folder / RUNS).unlink()
    with pytest.raises(InputError, match="peer_runs"):
        run(monkeypatch, "--folder", folder)


def test_tangent_cft_is_trained_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    pytest.importorskip("gensim", reason="needs gensim")
    pytest.importorskip("math_core", reason="needs math-core")
    formulas = tmp_path / "w.tsv"
    formulas.write_text("src_mask\tlatex\n" + "".join(f"1\tx^{i}=y+{i}\n" for i in range(20)))
    words = ["--folder", folder, "--data-dir", tmp_path / "data", "--model", tmp_path / "model"]
    small = ["--tangent-cft.dim", 8, "--tangent-cft.epochs", 1, "--tangent-cft.buckets", 100]
    with pytest.raises(InputError, match="holds no model"):
        run(monkeypatch, *words, *small)
    results = [tmp_path / "1.json", tmp_path / "2.json"]
    train = [*words, *small, "--sample", 15]
    run(monkeypatch, *train, "--formulas", formulas, "--results", results[0])
    assert "training Tangent-CFT on 15 formulas" in capsys.readouterr().out
    run(monkeypatch, *train, "--results", results[1])
    assert "training" not in capsys.readouterr().out
    first, second = (json.loads(path.read_text()) for path in results)
    assert first["systems"] == second["systems"]
    assert baselines.TANGENT_CFT in first["systems"]
    assert first["tangent_cft"] == second["tangent_cft"]
    assert first["tangent_cft"]["formulas"] == 15
    with pytest.raises(InputError, match="was trained with"):
        run(monkeypatch, *words, *small, "--sample", 14)
    formulas.write_text(formulas.read_text() + "1\tz\n")
    with pytest.raises(InputError, match="was trained with"):
        run(monkeypatch, *train, "--formulas", formulas)
