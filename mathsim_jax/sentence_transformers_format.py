"""Folders of sentence-transformers: which modules a model is made of, read and written.

Beside a BERT folder's own files there are `modules.json`, which names the modules in order and the
folder of each, `sentence_bert_config.json` for the Transformer, `1_Pooling/config.json`, and
`config_sentence_transformers.json` for prompts. Layouts of versions 2 to 6 are read; that of
version 2, which all of them open, is written.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from retrieval_jax.bert import Pooling
from retrieval_jax.errors import InputError
from retrieval_jax.files import write_json

MODULES = "modules.json"
TRANSFORMER = "sentence_bert_config.json"
MODEL = "config_sentence_transformers.json"
# Pooling modes in configurations of versions up to 5; of these, the first three are ours.
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# What a text-only BERT says, where it says anything: key -> value.
TEXT_ENCODER = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
}


@dataclasses.dataclass(frozen=True)
class SentenceModules:
    """How a text becomes a vector, apart from BERT itself.

    Attributes:
        bert: folder of the BERT files inside the model's folder; "" is that folder.
        pooling: of word pieces into one vector.
        normalize: vectors have unit length.
        max_length: word pieces at which texts are cut, [CLS] and [SEP] included; None leaves it to
            tokenizer and position table.
        lower_case: lower-case texts before the tokenizer's own rules.
        prompts: name -> text that goes before a text.
        default_prompt: name of the prompt to use where none is named.
    """

    bert: str = ""
    pooling: Pooling = "mean"
    normalize: bool = False
    max_length: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str | None = None


def read_modules(folder: Path) -> SentenceModules:
    """Reads the modules of a model; a folder without `modules.json` is a BERT, pooled by mean.

    Args:
        folder: of the model.

    Raises:
        InputError: files that are no such JSON, or a module or setting that we do not have, named.
    """
    if not (folder / MODULES).is_file():
        return SentenceModules()
    paths = _module_paths(folder / MODULES)
    transformer = _read_object(paths["Transformer"] / TRANSFORMER)
    _check_text_encoder(paths["Transformer"] / TRANSFORMER, transformer)
    model = _read_object(folder / MODEL)
    where = folder / MODEL
    kind = model.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise InputError(
            f"{where} describes a {kind!r}", "Only a SentenceTransformer gives a text one vector."
        )
    if model.get("truncate_dim") is not None:
        raise InputError(
            f"{where}: truncate_dim {model['truncate_dim']}",
            "Vectors are not cut to fewer dimensions here; remove the field and cut them yourself.",
        )
    prompts, default = model.get("prompts") or {}, model.get("default_prompt_name")
    if (
        not isinstance(prompts, dict)
        or not all(isinstance(prompt, str | None) for prompt in prompts.values())
        or (default is not None and default not in prompts)
    ):
        raise InputError(
            f"{where}: prompts {str(prompts)[:80]}, of which {default!r} is the default",
            "prompts must map names to texts, the default's name among them.",
        )
    max_length = transformer.get("max_seq_length")
    if max_length is not None and (not isinstance(max_length, int) or max_length < 2):
        raise InputError(
            f"{paths['Transformer'] / TRANSFORMER}: max_seq_length {max_length!r}",
            "Give a number of word pieces, 2 or more.",
        )
    return SentenceModules(
        bert=paths["Transformer"].relative_to(folder).as_posix().removeprefix("."),
        pooling=_read_pooling(paths["Pooling"] / "config.json", any(prompts.values())),
        normalize="Normalize" in paths,
        max_length=max_length,
        lower_case=bool(transformer.get("do_lower_case", False)),
        prompts={name: prompt or "" for name, prompt in prompts.items()},
        default_prompt=default,
    )


def write_modules(folder: Path, modules: SentenceModules, dim: int) -> None:
    """Writes the files that `read_modules` reads, for BERT files in `folder` itself.

    Args:
        folder: exists.
        modules: `bert` is not looked at.
        dim: of the vectors.
    """
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    kinds += [("Normalize", "2_Normalize")] if modules.normalize else []
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds)
    ]
    for _, path in kinds:
        (folder / path).mkdir(parents=True, exist_ok=True)
    write_json(folder / MODULES, listed)
    write_json(
        folder / TRANSFORMER,
        {"max_seq_length": modules.max_length, "do_lower_case": modules.lower_case},
    )
    flags = {flag: mode == modules.pooling for flag, mode in POOLING_FLAGS.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": dim} | flags)
    write_json(
        folder / MODEL,
        {
            "prompts": dict(modules.prompts),
            "default_prompt_name": modules.default_prompt,
            "similarity_fn_name": "cosine",
        },
    )


def _module_paths(path: Path) -> dict[str, Path]:
    """Folder of each module by the last part of its type, in the order of the model."""
    modules = _read_json(path)
    fields = ("type", "path")
    if not isinstance(modules, list) or not all(
        isinstance(module, dict) and all(isinstance(module.get(field), str) for field in fields)
        for module in modules
    ):
        raise InputError(f"{path} is no list of modules", "Fetch the file again.")
    names = []
    for module in modules:
        package, _, name = module["type"].rpartition(".")
        if package.split(".")[0] != "sentence_transformers" or name not in (
            "Transformer",
            "Pooling",
            "Normalize",
        ):
            raise InputError(
                f"{path}: module {module['type']!r}",
                "Of sentence-transformers we have Transformer (BERT), Pooling and Normalize only.",
            )
        inside = PurePosixPath(module["path"])
        if inside.is_absolute() or ".." in inside.parts:
            raise InputError(
                f"{path}: module path {module['path']!r} leads out of the folder",
                "Do not use this folder; a model's files lie inside it.",
            )
        names.append(name)
    if names not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise InputError(
            f"{path}: modules {', '.join(names) or 'none'}",
            "They must be Transformer, Pooling and, if any, Normalize, in this order.",
        )
    folders = [path.parent / module["path"] for module in modules]
    return dict(zip(names, folders, strict=True))


def _check_text_encoder(path: Path, transformer: dict[str, Any]) -> None:
    """Refuses what sentence-transformers can do with a Transformer and we cannot."""
    for key, value in TEXT_ENCODER.items():
        if transformer.get(key, value) != value:
            raise InputError(
                f"{path}: {key} {transformer[key]!r}", f"Only {value!r} can be computed."
            )
    text = {"method": "forward", "method_output_name": "last_hidden_state"}
    modality = transformer.get("modality_config", {"text": text})
    if not isinstance(modality, dict) or modality.get("text") != text:
        raise InputError(
            f"{path}: modality_config {str(modality)[:120]}",
            "Only the last hidden states of text can be computed.",
        )
    if transformer.get("processing_kwargs"):
        raise InputError(
            f"{path}: processing_kwargs {str(transformer['processing_kwargs'])[:120]}",
            "Texts are only cut to max_seq_length; remove the field if it changes nothing else.",
        )


def _read_pooling(path: Path, has_prompts: bool) -> Pooling:
    """The one pooling mode of a module's configuration."""
    config = _read_object(path)
    mode = config.get("pooling_mode")
    if mode is None:
        flagged = [name for flag, name in POOLING_FLAGS.items() if config.get(flag)]
        mode = flagged or ["mean"]
    modes = [mode] if isinstance(mode, str) else list(mode)
    pooling = next((ours for ours in get_args(Pooling) if modes == [ours]), None)
    if pooling is None:
        raise InputError(
            f"{path}: pooling by {' and '.join(map(str, modes))}",
            f"Only one of {', '.join(get_args(Pooling))} can be computed.",
        )
    if has_prompts and not config.get("include_prompt", True):
        raise InputError(
            f"{path}: include_prompt false", "Prompts cannot be left out of pooling here."
        )
    return pooling


def _read_object(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is no such file, as sentence-transformers takes it."""
    if not path.is_file():
        return {}
    fields = _read_json(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path} holds no object", "Fetch the file again.")
    return fields


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no JSON: {error}", "Fetch the file again.") from error
