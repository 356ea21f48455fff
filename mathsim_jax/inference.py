"""`SentenceEncoder`: a sentence-transformers model of BERT, without torch."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike
from rich.progress import Progress
from tokenizers import normalizers
from transformers import PreTrainedTokenizerBase

from mathsim_jax.datasets.texts import joined_surrogates
from mathsim_jax.sentence_transformers_format import SentenceModules, read_modules, write_modules
from retrieval_jax.bert import BertConfig, Dtype
from retrieval_jax.encoding import encode, jit_encoder, unit_length
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import save_bert
from retrieval_jax.params import Params
from retrieval_jax.pipeline import tokenize
from retrieval_jax.pretrained import PretrainedBert, find_encoder, load_pretrained

VectorDtype = Literal["float32", "float16"]
# Texts and characters that are tokenised at once: bounds what they take besides their vectors.
BLOCK_TEXTS = {"cpu": 2048}
BLOCK_TEXTS_ACCELERATOR = 32768
BLOCK_CHARACTERS = 1 << 24


class SentenceEncoder:
    """Texts to vectors; made by `from_pretrained`, or from the parts of a model in memory.

    Args:
        config: architecture of the encoder.
        params: of `retrieval_jax.bert.Bert`, NumPy or JAX arrays; used in place on a CPU, so not to
            be changed.
        tokenizer: its fast tokenizer.
        modules: pooling, normalisation, length and prompts; the mean by default.

    Attributes:
        modules: the same, with `max_length` decided.
    """

    def __init__(
        self,
        config: BertConfig,
        params: Params,
        tokenizer: PreTrainedTokenizerBase,
        modules: SentenceModules | None = None,
    ) -> None:
        modules = modules or SentenceModules()
        max_length = modules.max_length or tokenizer.model_max_length
        # A longer text has no positions.
        self.modules = dataclasses.replace(
            modules, max_length=min(max_length, config.max_positions), bert=""
        )
        self._config, self._tokenizer = config, tokenizer
        self._params: Params = jax.device_put(params, may_alias=True)
        self._encode_batch = functools.partial(jit_encoder(config, modules.pooling), self._params)
        if modules.lower_case:
            lower_case_first(tokenizer)

    @classmethod
    def from_pretrained(
        cls, name: str | Path, dtype: Dtype = "float32", max_length: int | None = None
    ) -> "SentenceEncoder":
        """Loads a model.

        Args:
            name: folder of sentence-transformers or, then pooled by mean, of a BERT; a package or
                hub name (`retrieval_jax.pretrained.find_encoder`).
            dtype: of the encoder's computation; bfloat16 on accelerators.
            max_length: word pieces at which texts are cut, [CLS] and [SEP] included; None = as the
                folder says.

        Raises:
            InputError: nothing of that name, unusable files (weights must be safetensors), a module
                that we do not have, or a `max_length` that the encoder does not hold.
        """
        folder = find_encoder(str(name))
        modules = read_modules(folder)
        bert = load_pretrained(str(folder / modules.bert), dtype=dtype)
        if max_length is not None:
            check_length(max_length, bert)
            modules = dataclasses.replace(modules, max_length=max_length)
        return cls(bert.config, bert.params, bert.tokenizer, modules)

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._config.hidden_size

    @property
    def max_length(self) -> int:
        """Word pieces at which texts are cut, [CLS] and [SEP] included."""
        assert self.modules.max_length is not None
        return self.modules.max_length

    def encode(
        self,
        sentences: str | Iterable[str],
        batch_size: int | None = None,
        normalize: bool | None = None,
        dtype: VectorDtype = "float32",
        show_progress: bool = False,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Encodes texts.

        An empty text is encoded as `[CLS] [SEP]`. Lone surrogates become U+FFFD, which BERT's
        tokenizer leaves out, as it does control characters; two that are a pair are joined.

        Args:
            sentences: one text, or any number of them.
            batch_size: full-length texts a call holds at most, or as many word pieces of shorter
                ones; decided by the device if None.
            normalize: vectors of unit length; None = as the model's modules say.
            dtype: of the result.
            show_progress: draw a bar.
            prompt: goes before each text; None = the model's default prompt, if it has one.

        Returns:
            `[texts, dim]` in input order; `[dim]` for one text.

        Raises:
            InputError: something that is no text (the index is named).
        """
        if isinstance(sentences, str):
            return self.encode([sentences], batch_size, normalize, dtype, show_progress, prompt)[0]
        if not isinstance(sentences, Sequence):
            sentences = list(_iterate(sentences))
        vectors = np.empty((len(sentences), self.dim), dtype)
        with Progress(disable=not show_progress) as bar:
            task = bar.add_task("encoding", total=len(sentences))
            start = 0
            for block in self.encode_blocks(
                sentences,
                batch_size,
                normalize,
                dtype,
                prompt,
                advance=functools.partial(bar.advance, task),
            ):
                vectors[start : start + len(block)] = block
                start += len(block)
        return vectors

    def encode_blocks(
        self,
        sentences: Iterable[str],
        batch_size: int | None = None,
        normalize: bool | None = None,
        dtype: VectorDtype = "float32",
        prompt: str | None = None,
        advance: Any = None,
    ) -> Iterator[np.ndarray]:
        """Encodes a stream of texts in memory that does not grow with their number.

        Args:
            sentences: texts, for example the lines of a file; read as they are needed.
            batch_size: as in `encode`.
            normalize: as in `encode`.
            dtype: as in `encode`.
            prompt: as in `encode`.
            advance: told how many more texts are encoded.

        Yields:
            `[block, dim]`, in input order.

        Raises:
            InputError: as `encode`; or a batch size below 1.
        """
        if batch_size is not None and batch_size < 1:
            raise InputError(f"batch_size {batch_size}", "Give 1 or more, or None.")
        if prompt is None:
            prompt = self.modules.prompts.get(self.modules.default_prompt or "", "")
        pieces = None if batch_size is None else batch_size * self.max_length
        normalize = self.modules.normalize if normalize is None else normalize
        for texts in _blocks(_checked(_iterate(sentences), prompt)):
            table = tokenize(texts, self._tokenizer, self.max_length)
            vectors = encode(self._encode_batch, table, pieces, advance=advance)
            yield (unit_length(vectors) if normalize else vectors).astype(dtype, copy=False)

    def similarity(
        self, first: str | Sequence[str] | ArrayLike, second: str | Sequence[str] | ArrayLike
    ) -> np.ndarray:
        """Cosine of each of `first` with each of `second`.

        Args:
            first: vectors `[n, dim]` or one `[dim]`, as `encode` gives them; or texts.
            second: the same, `m` of them.

        Returns:
            float32 `[n, m]`, in [-1, 1]; 0 where a vector is zero.

        Raises:
            InputError: as `encode`, or vectors of other shapes.
        """
        return np.clip(self._directions(first) @ self._directions(second).T, -1, 1)

    def _directions(self, given: str | Sequence[str] | ArrayLike) -> np.ndarray:
        if isinstance(given, str):
            given = [given]
        if isinstance(given, Sequence) and len(given) and isinstance(given[0], str):
            return self.encode(given, normalize=True)  # pyright: ignore[reportArgumentType]
        vectors = np.atleast_2d(np.asarray(given, np.float32))
        if vectors.ndim != 2 or (vectors.size and vectors.shape[1] != self.dim):
            raise InputError(
                f"vectors of shape {np.shape(given)} to compare",
                f"Give [n, {self.dim}], or texts.",
            )
        return unit_length(vectors.reshape(-1, self.dim))

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes a folder that sentence-transformers and transformers open; made if absent."""
        folder = Path(folder)
        save_bert(folder, self._config, self._params)
        backend: Any = self._tokenizer.backend_tokenizer
        # What calls leave in it, and readers would take for settings.
        backend.no_truncation()
        backend.no_padding()
        self._tokenizer.save_pretrained(folder)
        write_modules(folder, self.modules, self.dim)


def _iterate(sentences: Any) -> Iterator[Any]:
    """Items of what should be an iterable of texts."""
    if isinstance(sentences, bytes | bytearray) or not isinstance(sentences, Iterable):
        raise InputError(
            f"sentences to encode: {type(sentences).__name__} {str(sentences)[:80]!r}",
            "Give a string or an iterable of strings.",
        )
    return iter(sentences)


def _checked(sentences: Iterable[Any], prompt: str) -> Iterator[str]:
    """The texts with their prompt, such that the tokenizer takes them."""
    for index, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise InputError(
                f"sentence {index} is no text: {type(sentence).__name__} {str(sentence)[:80]!r}",
                "Give strings; an empty one stands for a missing text.",
            )
        yield prompt + joined_surrogates(sentence)


def _blocks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Lists of texts, none of them empty."""
    size = BLOCK_TEXTS.get(jax.default_backend(), BLOCK_TEXTS_ACCELERATOR)
    while True:
        block, characters = [], 0
        for text in itertools.islice(texts, size):
            block.append(text)
            characters += len(text)
            if characters > BLOCK_CHARACTERS:
                break
        if not block:
            return
        yield block


def check_length(max_length: int, encoder: PretrainedBert) -> None:
    """Refuses texts longer than the encoder's positions, by an `InputError`."""
    if not 3 <= max_length <= encoder.config.max_positions:
        raise InputError(
            f"max_length is {max_length}, the encoder has {encoder.config.max_positions} positions",
            f"Give 3 to {encoder.config.max_positions}.",
        )


def lower_case_first(tokenizer: PreTrainedTokenizerBase) -> None:
    """Makes a tokenizer lower-case texts before its own normalisation."""
    backend: Any = tokenizer.backend_tokenizer
    own = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
