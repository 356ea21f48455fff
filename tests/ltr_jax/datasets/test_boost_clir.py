import gzip
import zipfile
from collections import Counter

import pytest

from ltr_jax.datasets.boost_clir import PatentOptions, read_boost_clir
from ltr_jax.datasets.marec import ipc_code, ipc_edges, patent_key, read_ipc_codes
from retrieval_jax.errors import InputError


def patent(ucid, *codes, head=""):
    elements = "".join(f"<classification-ipcr>{code}</classification-ipcr>" for code in codes)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{head}<patent-document ucid="{ucid}">'
        f"<bibliographic-data><technical-data><classifications-ipcr>{elements}"
        f"</classifications-ipcr></technical-data></bibliographic-data></patent-document>"
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("A01B   1/02        20060101AFI20051008RMEP", "A01B1/02"),
        ("H04L0012/5600", "H04L12/5600"),
        ("G06F 17/30", "G06F17/30"),
        ("C07D", "C07D"),
        ("C07B 47:00", "C07B47/00"),
        ("7", None),
        ("", None),
    ],
)
def test_codes(text, code) -> None:
    assert ipc_code(text) == code


def test_patent_numbers() -> None:
    assert patent_key("JP-2001012345-A") == patent_key("JP2001012345") == "JP2001012345"
    assert patent_key("US-0012345-B1") == patent_key("us_12345") == "US12345"
    assert patent_key("odd id") == "odd id"


def test_the_hierarchy_of_codes() -> None:
    assert ipc_edges(["A01B1/02", "A01B1/00", "A01C"]) == (
        ("A01", "A"),
        ("A01B", "A01"),
        ("A01B1/00", "A01B"),
        ("A01B1/02", "A01B1/00"),
        ("A01C", "A01"),
    )


def write_marec(folder):
    folder.mkdir()
    (folder / "deep").mkdir()
    old = (
        '<patent-document ucid="EP-0000002-A1"><classification-ipc><main-classification>B60K'
        "</main-classification><further-classification>B60L  1/00</further-classification>"
        "</classification-ipc></patent-document>"
    )
    (folder / "deep" / "one.xml").write_text(patent("EP-0000001-A1", "A01B   1/02", "A01C 3/00"))
    (folder / "two.xml.gz").write_bytes(gzip.compress(old.encode()))
    with zipfile.ZipFile(folder / "more.zip", "w") as archive:
        archive.writestr("a/1.xml", patent("JP-2001000007-A", "A01B 1/02"))
        archive.writestr("a/2.xml", patent("EP-0000001-B1", "A01B 9/00"))
        archive.writestr("a/note.txt", "no patent")
    (folder / "broken.xml").write_text("<patent-document ucid='EP-3-A1'><x>")
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa">]>'
    (folder / "bomb.xml").write_text(patent("EP-0000004-A1", "&a;", head=bomb))
    (folder / "broken.zip").write_bytes(b"PK no zip")


def test_codes_of_patents(tmp_path, caplog) -> None:
    write_marec(tmp_path / "marec")
    counts = Counter()
    wanted = {"EP1", "EP2", "EP3", "EP4"}
    assert read_ipc_codes(tmp_path / "marec", wanted, counts) == {
        "EP1": ("A01B1/02", "A01B9/00", "A01C3/00"),
        "EP2": ("B60K", "B60L1/00"),
    }
    assert counts == {"patent files": 4, "patent files that cannot be read, left out": 3}
    assert "declares entities" in caplog.text


def test_damaged_and_unreadable_files_are_left_out(tmp_path, caplog) -> None:
    folder = tmp_path / "marec"
    write_marec(folder)
    packed = gzip.compress(patent("EP-0000003-A1", "A01B").encode())
    (folder / "cut.xml.gz").write_bytes(packed[:-20])
    (folder / "overwritten.xml.gz").write_bytes(packed[:10] + b"\xff" * 50)
    with zipfile.ZipFile(folder / "members.zip", "w") as archive:
        for number in range(1, 4):
            archive.writestr(f"{number}.xml", patent(f"EP-000000{number}-A1", "H04L"))
        encrypted, unknown, _ = archive.infolist()
        encrypted.flag_bits |= 1
        unknown.compress_type = 9
    with zipfile.ZipFile(folder / "overwritten.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.xml", patent("EP-0000003-A1", "A01B"))
    content = bytearray((folder / "overwritten.zip").read_bytes())
    start = 30 + len("1.xml")
    content[start : start + 20] = b"\xff" * 20
    (folder / "overwritten.zip").write_bytes(content)
    counts = Counter()
    codes = read_ipc_codes(folder, {"EP1", "EP2", "EP3"}, counts)
    assert codes == {
        "EP1": ("A01B1/02", "A01B9/00", "A01C3/00"),
        "EP2": ("B60K", "B60L1/00"),
        "EP3": ("H04L",),
    }
    assert counts == {"patent files": 5, "patent files that cannot be read, left out": 8}
    assert "members.zip:1.xml is left out: File '1.xml' is encrypted" in caplog.text
    assert "members.zip:2.xml is left out: That compression method" in caplog.text
    assert "invalid block type" in caplog.text


