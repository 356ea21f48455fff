"""BERT folders of the Hugging Face format, to and from parameter dicts.

A folder holds `config.json`, `model.safetensors` (or its shards) and the tokenizer's files.
"""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors
import safetensors.numpy

from retrieval_jax.bert import ACTIVATIONS, Bert, BertConfig, init_params, unstack_layers
from retrieval_jax.errors import InputError
from retrieval_jax.files import write_json
from retrieval_jax.params import Params, flatten, unflatten

# Fields of config.json and of BertConfig that mean the same.
CONFIG_FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "type_vocab_size",
    "hidden_act": "activation",
    "layer_norm_eps": "layer_norm_eps",
    "hidden_dropout_prob": "hidden_dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "initializer_range": "initializer_range",
}
# Paths of our parameters and names of the format's tensors; `%` stands for the layer's number.
TENSOR_NAMES = {
    "embeddings/word": "embeddings.word_embeddings",
    "embeddings/position": "embeddings.position_embeddings",
    "embeddings/segment": "embeddings.token_type_embeddings",
    "embeddings/norm": "embeddings.LayerNorm",
    "encoder/layer_%/attention/output": "encoder.layer.%.attention.output.dense",
    "encoder/layer_%/attention_norm": "encoder.layer.%.attention.output.LayerNorm",
    "encoder/layer_%/intermediate": "encoder.layer.%.intermediate.dense",
    "encoder/layer_%/output": "encoder.layer.%.output.dense",
    "encoder/layer_%/output_norm": "encoder.layer.%.output.LayerNorm",
    "pooler": "pooler.dense",
    "mlm_head/transform": "cls.predictions.transform.dense",
    "mlm_head/norm": "cls.predictions.transform.LayerNorm",
    "mlm_head": "cls.predictions",
}
FUSED = "encoder/layer_%/attention/qkv"
FUSED_NAMES = tuple(f"encoder.layer.%.attention.self.{part}" for part in ("query", "key", "value"))
WEIGHTS = "model.safetensors"
ALIGNMENT = 64  # bytes; XLA's CPU backend uses arrays that start at a multiple of it in place


class _Stored(NamedTuple):
    """Where a tensor is: the file, and its name there."""

    file: Path
    name: str


def load_bert_config(folder: Path) -> BertConfig:
    """Reads the architecture from `config.json`.

    Raises:
        InputError: no folder, no or broken `config.json`, or not a BERT with absolute positions.
    """
    path = folder / "config.json"
    if not folder.is_dir():
        raise InputError(f"no such encoder folder: {folder}", "Check the path.")
    if not path.is_file():
        raise InputError(
            f"no config.json in {folder}",
            "A BERT folder holds config.json, model.safetensors and tokenizer.json; is it one level"
            " deeper?",
        )
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}", "Fetch the file again.") from error
    if not isinstance(fields, dict):
        raise InputError(f"{path} holds no object", "Fetch the file again.")
    kind = fields.get("model_type", "bert")
    if kind != "bert" or fields.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(
            f"{path} describes a {kind!r} model with"
            f" {fields.get('position_embedding_type', 'absolute')!r} positions",
            "Only BERT with absolute positions can be loaded.",
        )
    absent = [name for name in list(CONFIG_FIELDS)[:5] if name not in fields]
    if absent:
        raise InputError(f"{path} lacks {', '.join(absent)}", "Fetch the file again.")
    if fields.get("hidden_act", "gelu") not in ACTIVATIONS:
        raise InputError(
            f"{path}: activation {fields['hidden_act']!r}", f"Known are {sorted(ACTIVATIONS)}."
        )
    try:
        return BertConfig(
            **{ours: fields[its] for its, ours in CONFIG_FIELDS.items() if its in fields}
        )
    except ValueError as error:
        raise InputError(f"{path}: {error}", "Fetch the file again.") from error


def load_bert(folder: Path) -> tuple[BertConfig, Params]:
    """Loads any BERT folder, saved with or without the `bert.` prefix.

    Returns:
        The configuration and float32 NumPy parameters for `retrieval_jax.bert.Bert`, in the layout
        `layer_0`, ...; `pooler` and `mlm_head` are there if the weights have them. They are read
        one by one, and lie so that `jax.device_put(params, may_alias=True)` copies none on a CPU.

    Raises:
        InputError: as `load_bert_config`; weights absent, corrupt, of another shape, or lacking
            tensors (named).
    """
    config = load_bert_config(folder)
    stored = _find_tensors(folder)
    shapes = _parameter_shapes(
        config,
        with_pooler="pooler.dense.weight" in stored,
        with_mlm_head="cls.predictions.transform.dense.weight" in stored,
    )
    names = {path: _tensor_names(path) for path in shapes}
    missing = [name for path in shapes for name in names[path] if name not in stored]
    if missing:
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if missing[8:] else "")
        raise InputError(
            f"the weights in {folder} lack {len(missing)} tensors of a {config.num_layers}-layer"
            f" BERT: {shown}",
            "They are of another architecture or incomplete; fetch the folder again.",
        )
    return config, unflatten(
        {
            path: _from_tensors(folder, path, names[path], stored, shape)
            # The largest first: of what is read last there is a second copy on top of all else.
            for path, shape in sorted(shapes.items(), key=lambda item: -math.prod(item[1]))
        }
    )


