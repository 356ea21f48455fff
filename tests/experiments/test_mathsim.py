"""The table of similarity by hand-made scores; the whole chain on a tiny folder of data."""

import dataclasses
import json
import lzma
import re
import sys

import numpy as np
import pytest

from experiments.mathsim import adapt, cross_validation, finetune, make_pairs, table
from experiments.report import table as markdown
from experiments.report.tables import reading_in_words
from mathsim_jax.datasets.math_text import german_pairs
from mathsim_jax.datasets.msc_pairs import write_pairs
from mathsim_jax.datasets.pairs import Pairs
from mathsim_jax.fine_tuning import fine_tune, score_pairs
from mathsim_jax.sentence_transformers_format import SentenceModules, write_modules
from retrieval_jax.errors import InputError
from tests.bert_folders import write_tiny_bert
from tests.mathsim_jax.toy_pairs import FILLERS, SUBJECTS, toy_pairs


def test_systems_are_compared_on_the_same_resamples():
    pairs = toy_pairs(per_subject=6)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(1, len(pairs)))
    good = pairs.labels + rng.normal(0, 0.2, (5, len(pairs)))
    results = table.compare({"untouched": noise, "fine-tuned": good}, pairs, resamples=100)
    assert results["systems"]["untouched"]["AP"]["sd"] == 0
    tuned = results["systems"]["fine-tuned"]
    assert tuned["Spearman"]["sd"] > 0
    low, high = tuned["Spearman"]["interval_95"]
    assert low < tuned["Spearman"]["mean"] < high
    assert [(row["first"], row["second"], row["measure"]) for row in results["differences"]] == [
        ("fine-tuned", "untouched", "Spearman"),
        ("fine-tuned", "untouched", "AP"),
    ]
    assert all(row["interval_95"][0] > 0 for row in results["differences"])

    record = {"data": "toy", "comparisons": {"all pairs": results}}
    lines = markdown(json.loads(json.dumps(record))).splitlines()
    assert lines[2].startswith(f"| all pairs: {pairs.summary} | Spearman | Pearson | AP |")
    assert f"| untouched | {results['systems']['untouched']['Spearman']['mean']:.3f} |" in lines[4]
    assert "| best accuracy |" in lines[2]
    assert lines[7].startswith("- fine-tuned - untouched: Spearman +")
    published = lines.index(
        "| published, on other data: 43,935 test pairs of zbMATH titles, not public | Spearman |"
    )
    assert lines[published + 2] == "| BERT + MLM + MP, fine-tuned | 0.609 |"
    assert lines[-1] == "| BERT + MP | 0.228 |"
    note = lines[published - 2]
    assert note.startswith("Best accuracy is at the threshold") and "upper bound" in note


def test_encoders_of_a_table_get_the_same_texts_whatever_their_folders_say(tmp_path):
    folders = {}
    for name, modules in {
        "plain": SentenceModules(),
        "short": SentenceModules(max_length=3, prompts={"q": "curve "}, default_prompt="q"),
        "cls": SentenceModules(pooling="cls"),
    }.items():
        config = write_tiny_bert(tmp_path / name, words=(*SUBJECTS, *FILLERS))
        write_modules(tmp_path / name, modules, config.hidden_size)
        folders[name] = [tmp_path / name]
    scores, readings = table.score_all(folders, toy_pairs(per_subject=4), 16)
    np.testing.assert_allclose(scores["short"], scores["plain"], atol=1e-6)
    assert np.abs(scores["cls"] - scores["plain"]).max() > 0.01
    assert readings["short"] == readings["plain"]
    words = reading_in_words(readings)
    assert words == (
        "All encoders alike: max length 16, prompt none, lower case false."
        " The encoders differ in pooling (plain: mean, short: mean, cls: cls)."
    )
    with pytest.raises(InputError, match="max_length is 65, the encoder has 64 positions"):
        table.score_all(folders, toy_pairs(per_subject=4), 65)
    assert words in markdown({"data": "toy", "reading": readings, "comparisons": {}})


