"""The claims of the papers, a sentence each, with our verdicts."""

import dataclasses
from collections.abc import Mapping

from experiments.report.blocks import Table
from experiments.report.pattern_verdicts import (
    best_augmentation,
    gain_grows,
    gain_is_smallest_for_japanese,
    gains_little_from_batches,
    is_stable,
)
from experiments.report.verdicts import (
    Judge,
    Records,
    beats,
    beats_genome,
    needs_few_tags,
    not_measured,
    similarity,
)


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of a paper.

    Attributes:
        paper: its id.
        sentence: the claim.
        place: where the paper makes it.
        judge: gives the verdict.
    """

    paper: str
    sentence: str
    place: str
    judge: Judge


RANKINGS = ("docent_python_api", "docent_imdb_movielens", "docent_imdb_movielens_all")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "docent",
        "Zero-shot, DocEnt ranks entities better than a lexical search engine (Lucene).",
        "section 5.4, Table 5",
        beats(RANKINGS, "DocEnt-", "BM25 (Lucene)"),
    ),
    Claim(
        "docent",
        "Hybrid, which also predicts words, ranks better than Dual.",
        "section 5.4, Table 5",
        beats(RANKINGS, "DocEnt-Hybrid", "DocEnt-Dual"),
    ),
    Claim(
        "docent",
        "Zero-shot, Full is the weakest of the three models.",
        "section 5.4, Table 5",
        beats(RANKINGS, ("DocEnt-Dual", "DocEnt-Hybrid"), "DocEnt-Full"),
    ),
    Claim(
        "docent",
        "Fine-tuned, Full and Hybrid predict tags better than the TagGenome.",
        "section 5.4.1, Table 4",
        beats_genome,
    ),
    Claim(
        "docent",
        "With a part of the tags in training, unseen tags are predicted nearly as well.",
        "section 5.4.2, Figure 2c",
        needs_few_tags,
    ),
    Claim(
        "gcl",
        "On layout trees Variable Substitution is the best augmentation for full relevance.",
        "Figure 2",
        best_augmentation("slt", "full", at_every_size=False),
    ),
    Claim(
        "gcl",
        "On layout trees Variable Substitution is the best augmentation for partial relevance.",
        "Figure 2",
        best_augmentation("slt", "partial", at_every_size=False),
    ),
    Claim(
        "gcl",
        "On operator trees Variable Substitution is best for full relevance at all batch sizes.",
        "Figure 3",
        best_augmentation("opt", "full", at_every_size=True),
    ),
    Claim("gcl", "Larger batches gain only little.", "Figures 2 and 3", gains_little_from_batches),
    Claim(
        "gcl",
        "Results are stable: standard deviations of five runs are typically .001 to .009.",
        "section 3",
        is_stable,
    ),
    Claim(
        "ltr",
        "Embedded categories improve ranking by text significantly, for all pairs of languages.",
        "section 3.1, Table 2",
        beats(("ltr_debian_clir",), "text+meta", "text"),
    ),
    Claim(
        "ltr",
        "The gain grows with the number of irrelevant documents.",
        "section 3.1, Table 2",
        gain_grows,
    ),
    Claim(
        "ltr",
        "The gain is smallest for Japanese, which has the fewest categories.",
        "section 3.1, Table 2",
        gain_is_smallest_for_japanese,
    ),
    Claim(
        "ltr",
        "Categories of patents improve prior-art search, also in an ensemble and by reranking.",
        "section 3.2, Tables 3 to 5",
        not_measured("needs BoostCLIR and MAREC, which are not here"),
    ),
    Claim(
        "mathsim",
        "Fine-tuning on pairs labelled by classes improves similarity.",
        "evaluation of the authors' notebooks",
        similarity("fine-tuned", "untouched"),
    ),
    Claim(
        "mathsim",
        "Adaptation by masked words before fine-tuning improves similarity further.",
        "evaluation of the authors' notebooks",
        similarity("adapted and fine-tuned", "fine-tuned"),
    ),
    Claim(
        "mathsim",
        "Adaptation by masked words improves similarity without fine-tuning.",
        "evaluation of the authors' notebooks",
        similarity("adapted", "untouched"),
    ),
)


def overview(papers: Mapping[str, str], records: Records) -> Table:
    """All claims with their verdicts.

    Args:
        papers: id -> how the paper is called.
        records: results files by name.
    """
    rows = []
    for claim in CLAIMS:
        verdict = claim.judge(records)
        numbers = "; ".join(verdict.numbers)
        cells = [claim.sentence, verdict.outcome, numbers, verdict.test]
        rows.append([papers[claim.paper], *cells])
    return Table(["paper", "claim", "here", "numbers", "significance"], rows, "All claims")


def verdict_table(paper: str, records: Records) -> Table:
    """The claims of a paper with our verdicts."""
    rows = []
    for claim in CLAIMS:
        if claim.paper == paper:
            verdict = claim.judge(records)
            data = "; ".join(verdict.data)
            numbers = "; ".join(verdict.numbers)
            rows.append([claim.sentence, claim.place, verdict.outcome, numbers, verdict.test, data])
    header = ["claim", "place", "our verdict", "numbers", "significance", "data"]
    return Table(header, rows, "The paper's claims, and what our results say to each")
