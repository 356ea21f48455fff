"""Verdicts: what results say to claims, and whether it was tested."""

import json

import pytest

from experiments.report.claims import CLAIMS, verdict_table
from experiments.report.markdown import fill
from experiments.report.pattern_verdicts import Gain, difference_of_gains, mean_gain
from experiments.report.verdicts import outcome_of, significance_of
from tests.experiments.report.toy_records import (
    LTR,
    RANKING,
    difference_row,
    heat_map_record,
)
from tests.experiments.test_figures import TAGS


def verdicts(paper, records):
    return {row[0]: row for row in verdict_table(paper, records).rows}


def test_cells_are_summed_up():
    assert outcome_of([]) == "not measured"
    assert outcome_of([True, True]) == "holds"
    assert outcome_of([True, False]) == "holds partly"
    assert outcome_of([False]) == "does not hold here"


@pytest.mark.parametrize(
    ("gains", "significant", "said"),
    [
        ((1.0, 2.0), (True, True), "significant: t"),
        ((1.0, -2.0), (False, False), "not significant: t"),
        ((1.0, -2.0), (True, False), "1 of 2 significant: t"),
        (
            (1.0, -2.0, -3.0),
            (True, True, True),
            "1 of 3 significantly better, 2 significantly worse: t",
        ),
        ((-1.0, 2.0), (True, False), "0 of 2 significantly better, 1 significantly worse: t"),
    ],
)
def test_significant_losses_are_told_from_gains(gains, significant, said):
    assert significance_of(gains, significant, "t") == said


def test_verdicts_of_rankings_follow_their_tests():
    rows = verdicts("docent", {"docent_imdb_movielens": RANKING})
    lucene = next(row for claim, row in rows.items() if "Lucene" in claim)
    assert lucene[2:] == [
        "holds",
        "imdb_movielens, DocEnt-Dual: RR +0.250 (p = 0.0100)",
        "significant: paired randomisation, Holm",
        "films <i>, 3 queries",
    ]
    hybrid = next(row for claim, row in rows.items() if claim.startswith("Hybrid"))
    assert hybrid[2:4] == ["holds", "imdb_movielens, DocEnt-Hybrid: RR +0.125 (p = 0.0010)"]
    full = next(row for claim, row in rows.items() if "Full is the weakest" in claim)
    assert full[2:4] == [
        "holds partly",
        "imdb_movielens, DocEnt-Dual: RR +0.250 (p = 0.0100);"
        " imdb_movielens, DocEnt-Hybrid: RR -0.125 (p = 0.0100)",
    ]
    gains = [row[2] for row in verdicts("ltr", {"ltr_debian_clir": LTR}).values()]
    assert gains == ["holds partly", "does not hold here", "not measured", "not measured"]


@pytest.mark.parametrize(
    ("best", "outcome"), [("substitute_variables", "holds"), ("node_drop", "does not hold here")]
)
def test_verdicts_of_heat_maps(best, outcome):
    slt, partial, opt, batches, stable = (
        row[2] for row in verdicts("gcl", {"gcl_heatmap": heat_map_record(best)}).values()
    )
    assert (slt, partial, opt, batches) == (outcome, outcome, "not measured", "holds")
    assert stable == "holds partly"


def test_what_heat_maps_were_tested_for_is_said():
    slt, _, _, batches, stable = verdicts("gcl", {"gcl_heatmap": heat_map_record()}).values()
    assert slt[3] == (
        "Variable Substitution, batch 256: significantly better than 1 of 1 others; against"
        " Node Drop, batch 256 +0.125 (p = 0.0100); 3 seeds"
    )
    assert slt[4].startswith("significant: paired randomisation, Holm, over 10 even topics")
    assert batches[4] == "4 of 4 bootstrap intervals over topics end below 0.02"
    assert stable[4] == "not tested: deviations are described, not compared; 3 seeds"


def test_a_best_augmentation_that_is_not_significant_does_not_show_the_claim():
    record = heat_map_record()
    for row in record["significance"]:
        row["p_holm"] = 0.2
        row["interval_95"] = [-0.5, 0.5]
    slt, _, _, batches, _ = verdicts("gcl", {"gcl_heatmap": record}).values()
    assert slt[2] == batches[2] == "does not hold here"
    assert slt[4].startswith("not significant: ")


def test_maps_of_one_seed_or_size_and_without_tests_are_not_overrated():
    record = heat_map_record() | {"seeds": [0]}
    assert verdict_outcomes(record)[-1] == "not measured"
    for of in record["means"]["slt"].values():
        del of["256"]
    record["means"]["opt"] = record["means"]["slt"]
    record["significance"] = [
        row | {"layout": layout}
        for row in record["significance"]
        for layout in ("slt", "opt")
        if row["at"] in ("1024", "best")
    ]
    assert verdict_outcomes(record) == ["holds", "holds", *["not measured"] * 3]
    del record["significance"]
    assert verdict_outcomes(record) == ["not measured"] * 5


def verdict_outcomes(record):
    return [row[2] for row in verdicts("gcl", {"gcl_heatmap": record}).values()]


