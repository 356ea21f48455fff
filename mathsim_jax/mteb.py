"""A `SentenceEncoder` behind the encoder protocol of MTEB 2, which need not be installed.

`mteb.evaluate(MtebEncoder(encoder), tasks)` evaluates it like any other model.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mathsim_jax.inference import SentenceEncoder
from retrieval_jax.encoding import unit_length
from retrieval_jax.errors import InputError


class MtebEncoder:
    """Encodes the batches of MTEB's tasks (`mteb.models.EncoderProtocol`).

    Args:
        model: encoder, or what `SentenceEncoder.from_pretrained` takes.
        revision: part of the protocol; not used, a folder has one.
        device: part of the protocol; not used, JAX has one.
        model_meta: an `mteb.ModelMeta`, under whose name results are filed.

    Attributes:
        mteb_model_meta: what was given; None makes MTEB take an empty one.
    """

    def __init__(
        self,
        model: SentenceEncoder | str | Path,
        revision: str | None = None,  # noqa: ARG002
        *,
        device: str | None = None,  # noqa: ARG002
        model_meta: Any = None,
    ) -> None:
        self._encoder = (
            model if isinstance(model, SentenceEncoder) else SentenceEncoder.from_pretrained(model)
        )
        self.mteb_model_meta = model_meta

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        hf_split: str | None = None,  # noqa: ARG002
        hf_subset: str | None = None,  # noqa: ARG002
        prompt_type: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        precision: str = "float32",
        **_: Any,
    ) -> np.ndarray:
        """Encodes what a data loader gives.

        Args:
            inputs: batches with a list of texts under `text`.
            task_metadata: `name` and `type` of the task; they choose among the model's prompts.
            hf_split: not used.
            hf_subset: not used.
            prompt_type: "query" or "document"; chooses among the model's prompts too.
            batch_size: as `SentenceEncoder.encode`.
            show_progress_bar: draw a bar.
            precision: only float32.

        Returns:
            float32 `[texts, dim]`.

        Raises:
            InputError: another precision, a batch without texts, or what `SentenceEncoder.encode`
                refuses.
        """
        if precision != "float32":
            raise InputError(
                f"precision {precision!r}", "Vectors are float32; quantise them after."
            )
        return self._encoder.encode(
            _texts(inputs),
            batch_size,
            show_progress=show_progress_bar,
            prompt=self._prompt(task_metadata, prompt_type),
        )

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> np.ndarray:
        """Cosine of each vector of `[n, dim]` with each of `[m, dim]`, `[n, m]`."""
        return self._encoder.similarity(np.asarray(embeddings1), np.asarray(embeddings2))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> np.ndarray:
        """Cosine of each vector of `[n, dim]` with the same of the other, `[n]`."""
        first, second = (
            unit_length(np.atleast_2d(np.asarray(vectors, np.float32)))
            for vectors in (embeddings1, embeddings2)
        )
        return np.einsum("nd,nd->n", first, second)

    def _prompt(self, task: Any, prompt_type: str | None) -> str | None:
        """The most specific of the model's prompts that fits, in the protocol's order."""
        # An enum of strings in MTEB, whose str() is not its value.
        kind = getattr(prompt_type, "value", prompt_type)
        names = []
        for owner in (getattr(task, "name", None), getattr(task, "type", None)):
            names += [f"{owner}-{kind}", owner]
        prompts = self._encoder.modules.prompts
        return next((prompts[name] for name in [*names, kind] if name in prompts), None)


def _texts(inputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """All texts of a data loader."""
    texts = []
    for number, batch in enumerate(inputs):
        if "text" not in batch:
            raise InputError(
                f"batch {number} of the task has {', '.join(batch)}, no text",
                "Only tasks of texts can be evaluated.",
            )
        texts.extend(batch["text"])
    return texts
