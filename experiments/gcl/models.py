"""Our encoders beside overlaps, Tangent-CFT and published runs on NTCIR-12's formula browsing task.

COMMAND   python -m experiments.gcl.models --tangent-cft runs/tangent_cft
          --results experiments/results/gcl_models.json
TIME      20 runs of a minute
HARDWARE  1 CPU core
SCORE     experiments/results/gcl_models.json

Encoders are trained on Wikipedia's formulas, each with several seeds, which also draw its hash.
What is chosen is chosen on the odd-numbered topics: the preset, the weights of layouts and of the
fusion with query-weighted overlap. `untrained` is the same encoder before its first step. Finished
runs in --output are not run again. The preset's encoder must be `paths`, as all of ours are.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

import gcl_jax
from experiments.fusion import best_weight
from experiments.gcl import baselines
from experiments.gcl.baselines import PATH_DICE_OPT, PATH_DICE_SLT, QUERY_WEIGHTED
from experiments.gcl.train import Sources, evaluate_run, on_odd, weighted_ranking
from experiments.records import make_record, write_record
from gcl_jax.config import PRESETS, Config
from gcl_jax.data import Formulas
from gcl_jax.datasets.ntcir12 import JudgedFormulas, data_folder
from gcl_jax.encoding import encode_tables, index_formulas, jit_encoder
from gcl_jax.model import init_params, make_encoder
from gcl_jax.pretraining import choose_formulas, model_vocabulary
from gcl_jax.tangent_cft import load_tangent_cft
from retrieval_jax.config import preset
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.rankings import Ranking, fuse

OURS, SLT, OPT, WIDE = "ours, SLT + OPT", "ours, SLT", "ours, OPT", "ours, SLT + OPT, 4 x as wide"
MODELS = (OURS, SLT, OPT, WIDE)


@dataclasses.dataclass(frozen=True)
class Command:
    """What to train and to compare.

    Attributes:
        output: folder of the runs, made here.
        preset: configuration that the models vary; its encoder must be paths.
        seeds: runs of each.
        tangent_cft: folder of our Tangent-CFT, which `experiments.gcl.baselines` trains.
        sources: what is read.
        results: JSON file to write.
    """

    output: Path = Path("runs/gcl_models")
    preset: str = "small"
    seeds: int = 5
    tangent_cft: Path | None = None
    sources: Annotated[Sources, tyro.conf.arg(name="")] = Sources()
    results: Path | None = None


@one_screen_errors
def main() -> None:
    """Trains what is missing, then compares."""
    command = tyro.cli(Command, prog="python -m experiments.gcl.models", description=__doc__)
    quiet_libraries()
    config = preset_of_paths(command.preset)
    judged = command.sources.judged()
    formulas = command.sources.training_formulas()
    folder = data_folder(command.sources.folder)
    rankings, left_out = baselines.system_rankings(judged, folder)
    systems = {name: [ranking] for name, ranking in rankings.items()}
    if command.tangent_cft is not None:
        model = load_tangent_cft(command.tangent_cft)
        systems[baselines.TANGENT_CFT] = [baselines.tangent_cft_ranking(model, judged)]
    ours, weights = our_rankings(command, config, formulas, judged, rankings[QUERY_WEIGHTED])
    runs = {
        name: [baselines.evaluate_all(judged, ranking) for ranking in of_seeds]
        for name, of_seeds in (systems | ours).items()
    }
    record = make_record(
        "gcl formula retrieval",
        f"{baselines.data_summary(judged)}; trained on a sample of Wikipedia's formulas",
        config,
        range(command.seeds),
        files_fingerprint([command.sources.formulas_file, *baselines.judged_files(folder)]),
        {
            "counts": {**judged.counts, **left_out},
            "models": model_changes(config),
            "weights": weights,
            "systems": {name: baselines.summary(of) for name, of in runs.items()},
            "significance": [
                row
                for topics in ("even", "all")
                for row in baselines.significance(runs, pairs(list(systems)), topics)
            ],
        },
    )
    baselines.print_tables(record)
    write_record(command.results, record)


def preset_of_paths(name: str) -> Config:
    """The preset of this name, whose encoder must be `paths`.

    `gin` has not the width that `WIDE` changes, and may read vectors of fastText, which the
    untrained encoders here lack.

    Raises:
        InputError: no such preset, or another encoder.
    """
    config = preset(PRESETS, name)
    if config.model.encoder != "paths":
        fitting = (of for of, other in PRESETS.items() if other.model.encoder == "paths")
        raise InputError(
            f"preset {name} has the encoder {config.model.encoder}; models of paths are compared",
            f"Give --preset {' or '.join(fitting)}.",
        )
    return config


def model_changes(config: Config) -> dict[str, dict[str, Any]]:
    """System -> what it changes in the model of the preset."""
    return {
        OURS: {"layout": "both"},
        SLT: {"layout": "slt"},
        OPT: {"layout": "opt"},
        WIDE: {"layout": "both", "dim": 4 * config.model.dim},
    }


def our_rankings(
    command: Command,
    config: Config,
    formulas: Formulas,
    judged: JudgedFormulas,
    lexical: Ranking,
) -> tuple[dict[str, list[Ranking]], dict[str, list[float]]]:
    """Rankings of every model, trained and not, and fused with a lexical one.

    Returns:
        System -> its ranking with each seed; and of systems that have one the weight chosen with
        each: the share of layout trees, or of the model in the fusion.
    """
    formulas = choose_formulas(formulas, config)  # once for all runs
    rankings: dict[str, list[Ranking]] = {}
    weights: dict[str, list[float]] = {}

    def add(name: str, ranking: Ranking, weight: float) -> None:
        rankings.setdefault(name, []).append(ranking)
        weights.setdefault(name, []).append(weight)

    for name, changes in model_changes(config).items():
        for seed in range(command.seeds):
            of_run = dataclasses.replace(
                config,
                model=dataclasses.replace(config.model, salt=seed, **changes),
                training=dataclasses.replace(config.training, seed=seed),
            )
            add(f"{name}, untrained", *untrained_ranking(of_run, formulas, judged))
            path = command.output / f"{'-'.join(map(str, changes.values()))}-{seed}"
            print(path, flush=True)
            gcl_jax.pretrain(of_run, formulas, path, judged, show_progress=False)
            results, ranking = evaluate_run(path, judged)
            add(name, ranking, results["slt_weight"])
            add(fused_name(name), *fuse_on_odd(judged, ranking, lexical))
    return rankings, weights


def untrained_ranking(
    config: Config, formulas: Formulas, judged: JudgedFormulas
) -> tuple[Ranking, float]:
    """As `weighted_ranking`, by the encoder that training starts from."""
    vocabulary = model_vocabulary(formulas, config)
    encoder = make_encoder(config.model, vocabulary, config.model.hidden)
    params = init_params(encoder, jax.random.key(config.training.seed))
    queries, documents = (
        encode_tables(
            jit_encoder(encoder),
            params,
            index_formulas(of, vocabulary, config.model.layout, config.data),
        )
        for of in (judged.queries, judged.formulas)
    )
    return weighted_ranking(judged, queries, documents, config.model.document_exponent)


def fuse_on_odd(judged: JudgedFormulas, ours: Ranking, lexical: Ranking) -> tuple[Ranking, float]:
    """Two rankings as one, and the weight of the first, the best on odd topics."""

    def at(weight: float) -> Ranking:
        return fuse([ours, lexical], [weight, 1 - weight])

    weight = best_weight(lambda weight: on_odd(judged, at(weight)))
    return at(weight), weight


def fused_name(name: str) -> str:
    """Name of a model's fusion with query-weighted overlap."""
    return f"{name} + query-weighted paths"


def pairs(others: Sequence[str]) -> list[tuple[str, str]]:
    """Which systems are tested against each other."""
    of_layouts = [(SLT, PATH_DICE_SLT), (OPT, PATH_DICE_OPT)]
    of_training = [(name, f"{name}, untrained") for name in MODELS]
    whole = [name for name in others if name not in (PATH_DICE_SLT, PATH_DICE_OPT)]
    against = [(name, other) for name in (OURS, fused_name(OURS)) for other in whole]
    return of_layouts + of_training + against


if __name__ == "__main__":
    main()