def ltr_record(gains):
    """Pair -> gains of 40 and of 1000 irrelevant documents, whose standard errors are .01."""
    half = 0.01 * 1.959964
    systems = ("text+meta", "text")
    rows = [
        difference_row(*systems, f"{pair} {level}", gain, 1.0, (gain - half, gain + half))
        for pair, of in gains.items()
        for level, gain in zip((40, 1000), of, strict=True)
    ]
    return {"data": "debian", "seeds": [0, 1], "significance": rows}


def test_gains_are_compared_by_their_intervals():
    record = ltr_record({"en-ja": (0.0, 0.1), "en-de": (0.05, 0.06), "en-fr": (0.1, 0.0)})
    rows = list(verdicts("ltr", {"ltr_debian_clir": record}).values())
    grows, smallest = rows[1], rows[2]
    # z of +.1 is .1 / (.01 sqrt 2), of +.01 a tenth of that.
    assert grows[2] == "holds partly"
    assert "en-de, 1000 - 40: +0.010 (p = 0.4795)" in grows[3]
    assert "en-ja, 1000 - 40: +0.100 (p = 0.0000)" in grows[3]
    assert grows[4].startswith("1 of 3 significantly better, 1 significantly worse: normal test of")
    assert smallest[2] == "does not hold here"
    assert "mean of en-fr - mean of en-ja +0.000 (p = 1.0000)" in smallest[3]
    assert smallest[4].startswith("not significant")
    without = ltr_record({"en-de": (0.05, 0.06)})
    _, grows, smallest, _ = verdicts("ltr", {"ltr_debian_clir": without}).values()
    assert (grows[2], smallest[2]) == ("does not hold here", "not measured")


def test_equal_gains_without_error_do_not_differ():
    assert difference_of_gains(Gain(0.5, 0.0), Gain(0.5, 0.0)) == (0.0, 1.0)
    assert difference_of_gains(Gain(0.5, 0.0), Gain(0.25, 0.0)) == (0.25, 0.0)
    difference, p = difference_of_gains(Gain(1.96, 1.0), Gain(0.0, 0.0))
    assert (difference, p) == (1.96, pytest.approx(0.05, abs=1e-4))
    assert mean_gain([Gain(1.0, 0.5), Gain(2.0, 1.5)]) == (1.5, 1.0)


def tag_record():
    kinds = {"a|b": {"model": {"kind": "hybrid"}}, "dual": {"model": {"kind": "dual"}}}
    record = json.loads(json.dumps(TAGS)) | {"configs": kinds, "seeds": [0]}
    record["closed"]["TagGenome"] = record["closed"]["dual"] = record["closed"]["TF-IDF"]
    return record


def test_verdicts_of_tags():
    rows = list(verdicts("docent", {"docent_tags": tag_record()}).values())
    genome, few = rows[-2:]
    assert genome[2:5] == [
        "holds",
        "a|b: MAP 0.500 ± 0.125; TagGenome: MAP 0.250",
        "not tested: the results hold no test against the TagGenome; 1 seed",
    ]
    assert few[2:5] == [
        "does not hold here",
        "a|b: AUC 0.375 of 100 tags, 0.750 of all",
        "not tested: the results are of one split of the tags; 1 seed",
    ]


def test_tags_are_tested_where_the_results_hold_tests_and_at_each_number_of_them():
    record = tag_record()
    record["significance"] = [
        difference_row("a|b", "TagGenome", "MAP, closed, T = 0", 0.25, 0.2),
        difference_row("a|b", "TagGenome", "MAP, closed, T = 2", 0.25, 0.001),
        difference_row("a|b", "TF-IDF", "MAP, closed, T = 0", 0.25, 0.001),
    ]
    record["open"]["200"] = {"a|b": record["open"]["all"]["a|b"]}
    genome, few = list(verdicts("docent", {"docent_tags": record}).values())[-2:]
    assert genome[2] == "does not hold here"
    assert genome[3].endswith("a|b: +0.250 (p = 0.2000)")
    assert genome[4] == "not significant: paired randomisation, Holm, over films"
    assert few[2:4] == ["holds partly", "a|b: AUC 0.375 of 100, 0.750 of 200 tags, 0.750 of all"]
    record["significance"][0]["p_holm"] = 0.01
    assert list(verdicts("docent", {"docent_tags": record}).values())[-2][2] == "holds"


def test_the_readme_may_hold_the_verdicts(tmp_path):
    (tmp_path / "docent_imdb_movielens.json").write_text(json.dumps(RANKING))
    lines = fill("<!-- verdicts -->\nold\n<!-- end -->\n", tmp_path).splitlines()
    assert len(lines) == len(CLAIMS) + 4 and lines[-1] == "<!-- end -->"
    assert lines[3].startswith("| DocEnt | Zero-shot, DocEnt ranks entities better")
    verdict = "holds | imdb_movielens, DocEnt-Dual: RR +0.250 (p = 0.0100) | significant: paired"
    assert f"| {verdict} randomisation, Holm |" in lines[3]


def test_without_results_nothing_is_measured():
    for claim in CLAIMS:
        assert claim.judge({}).outcome == "not measured"
        assert claim.sentence.endswith(".") and claim.place
