"""Domain adaptation: words are learned, the folder opens, the vocabulary may grow."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from transformers import AutoTokenizer

import mathsim_jax
from mathsim_jax.adaptation import adapt, load_encoder
from mathsim_jax.config import AdaptationConfig, EncoderConfig, FineTuningConfig
from mathsim_jax.datasets.corpora import hold_out, read_texts
from mathsim_jax.fine_tuning import pooling_of
from mathsim_jax.sentence_transformers_format import SentenceModules, read_modules, write_modules
from mathsim_jax.task import MaskedTask
from retrieval_jax.checkpoints import restore_params
from retrieval_jax.errors import InputError
from retrieval_jax.logs import read_metrics
from retrieval_jax.masking import make_masking
from retrieval_jax.pipeline import tokenize
from tests.bert_folders import write_tiny_bert
from tests.mathsim_jax.toy_pairs import (
    FILLERS,
    SUBJECTS,
    adaptation_config,
    fine_tuning_config,
    toy_texts,
)

TEXTS = [f"{text} \\mathbb" for s in SUBJECTS for text in toy_texts(s, 30, seed=len(s))]
TEXTS = list(dict.fromkeys(TEXTS))


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    write_tiny_bert(folder, words=(*SUBJECTS, *FILLERS, "\\"))
    return str(folder)


@pytest.mark.parametrize(
    ("whole_words", "new_commands"), [pytest.param(False, 0, marks=pytest.mark.long), (True, 4)]
)
def test_adaptation_learns_the_words_and_leaves_a_folder(
    encoder_folder, tmp_path, whole_words, new_commands
):
    changes = {"whole_words": whole_words, "mask_rate": 0.3}
    config = adaptation_config(encoder_folder, steps=40, **changes)
    config = AdaptationConfig(**(vars(config) | {"new_commands": new_commands}))
    run, trained, folder = adapt(config, TEXTS, tmp_path / "run")
    dev = [row["log_likelihood"] for row in read_metrics(run.path) if row["kind"] == "dev"]
    assert trained.best["log_likelihood"] == max(dev) > dev[0]
    assert max(dev) > -3  # chance is -log(60) = -4.1
    encoder = mathsim_jax.SentenceEncoder.from_pretrained(folder)
    vectors = encoder.encode(["a finite graph", "every group"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert ("\\mathbb" in tokenizer.get_vocab()) == bool(new_commands)
    adapted = load_encoder(EncoderConfig(encoder=str(folder)))
    assert adapted.config.vocab_size == len(tokenizer)
    assert set(adapted.params) == {"embeddings", "encoder"}
    # Called again, nothing is left to do.
    assert adapt(config, TEXTS, tmp_path / "run")[1].step == 40


def test_the_head_learns_alone_first(encoder_folder, tmp_path):
    config = adaptation_config(encoder_folder, steps=10, head_steps=10)
    adapt(config, TEXTS, tmp_path / "run")
    head = read_metrics(tmp_path / "run/head")
    whole = read_metrics(tmp_path / "run")
    assert [rows[-1]["step"] for rows in (head, whole)] == [10, 10]
    # The whole starts where the head came to, on an encoder that had not changed.
    given = load_encoder(config.model).params
    kept = restore_params(tmp_path / "run/head")
    jax.tree.map(np.testing.assert_array_equal, kept["encoder"], given["encoder"])
    trained = restore_params(tmp_path / "run")
    assert not np.array_equal(
        trained["embeddings"]["word"]["embedding"], given["embeddings"]["word"]["embedding"]
    )
    losses = [next(row["mlm_loss"] for row in rows if row["kind"] == "train")
              for rows in (head, whole)]  # fmt: skip
    assert losses[1] < losses[0]


def test_the_folder_keeps_pooling_and_its_bert_may_lie_deeper(tmp_path):
    config = write_tiny_bert(tmp_path / "model/0_Transformer", words=(*SUBJECTS, *FILLERS))
    write_modules(tmp_path / "model", SentenceModules(pooling="max"), config.hidden_size)
    modules = json.loads((tmp_path / "model/modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "model/modules.json").write_text(json.dumps(modules))
    _, _, folder = adapt(adaptation_config(str(tmp_path / "model"), 2), TEXTS, tmp_path / "run")
    assert read_modules(folder).pooling == "max"
    tuning = fine_tuning_config(str(folder))
    assert pooling_of(tuning) == "max"
    assert pooling_of(dataclasses.replace(tuning, pooling="cls")) == "cls"


def test_dev_likelihood_is_the_mean_over_all_masked_places(encoder_folder, monkeypatch):
    encoder = load_encoder(EncoderConfig(encoder=encoder_folder))
    table = tokenize(TEXTS[:50], encoder.tokenizer, 16)
    monkeypatch.setattr(mathsim_jax.task, "_DEV_PIECES", 512)  # several calls of unequal sizes
    # All places are masked, or as good as: the mean is that over all pieces but special ones.
    task = MaskedTask(encoder.config, {}, table, table, make_masking(encoder.tokenizer, 0.9999))
    params = jax.tree.map(np.zeros_like, task.init(jax.random.key(0)))
    # Logits are this bias alone: P of a piece is the same wherever it is masked.
    bias = np.linspace(-1, 1, encoder.config.vocab_size, dtype=np.float32)
    params["mlm_head"]["bias"] = bias
    special = encoder.tokenizer.all_special_ids
    pieces = [row[:length] for row, length in zip(table.input_ids, table.lengths, strict=True)]
    masked = np.concatenate([row[~np.isin(row, special)] for row in pieces])
    expected = bias[masked].mean() - np.log(np.exp(bias).sum())
    assert task.evaluate(params)["log_likelihood"] == pytest.approx(expected, abs=2e-3)


def test_texts_of_files(tmp_path):
    plain = tmp_path / "a.txt"
    plain.write_text("one  text\n\n \t\nanother\none text\n")
    assert read_texts(plain) == (
        ["one text", "another"],
        {"blank lines": 2, "texts that come again": 1},
    )
    lines = tmp_path / "b.jsonl"
    lines.write_text('{"abstract": "x y"}\n{"title": "z"}\n')
    with pytest.raises(InputError, match=r"b\.jsonl, line 2: no field 'abstract' among title"):
        read_texts(lines, "abstract")
    for text in ("", " \n\t\n"):
        plain.write_text(text)
        with pytest.raises(InputError, match=r"a\.txt holds no text"):
            read_texts(plain)
    with pytest.raises(InputError, match="no file"):
        read_texts(tmp_path / "absent.txt")


def test_what_is_held_out_depends_on_the_text_alone():
    texts = [f"text {i}" for i in range(1000)]
    kept, out = hold_out(texts, 0.1)
    assert 70 < len(out) < 130
    assert sorted(kept + out) == sorted(texts)
    assert set(hold_out(texts[::-1], 0.1)[1]) == set(out) <= set(hold_out(texts, 0.2)[1])


def test_bad_texts_and_settings_are_refused(encoder_folder, tmp_path):
    config = adaptation_config(encoder_folder)
    with pytest.raises(InputError, match=r"^texts: none"):
        adapt(config, np.array([], str), tmp_path / "a")
    with pytest.raises(InputError, match=r"^texts: 'a text'"):
        adapt(config, "a text", tmp_path / "a")
    with pytest.raises(InputError, match="text 1 is only white space"):
        adapt(config, ["a", " \n"], tmp_path / "a")
    for wrong in ({"mask_rate": 0.0}, {"dev_share": 1.0}, {"new_commands": -1}, {"head_steps": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            AdaptationConfig(**wrong)
    with pytest.raises(InputError, match="temperature"):
        FineTuningConfig(temperature=0.0)
    with pytest.raises(InputError, match="extra_limit is -1"):
        FineTuningConfig(extra_limit=-1)
