"""Modules of sentence-transformers folders: layouts of its versions, and what we refuse."""

import json

import pytest

from mathsim_jax.sentence_transformers_format import SentenceModules, read_modules, write_modules
from retrieval_jax.errors import InputError

OLD = "sentence_transformers.models."


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_listed(folder, *types, first=""):
    paths = [first, *(f"{i}_{kind.rpartition('.')[2]}" for i, kind in enumerate(types) if i)]
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": kind}
        for i, (kind, path) in enumerate(zip(types, paths, strict=True))
    ]
    write_json(folder / "modules.json", listed)


def test_a_folder_without_modules_is_pooled_by_mean(tmp_path):
    assert read_modules(tmp_path) == SentenceModules(pooling="mean", normalize=False)


def test_the_layout_of_version_2(tmp_path):
    write_listed(tmp_path, OLD + "Transformer", OLD + "Pooling", OLD + "Normalize")
    write_json(
        tmp_path / "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": True}
    )
    flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    write_json(tmp_path / "1_Pooling" / "config.json", {"word_embedding_dimension": 8} | flags)
    write_json(tmp_path / "config_sentence_transformers.json", {"__version__": {}})
    assert read_modules(tmp_path) == SentenceModules(
        pooling="cls", normalize=True, max_length=256, lower_case=True
    )


def test_the_layout_of_version_6(tmp_path):
    write_listed(
        tmp_path,
        "sentence_transformers.base.modules.transformer.Transformer",
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    )
    text = {"method": "forward", "method_output_name": "last_hidden_state"}
    write_json(
        tmp_path / "sentence_bert_config.json",
        {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": text},
            "module_output_name": "token_embeddings",
        },
    )
    pooling = {"embedding_dimension": 8, "pooling_mode": "max", "include_prompt": True}
    write_json(tmp_path / "1_Pooling" / "config.json", pooling)
    prompts = {"query": "find: ", "document": None}
    write_json(
        tmp_path / "config_sentence_transformers.json",
        {
            "model_type": "SentenceTransformer",
            "prompts": prompts,
            "default_prompt_name": "query",
            "similarity_fn_name": "cosine",
        },
    )
    assert read_modules(tmp_path) == SentenceModules(
        pooling="max", prompts={"query": "find: ", "document": ""}, default_prompt="query"
    )


def test_bert_in_a_folder_of_its_own(tmp_path):
    write_listed(tmp_path, OLD + "Transformer", OLD + "Pooling", first="0_Transformer")
    write_json(tmp_path / "0_Transformer" / "sentence_bert_config.json", {"max_seq_length": 9})
    assert read_modules(tmp_path) == SentenceModules(bert="0_Transformer", max_length=9)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_round_trip(tmp_path, pooling, normalize):
    modules = SentenceModules(
        pooling=pooling,
        normalize=normalize,
        max_length=32,
        lower_case=True,
        prompts={"query": "q: "},
        default_prompt="query",
    )
    write_modules(tmp_path, modules, dim=8)
    assert read_modules(tmp_path) == modules


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ((OLD + "Transformer", OLD + "Pooling", OLD + "Dense"), "models.Dense"),
        ((OLD + "CLIPModel",), "models.CLIPModel"),
        ((OLD + "Transformer", "modeling.Pooling"), "modeling.Pooling"),
        ((OLD + "Transformer",), "modules Transformer"),
        ((OLD + "Transformer", OLD + "Normalize", OLD + "Pooling"), "in this order"),
        ((), "modules none"),
    ],
)
def test_modules_that_we_lack_are_named(tmp_path, types, words):
    write_listed(tmp_path, *types) if types else write_json(tmp_path / "modules.json", [])
    with pytest.raises(InputError, match=words):
        read_modules(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "pooling by weightedmean"),
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}, "pooling by cls and mean"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
            "pooling by max and mean",
        ),
        ("1_Pooling/config.json", {"include_prompt": False}, "include_prompt"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "fill-mask"),
        ("sentence_bert_config.json", {"modality_config": {"image": {}}}, "modality_config"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {}}}, "processing_kwargs"),
        ("sentence_bert_config.json", {"max_seq_length": "long"}, "max_seq_length 'long'"),
        ("sentence_bert_config.json", [], "holds no object"),
        ("config_sentence_transformers.json", {"model_type": "CrossEncoder"}, "CrossEncoder"),
        ("config_sentence_transformers.json", {"truncate_dim": 4}, "truncate_dim 4"),
        ("config_sentence_transformers.json", {"default_prompt_name": "a"}, "'a' is the default"),
        ("modules.json", {"0": {}}, "no list of modules"),
        ("modules.json", [{"type": OLD + "Transformer"}], "no list of modules"),
    ],
)
def test_settings_that_we_lack_are_named(tmp_path, file, content, words):
    write_modules(tmp_path, SentenceModules(prompts={"query": "q"}), dim=8)
    write_json(tmp_path / file, content)
    with pytest.raises(InputError, match=words):
        read_modules(tmp_path)


@pytest.mark.parametrize("path", ["../other", "/etc"])
def test_paths_out_of_the_folder_are_refused(tmp_path, path):
    write_listed(tmp_path, OLD + "Transformer", OLD + "Pooling", first=path)
    with pytest.raises(InputError, match="leads out of the folder"):
        read_modules(tmp_path)


@pytest.mark.parametrize("content", ["{", "[" * 100_000])
def test_broken_json_is_named(tmp_path, content):
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(InputError, match=r"modules\.json is no JSON"):
        read_modules(tmp_path)
