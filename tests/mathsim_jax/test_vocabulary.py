"""How LaTeX breaks up, and a vocabulary that keeps it whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transformers import AutoTokenizer

from mathsim_jax.vocabulary import count_pieces, extend_vocabulary, formulas, frequent_commands
from retrieval_jax.bert import Bert
from retrieval_jax.errors import InputError
from retrieval_jax.huggingface import load_bert, save_bert
from retrieval_jax.pretrained import load_pretrained
from tests.bert_folders import write_tiny_bert


@pytest.fixture
def encoder(tmp_path):
    write_tiny_bert(tmp_path / "bert", words=("\\", "math", "##bb", "{", "}", "$"), mlm_head=True)
    return load_pretrained(str(tmp_path / "bert"), mlm_head=True)


def test_formulas_in_all_delimiters():
    text = r"Let \(x^2\) and $y$, $$z$$ or \[w\]; it costs \$5 and \$6."
    assert formulas(text) == ["x^2", "y", "z", "w"]
    assert formulas("no formula") == []


def test_pieces_are_counted_by_hand(encoder):
    pieces = count_pieces([r"ab $\mathbb{r}$", "math"], encoder.tokenizer)
    assert (pieces.texts, pieces.formulas, pieces.commands, pieces.words) == (2, 1, 1, 2)
    assert pieces.pieces_per_formula == 6  # \ math ##bb { r }
    assert pieces.pieces_per_command == 3
    assert pieces.whole_commands == 0
    assert pieces.pieces_per_word == 1.5  # a ##b, math
    assert pieces.pieces_per_text == (2 + 8 + 1) / 2
    with pytest.raises(InputError, match="texts to count pieces of: none"):
        count_pieces([], encoder.tokenizer)


def test_frequent_commands_come_with_those_they_begin(encoder):
    texts = [r"\in " * 9 + r"\int " * 2 + r"\mathbb{R} " * 7 + r"\rare"]
    commands = frequent_commands(texts, encoder.tokenizer, limit=3)
    assert commands == ["\\in", "\\int", "\\mathbb"]
    # No room for both: neither.
    assert frequent_commands(texts, encoder.tokenizer, limit=1) == ["\\mathbb"]
    assert frequent_commands(texts, encoder.tokenizer, limit=9, min_count=8) == ["\\in", "\\int"]


def test_new_pieces_are_whole_and_start_from_the_mean_of_their_parts(encoder, tmp_path):
    before = encoder.params
    old = encoder.tokenizer.convert_tokens_to_ids(["\\", "math", "##bb"])
    size = encoder.config.vocab_size
    text = r"a $\mathbb{r}$ \Lambda"
    extended = extend_vocabulary(encoder, ["\\mathbb", "\\Lambda", "\\mathbb", "math"])
    assert extended.config.vocab_size == size + 2 == len(extended.tokenizer)
    pieces = extended.tokenizer.tokenize(text)
    assert pieces.count("\\mathbb") == pieces.count("\\Lambda") == 1
    assert "\\lambda" not in extended.tokenizer.get_vocab()
    table = extended.params["embeddings"]["word"]["embedding"]
    words = before["embeddings"]["word"]["embedding"]
    np.testing.assert_array_equal(table[:size], words)
    new = extended.tokenizer.convert_tokens_to_ids("\\mathbb")
    np.testing.assert_allclose(table[new], words[old].mean(axis=0), rtol=1e-6)
    bias = extended.params["mlm_head"]["bias"]
    np.testing.assert_allclose(bias[new], before["mlm_head"]["bias"][old].mean(), rtol=1e-6)

    # Saved and read again, tokenizer and table are in step.
    save_bert(tmp_path / "new", extended.config, extended.params)
    extended.tokenizer.save_pretrained(tmp_path / "new")
    again = load_pretrained(str(tmp_path / "new"), mlm_head=True)
    assert again.tokenizer.tokenize(text) == pieces
    jax.tree.map(np.testing.assert_array_equal, again.params, extended.params)
    ids = jnp.asarray(again.tokenizer([text])["input_ids"], jnp.int32)
    config, params = load_bert(tmp_path / "new")
    hidden = Bert(config).apply({"params": params}, ids, jnp.ones_like(ids))
    assert hidden.shape == (1, ids.shape[1], config.hidden_size)
    assert np.isfinite(hidden).all()


def test_spare_rows_of_a_table_are_used_first(tmp_path):
    config = write_tiny_bert(tmp_path)
    names = (tmp_path / "vocab.txt").read_text().split()
    (tmp_path / "vocab.txt").write_text("\n".join(names[:-3]) + "\n")
    encoder = load_pretrained(str(tmp_path))
    extended = extend_vocabulary(encoder, ["\\ab", "\\ac"])
    assert extended.config.vocab_size == config.vocab_size
    row = AutoTokenizer.from_pretrained(tmp_path).convert_tokens_to_ids(["[UNK]", "a", "##b"])
    table = encoder.params["embeddings"]["word"]["embedding"]
    new = extended.params["embeddings"]["word"]["embedding"][config.vocab_size - 3]
    np.testing.assert_allclose(new, table[row].mean(axis=0), rtol=1e-5)


def test_a_blank_piece_is_refused(encoder):
    with pytest.raises(InputError, match="new piece"):
        extend_vocabulary(encoder, [" "])