def write_rows(path, rows):
    path.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def abstract_rows(pairs: Pairs, prefix: str):
    columns = (pairs.first, pairs.second, pairs.labels.tolist(), pairs.groups)
    return [
        {"seed": prefix + group, "anchor": first, "rec": second, "label": str(label)}
        for first, second, label, group in zip(*columns, strict=True)
    ]


def run(module, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, words)])
    module.main()


@pytest.mark.long
def test_adapt_finetune_and_table_in_a_row(tmp_path, monkeypatch, capsys):
    encoder, data = tmp_path / "bert", tmp_path / "data"
    data.mkdir()
    write_tiny_bert(encoder, words=(*SUBJECTS, *FILLERS))
    for index, split in enumerate(("train", "dev", "test")):
        rows = abstract_rows(toy_pairs(seed=index), split)
        write_rows(data / f"zbmath_abstract_pairs_{split}.jsonl.xz", rows)
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(toy_pairs(seed=9).texts))
    entries = [
        {"id": str(i), "title": f"{s} {i}", "abstract": f"about the {s}", "topic": ["Mathematics"]}
        for i, s in enumerate(SUBJECTS * 5)
    ]
    write_rows(data / "afp2020_titles.jsonl.xz", entries)
    codes = [
        {"code": f"{i}A{j}0", "parent": f"{i}Axx", "long_title": f"{s} {j}"}
        for i, s in enumerate(SUBJECTS)
        for j in range(4)
    ]
    write_rows(data / "msc2020_codes.jsonl.xz", codes)

    whole = ("--preset", "smoke", "--model.layers", "None")
    tiny = (*whole, "--folder", data)
    adapted, tuned, both = (tmp_path / name for name in ("adapted", "tuned", "both"))
    start = ("--model.encoder", encoder)
    run(adapt, monkeypatch, *whole, *start, "--run", adapted, "--texts", texts)
    seeds, folds = ("--seeds", 0, 1), ("--folds", 2, "--test-length", 32)
    run(finetune, monkeypatch, *tiny, *start, *seeds, *folds, "--run", tuned)
    choice = json.loads((tuned / "choice.json").read_text())
    assert set(choice["measures"]) == {"untouched", *finetune.CANDIDATES}
    assert choice["chosen"] in finetune.CANDIDATES
    folds = (*folds, "--run", tmp_path / "cv")
    run(cross_validation, monkeypatch, *tiny, *start, *folds)
    alone = json.loads((tmp_path / "cv" / "results.json").read_text())["measures"]
    assert alone["Spearman"] == pytest.approx(choice["measures"]["cosine"]["Spearman"], abs=1e-6)
    with pytest.raises(SystemExit):  # of other folds: another run
        run(cross_validation, monkeypatch, *tiny, *start, *folds, "--folds", 3)
    from_adapted = ("--model.encoder", adapted / "encoder", "--choice", tuned / "choice.json")
    run(finetune, monkeypatch, *tiny, *from_adapted, *seeds, "--run", both)
    assert json.loads((both / "choice.json").read_text())["chosen"] == choice["chosen"]

    results = tmp_path / "results.json"
    folders = ("--adapted", adapted / "encoder", "--finetuned", tuned, "--adapted-finetuned", both)
    run(
        table,
        monkeypatch,
        *("--untouched", encoder, *folders, "--folder", data),
        *("--results", results, "--resamples", 50, "--max-length", 64),
    )
    record = json.loads(results.read_text())
    assert record["seeds"] == [0, 1]
    assert set(record["configs"]) == {"adapted", "fine-tuned", "adapted and fine-tuned"}
    assert record["encoders"] == {
        "untouched": 1,
        "adapted": 1,
        "fine-tuned": 2,
        "adapted and fine-tuned": 2,
    }
    assert set(record["comparisons"]) == {"all pairs", "without German"}
    assert "published" not in record
    alike = {"max_length": 64, "prompt": None, "lower_case": False, "pooling": "mean"}
    assert record["reading"] == dict.fromkeys(record["encoders"], alike)
    assert "Spearman" in markdown(record)
    assert "chosen: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("way", "options", "named"),
    [
        (("--pairs", "p"), ("--seeds", 1, 2), "with --pairs: --seeds\nOne seed .* --training.seed"),
        (("--pairs", "p"), ("--folds", 2), "with --pairs: --folds\nIt is of the cross-valid"),
        (("--pairs", "p"), ("--choice", "c"), "with --pairs: --choice\n"),
        (("--pairs", "p"), ("--as-configured",), "with --pairs: --as-configured\n"),
        (("--pairs", "p"), ("--no-german",), "with --pairs: --no-german\\nPairs of your own"),
        (("--pairs", "p"), ("--folder", "f"), "without further pairs: --folder\nName some"),
        (("--as-configured",), ("--folds=2",), "with --as-configured: --folds\n"),
        (("--as-configured",), ("--test_length", 9), "with --as-configured: --test-length\n"),
        (("--as-configured",), ("--choice", "c"), "with --as-configured: --choice\nLeave one"),
        (("--as-configured",), ("--training.seed", 1), "training.seed\nGive --seeds"),
        (("--as-configured",), ("--training.patience", 1), "patience\nThere are no dev pairs"),
        (("--as-configured",), ("--temperature", 1), "objective 'cosine': --temperature\n"),
        (("--as-configured",), ("--extra-limit", 1), "without further pairs: --extra-limit\n"),
        ((), ("--objective", "cosine"), "where it is chosen: --objective\nAdd --as-configured"),
        ((), ("--extra",), "where it is chosen: --extra\nAdd --as-configured"),
        ((), ("--training.evaluate-every", 2), "where it is chosen: --training.evaluate-every"),
        (("--choice", "CHOICE"), ("--objective", "cosine", "--extra"), "--objective, --extra\nThe"),
        (("--choice", "CHOICE"), ("--folds", 2), "with --choice: --folds\n"),
        (("--choice", "CHOICE"), ("--test-length", 9), "with --choice: --test-length\n"),
        (("--choice", "CHOICE"), ("--training.seed", 1), "training.seed\nGive --seeds"),
        (("--choice", "CHOICE"), ("--temperature", 1), "objective 'cosine': --temperature\n"),
    ],
)
def test_options_without_effect_are_refused(way, options, named, tmp_path, monkeypatch, capsys):
    choice = tmp_path / "choice.json"
    choice.write_text('{"chosen": "cosine", "fields": {"objective": "cosine", "extra": []}}')
    words = [choice if word == "CHOICE" else word for word in (*way, *options)]
    with pytest.raises(SystemExit, match="2"):
        run(finetune, monkeypatch, "--run", tmp_path / "run", *words)
    assert re.search(f"error: no effect .*{named}", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("way", "options"),
    [
        (
            ("--pairs", "p"),
            ("--objective", "contrastive", "--temperature", 1, "--training.seed", 1),
        ),
        (("--pairs", "p"), ("--extra", "afp", "--extra-limit", 3, "--folder", "f")),
        (("--as-configured",), ("--objective", "cosine", "--seeds", 1)),
        (("--choice", "CHOICE"), ("--seeds", 1)),
        ((), ("--temperature", 1, "--extra-limit", 3, "--folds", 2, "--training.seed", 1)),
    ],
)
def test_options_with_effect_are_taken(way, options, tmp_path, monkeypatch, capsys):
    choice = tmp_path / "choice.json"
    choice.write_text('{"chosen": "cosine", "fields": {"objective": "cosine", "extra": []}}')
    words = [choice if word == "CHOICE" else word for word in (*way, *options)]
    monkeypatch.delenv("RETRIEVAL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):  # at the pairs, which are not there
        run(finetune, monkeypatch, "--run", tmp_path / "run", *words)
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "no effect" not in error


@pytest.mark.parametrize(
    ("module", "words", "named"),
    [
        (adapt, ("--texts", "a.txt", "--folder", "f"), "--folder has no effect with --texts"),
        (adapt, ("--field", "x"), "--field has no effect without --texts"),
        (make_pairs, ("--pair-list", "l", "--limit", 3), "--limit has no effect with --pair-list"),
        (make_pairs, ("--list-columns", "a", "b", "c"), "no effect without --pair-list"),
    ],
)
def test_adapt_and_make_pairs_refuse_options_without_effect(
    module, words, named, monkeypatch, capsys
):
    needed = ("--titles", "t.csv", "--output", "o") if module is make_pairs else ()
    with pytest.raises(SystemExit, match="2"):
        run(module, monkeypatch, *needed, *words)
    assert named in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_german_pairs_of_the_users_are_kept_in_every_split(tmp_path, monkeypatch):
    german = "In der Arbeit wird das Problem mit der Methode von Hilbert und auch nicht so gelöst"
    write_tiny_bert(tmp_path / "bert", words=(*SUBJECTS, *FILLERS))
    pairs = toy_pairs(per_subject=4)
    second = (german, *pairs.second[1:])
    pairs = dataclasses.replace(pairs, second=second)
    assert german_pairs(pairs).tolist() == [True] + [False] * (len(pairs) - 1)
    splits = dict.fromkeys(("train", "dev", "test"), pairs)
    write_pairs(tmp_path / "pairs", splits)
    seen = {}

    def recorded(config, chosen, dev, path):
        seen.update(train=chosen.second, dev=dev.second)
        return fine_tune(config, chosen, dev, path)

    def scored(config, encoder, tested, length):
        seen.update(test=tested.second)
        return score_pairs(config, encoder, tested, length)

    monkeypatch.setattr(finetune, "fine_tune", recorded)
    monkeypatch.setattr(finetune, "score_pairs", scored)
    options = ("--preset", "smoke", "--model.layers", "None", "--model.encoder", tmp_path / "bert")
    words = ("--pairs", tmp_path / "pairs", "--run", tmp_path / "run", "--test-length", 32)
    run(finetune, monkeypatch, *options, *words)
    assert seen == dict.fromkeys(("train", "dev", "test"), second)
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert config["german"] is True


def test_pairs_are_made_of_a_table(tmp_path, monkeypatch, capsys):
    rows = [f"{i},title {i},1{i % 3}A10 2{i % 2}B20" for i in range(30)]
    (tmp_path / "titles.csv").write_text("id,title,msc\n" + "\n".join(rows) + "\n")
    run(make_pairs, monkeypatch, "--titles", tmp_path / "titles.csv", "--output", tmp_path / "out")
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["made"]["positives"] == 60  # 6 classes of 5
    assert sum(split["pairs"] for split in card["splits"].values()) == 120
    assert "train: 96 pairs" in capsys.readouterr().out


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"experiments\.mathsim\.adapt"):
        table.encoder_folders(table.Command(adapted=tmp_path / "absent"))
    with pytest.raises(InputError, match="seed_0/encoder"):
        table.encoder_folders(table.Command(adapted=tmp_path, finetuned=tmp_path))
    with pytest.raises(InputError, match="no such file"):
        finetune.read_choice(tmp_path / "choice.json")
    (tmp_path / "choice.json").write_text('{"fields": 3}')
    with pytest.raises(InputError, match="holds no choice"):
        finetune.read_choice(tmp_path / "choice.json")
    (tmp_path / "choice.json").write_text('{"fields": {"objective": "cosine", "extra": []}}')
    with pytest.raises(InputError, match=r"holds no choice: KeyError.'chosen'"):
        finetune.read_choice(tmp_path / "choice.json")
