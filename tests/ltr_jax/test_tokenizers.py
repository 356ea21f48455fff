# ruff: noqa: RUF001 (letters that look alike are what is tested)
import builtins

import pytest

from ltr_jax import tokenizers
from ltr_jax.tokenizers import latin_compounds, latin_words, split_words, tokenize, tokenizer
from retrieval_jax.errors import InputError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Echtzeit-Strategiespiel (RTS), C++!", ["echtzeit", "strategiespiel", "rts", "c"]),
        ("l'œuvre d’été: 3,5 %", ["l", "œuvre", "d", "été", "3", "5"]),
        ("snake_case", ["snake", "case"]),
        ("ﬁle Ｆｕｌｌ", ["file", "full"]),
        ("Привет, ΚΌΣΜΟΣ", ["привет", "κόσμος"]),
        ("ё̈x", ["ё̈x"]),
        ("... — !?", []),
        ("", []),
    ],
)  # fmt: skip
def test_words(text, words) -> None:
    assert split_words(text) == words


def test_composed_and_decomposed_accents_are_the_same_word() -> None:
    assert split_words("u\u0308ber") == split_words("über") == ["über"]


def test_dotted_capital_i_stays_in_its_word() -> None:
    assert len(split_words("İstanbul")) == 1


def test_latin_words() -> None:
    assert latin_words("GTK+ アプリ für X11-Server") == ["gtk", "f", "r", "x11", "server"]
    assert latin_compounds("GTK+ アプリ X11-Server - x") == ["gtk", "x11-server", "x"]


def test_a_language_without_tokenizer() -> None:
    with pytest.raises(InputError, match=r"'zz'(.|\n)*de.*fr.*ja"):
        tokenizer("zz")


def test_all_texts() -> None:
    assert tokenize(["A b", "", "C"], "de") == [["a", "b"], [], ["c"]]


def test_japanese() -> None:
    pytest.importorskip("sudachipy")
    pytest.importorskip("sudachidict_core")
    words = tokenize(["古代戦争のゲーム（ＲＴＳ）です。「KDE」用。", "、。！"], "ja")
    assert words == [["古代", "戦争", "の", "ゲーム", "rts", "です", "kde", "用"], []]


def test_a_japanese_word_that_was_wrapped_is_one_word() -> None:
    pytest.importorskip("sudachipy")
    pytest.importorskip("sudachidict_core")
    assert tokenize(["同\n じ解\n析"], "ja") == tokenize(["同じ解析"], "ja")
    assert tokenize(["GNU ゲーム set"], "ja") == [["gnu", "ゲーム", "set"]]


def test_long_japanese_text() -> None:
    pytest.importorskip("sudachipy")
    pytest.importorskip("sudachidict_core")
    # More bytes than SudachiPy takes at a time.
    assert tokenize(["ゲーム。" * 6000], "ja") == [["ゲーム"] * 6000]


def test_japanese_without_its_package(monkeypatch) -> None:
    imports = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "sudachipy":
            raise ImportError(name)
        return imports(name, *args, **kwargs)

    tokenizers._japanese_tokenizer.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"retrieval-jax\[ltr\]"):
        tokenizer("ja")
    tokenizers._japanese_tokenizer.cache_clear()
