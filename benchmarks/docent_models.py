"""Training steps of the DocEnt models on tokenised sentences of documents.

COMMAND   python -m benchmarks.docent_models --output benchmarks/results/docent_models.json
          and, of Hybrid alone, --compare places --output benchmarks/results/docent_places.json
TIME      about 2 minutes each
HARDWARE  2 CPU cores
RESULT    the files above

Sentences a second of the training loop's step, packing included, with the encoder, the documents,
the batch and the masking of a preset. Of `models` the sides are the models, the first of them
Dual, which predicts no words: a ratio says how much longer a step of another takes. Hybrid is there
with two passes over the encoder and with one. Of `places` both are Hybrid in one pass: `ours`
predicts words at masked places, `all_places` has logits at every place of the rows and the same
loss.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import docent_jax
from benchmarks import measure, ours
from docent_jax.data import tokenize_corpus
from docent_jax.datasets.corpus import EntityCorpus
from docent_jax.datasets.load import load_documents
from docent_jax.model import Hybrid
from docent_jax.pretraining import load_encoder, make_task, start_params
from docent_jax.task import HybridTask
from retrieval_jax.logs import quiet_libraries
from retrieval_jax.masking import MaskedPieces
from retrieval_jax.pretrained import DEFAULT_ENCODER

# Side -> fields of the model.
ONE_PASS = {"kind": "hybrid", "one_pass": True}
MODELS: dict[str, dict[str, Any]] = {
    "dual": {"kind": "dual"},
    "hybrid": {"kind": "hybrid"},
    "hybrid_one_pass": ONE_PASS,
    "full": {"kind": "full"},
}


@dataclasses.dataclass(frozen=True)
class Command:
    """What to measure.

    Attributes:
        options: how to measure.
        compare: the models, or the places at which Hybrid predicts words.
        preset: of `docent_jax`.
        encoder: BERT folder, package or hub name.
        batches: distinct ones in a run.
        data_dir: where prepared documents are kept.
    """

    options: Annotated[measure.Options, tyro.conf.arg(name="")] = measure.Options()
    compare: Literal["models", "places"] = "models"
    preset: str = "small"
    encoder: str = DEFAULT_ENCODER
    batches: int = 3
    data_dir: Path = Path("data")


class AllPlacesTask(HybridTask):
    """`HybridTask` with word logits at all places of the rows."""

    def mask(self, rng: jax.Array, input_ids: jax.Array, mask: jax.Array) -> MaskedPieces:
        """That of `HybridTask`, with a place for every column."""
        return all_places(input_ids, super().mask(rng, input_ids, mask))


def all_places(input_ids: jax.Array, masked: MaskedPieces) -> MaskedPieces:
    """The same masked pieces of rows `[rows, width]`, with a place for every column."""
    rows, width = input_ids.shape
    columns = jnp.broadcast_to(jnp.arange(width), (rows, width))
    zeros = jnp.zeros((rows, width), masked.weights.dtype)
    weights = zeros.at[jnp.arange(rows)[:, None], masked.positions].set(masked.weights)
    return MaskedPieces(masked.input_ids, columns, input_ids, weights)


def config_of(command: Command, fields: Mapping[str, Any]) -> docent_jax.Config:
    """The preset's configuration of a model; its table starts at random, for the same steps."""
    config = docent_jax.PRESETS[command.preset]
    model = dataclasses.replace(
        config.model, **fields, encoder=command.encoder, entity_init="random"
    )
    return dataclasses.replace(config, model=model)


def prepare(command: Command) -> measure.Comparison:
    """Loads the documents and names the sides."""
    quiet_libraries()
    documents = docent_jax.PRESETS[command.preset].data
    return compare_on(load_documents(documents, command.data_dir), command)


def compare_on(corpus: EntityCorpus, command: Command) -> measure.Comparison:
    """Names the sides on a corpus."""
    batch_size = docent_jax.PRESETS[command.preset].training.batch_size
    sides: dict[str, Callable[[], measure.Side]]
    if command.compare == "models":
        sides = {
            name: functools.partial(model_side, corpus, command, fields)
            for name, fields in MODELS.items()
        }
        check = finite_losses
    else:
        sides = {
            "ours": functools.partial(model_side, corpus, command, ONE_PASS),
            "all_places": functools.partial(model_side, corpus, command, ONE_PASS, everywhere=True),
        }
        check = measure.check_losses
    return measure.Comparison(
        settings={
            "compare": command.compare,
            "preset": command.preset,
            "encoder": Path(command.encoder).name,
            "batch": batch_size,
            "batches": command.batches,
        },
        data={"name": corpus.summary, "fingerprint": corpus.fingerprint},
        packages=(),
        sides=sides,
        check=check,
    )


def model_side(
    corpus: EntityCorpus, command: Command, fields: Mapping[str, Any], everywhere: bool = False
) -> measure.Side:
    """A run trains on the same batches once more, packing included; gives the losses.

    Args:
        corpus: documents.
        command: preset, encoder and number of batches.
        fields: of the model's configuration.
        everywhere: as `AllPlacesTask`.
    """
    config = config_of(command, fields)
    encoder = load_encoder(config.model)
    data = tokenize_corpus(corpus, encoder.tokenizer, config.data, config.model.kind == "full")
    no_vectors = functools.partial(np.zeros, 0)  # a random table needs none
    start = functools.partial(start_params, encoder, data, config, no_vectors)
    task = make_task(config.model, encoder, data, start)
    if everywhere:
        assert isinstance(task, HybridTask)
        assert isinstance(task.model, Hybrid)
        task = AllPlacesTask(
            task.model, data, task.negatives, task.masking, task.mlm_weight, task.warm_start
        )
    step = ours.make_stepper(task)
    source = task.batches(config.training.batch_size, seed=0)
    first = source.get_state()

    def run() -> np.ndarray:
        source.set_state(first)
        return step(itertools.islice(source, command.batches))

    return measure.Side(run, command.batches * config.training.batch_size)


def finite_losses(losses: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Gives the loss of the first step of each model, which differ.

    Raises:
        DisagreementError: one is not finite.
    """
    for side, values in losses.items():
        if not np.isfinite(values).all():
            raise measure.DisagreementError(f"the losses of {side} are {values}")
    return {"first_loss": {side: round(float(values[0]), 5) for side, values in losses.items()}}


if __name__ == "__main__":
    measure.command_line("docent_models", prepare, Command, __doc__)