def save_bert(folder: Path, config: BertConfig, params: Params) -> None:
    """Writes `config.json` and weights that `load_bert` and transformers open.

    Args:
        folder: made if absent; files of the same names are overwritten.
        config: architecture.
        params: as `load_bert` returns, or in the layout of `scan_layers`; on any device.
    """
    folder.mkdir(parents=True, exist_ok=True)
    prefix = "bert." if "mlm_head" in params else ""
    tensors: dict[str, np.ndarray] = {}
    if config.scan_layers:
        params = unstack_layers(params, config.num_layers)
    for path, value in flatten(params).items():
        names = _tensor_names(path)
        for name, tensor in zip(
            names, _to_tensors(path, np.asarray(value), len(names)), strict=True
        ):
            full_name = name if name.startswith("cls.") else prefix + name
            tensors[full_name] = np.ascontiguousarray(tensor)
    safetensors.numpy.save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    # Readers would prefer the shards of a model that was here before.
    (folder / f"{WEIGHTS}.index.json").unlink(missing_ok=True)
    fields = {its: getattr(config, ours) for its, ours in CONFIG_FIELDS.items()}
    architecture = "BertForMaskedLM" if "mlm_head" in params else "BertModel"
    fields |= {"model_type": "bert", "architectures": [architecture], "dtype": "float32"}
    write_json(folder / "config.json", fields)


def _parameter_shapes(
    config: BertConfig, with_pooler: bool, with_mlm_head: bool
) -> dict[str, tuple[int, ...]]:
    """Path -> shape of every parameter of the model."""
    model = Bert(config, with_pooler, with_mlm_head)
    # The key is made inside, where it is not computed: that would need XLA's compiler, in memory.
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    return {path: leaf.shape for path, leaf in flatten(params).items()}


def _tensor_names(path: str) -> tuple[str, ...]:
    """Names of the tensors, without `bert.`, that make up the parameter at `path`."""
    owner, leaf = path.rsplit("/", 1)
    layer = re.search(r"layer_(\d+)", owner)
    number = layer[1] if layer else ""
    key = re.sub(r"layer_\d+", "layer_%", owner)
    owners = FUSED_NAMES if key == FUSED else (TENSOR_NAMES[key],)
    suffix = "bias" if leaf == "bias" else "weight"
    return tuple(f"{name.replace('%', number)}.{suffix}" for name in owners)


def _from_tensors(
    folder: Path,
    path: str,
    names: tuple[str, ...],
    stored: dict[str, _Stored],
    shape: tuple[int, ...],
) -> np.ndarray:
    """One float32 parameter; the format's matrices are `[out, in]`, ours `[in, ..., out]`."""
    parts = [_read_tensor(stored[name]) for name in names]
    stored_shape = parts[0].shape
    if path.endswith("kernel"):
        parts = [part.T for part in parts]
    fused = np.stack(parts, axis=-2) if len(parts) > 1 else parts[0]
    if fused.size != np.prod(shape) or fused.shape[0] not in (shape[0], np.prod(shape[:2])):
        raise InputError(
            f"{names[0]} in {folder} has shape {stored_shape}, which does not fit"
            f" config.json (parameter {path} {shape})",
            "config.json and the weights belong to different models; fetch both again.",
        )
    room = np.empty(fused.size * 4 + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    parameter = room[start : start + fused.size * 4].view(np.float32).reshape(shape)
    parameter[...] = fused.reshape(shape)
    return parameter


def _to_tensors(path: str, value: np.ndarray, count: int) -> list[np.ndarray]:
    """Inverse of `_from_tensors`."""
    if not path.endswith("kernel"):
        return [part.reshape(-1) for part in value] if count > 1 else [value]
    if count > 1:  # [in, 3, heads, head_dim]
        return [value[:, part].reshape(value.shape[0], -1).T for part in range(count)]
    return [value.reshape(-1, value.shape[-1]).T]


def _find_tensors(folder: Path) -> dict[str, _Stored]:
    """All tensors of the folder, by names without `bert.` and with today's LayerNorm names."""
    index = folder / f"{WEIGHTS}.index.json"
    if index.is_file():
        try:
            shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{index} is no index of shards", "Fetch the file again.") from error
        files = [folder / Path(shard).name for shard in sorted(set(shards))]
    else:
        files = [folder / WEIGHTS]
    legacy = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
    stored = {}
    for file in files:
        if not file.is_file():
            raise InputError(
                f"no {file.name} in {folder}",
                "Weights are read from safetensors only (a pickle can run code). Convert others"
                " with transformers: AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER).",
            )
        with _opened(file) as tensors:
            for name in tensors.keys():  # noqa: SIM118 - it is no mapping
                today = name.removeprefix("bert.")
                for old, new in legacy.items():
                    today = today.replace(old, new)
                stored[today] = _Stored(file, name)
    return stored


def _read_tensor(stored: _Stored) -> np.ndarray:
    # Opened for each: pages of a mapped file stay in memory for as long as it is open.
    with _opened(stored.file) as tensors:
        return tensors.get_tensor(stored.name).astype(np.float32, copy=False)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(file, framework="np") as tensors:
            yield tensors
    except (safetensors.SafetensorError, ValueError) as error:
        raise InputError(
            f"{file} is no intact safetensors file: {error}", "Fetch the file again."
        ) from error