def write_corpus(folder):
    qrels = {
        "train": "JP-2001000007-A\tEP-0000001-A1\t3\nJP-2001000007-A\tEP-0000002-A1\t1\n",
        "dev": "JP-2\tEP-5\t2\nJP-2\tEP-6\t3\nJP-9\tEP-5\t1\n",
        "test": "JP-3\tEP-8\t3\nJP-3\tEP-8\t2\nJP-3\tEP-404\t1\n",
    }
    documents = {
        "train": "EP-0000001-A1\ta plough\nEP-0000002-A1\ta car\n",
        "dev": "EP-5\tfive\nEP-6\tsix\n",
        "test": "EP-8\teight\nEP-10\tten\nEP-11\n",
    }
    for split, lines in qrels.items():
        (folder / f"{split}.qrels").write_text(lines)
        (folder / f"{split}.docs").write_text(documents[split])
        ids = dict.fromkeys(line.split("\t")[0] for line in lines.splitlines())
        (folder / f"{split}.queries").write_text("".join(f"{i}\n" for i in ids))
    abstracts = "JP-2001000007-A\tすき\nJP-2\t二\nJP-3\t三\n"
    (folder / "japanese_abstracts.tsv").write_text(abstracts, encoding="utf-8")


def test_the_corpus(tmp_path) -> None:
    write_corpus(tmp_path)
    write_marec(tmp_path / "marec")
    collection = read_boost_clir(tmp_path, PatentOptions(irrelevant=5))
    assert collection.name == "boostclir ja-en"
    assert collection.queries.ids == ("JP-2", "JP-2001000007-A", "JP-3")
    assert collection.queries.texts == ("二", "すき", "三")
    train, dev, test = (collection.splits[split] for split in ("train", "dev", "test"))
    assert train.qrels == {"JP-2001000007-A": {"EP-0000001-A1": 2, "EP-0000002-A1": 1}}
    assert dev.qrels == {"JP-2": {"EP-5": 1, "EP-6": 2}}  # JP-9 has no text
    assert test.qrels == {"JP-3": {"EP-8": 2}}
    assert sorted(test.irrelevant["JP-3"]) == ["EP-10", "EP-11"]
    assert collection.card["dev queries without a text, left out"] == 1
    categories = dict(zip(collection.documents.ids, collection.documents.categories, strict=True))
    assert categories["EP-0000002-A1"] == ("B60K", "B60L1/00")
    assert categories["EP-5"] == ()
    assert collection.queries.categories[1] == ("A01B1/02",)
    assert ("A01B1/02", "A01B1/00") in collection.category_edges


def test_a_corpus_that_is_not_complete(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no \*train\*\.queries(.|\n)*Fetch BoostCLIR"):
        read_boost_clir(tmp_path)
    write_corpus(tmp_path)
    (tmp_path / "japanese_abstracts.tsv").unlink()
    with pytest.raises(InputError, match=r"no query has a text(.|\n)*japanese_abstracts"):
        read_boost_clir(tmp_path)


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("dev.qrels", "JP-2\tEP-5\t0", r"dev\.qrels, line 4: not a judgement"),
        ("dev.qrels", "JP-2\tEP-5", r"dev\.qrels, line 4: not a judgement"),
        ("dev.docs", "EP-5\ta\tb", r"dev\.docs, line 3: 3 fields"),
    ],
)
def test_malformed_lines(tmp_path, name, line, problem) -> None:
    write_corpus(tmp_path)
    with (tmp_path / name).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=problem):
        read_boost_clir(tmp_path)
