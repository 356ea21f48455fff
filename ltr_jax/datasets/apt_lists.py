"""What apt knows of a Debian or Ubuntu release: packages, their translations, AppStream categories.

Apt keeps these indexes in a folder of its own; `fetch_lists` fills another one, any release, any
languages, without touching the system's.
"""

import dataclasses
import logging
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from retrieval_jax.errors import InputError
from retrieval_jax.text_files import read_lines, split_lines

LINK_FIELDS = ("Pre-Depends", "Depends", "Recommends", "Suggests", "Enhances")
_FIELDS = frozenset(
    ("Package", "Source", "Section", "Tag", "Description", "Description-md5", *LINK_FIELDS)
)
_SUFFIXES = r"(?:\.(?:gz|xz|lz4|bz2|zst|lzma))?"
_APT_HELPER = Path("/usr/lib/apt/apt-helper")
_CHUNK = 1 << 16
_SHOWN = 500
_REMEDY = (
    "Fill a folder on a Debian or Ubuntu machine by `python -m ltr_jax fetch FOLDER --languages "
    "de`, which needs no root."
)
# DEP-11 is no kind of index that apt fetches unless it is told what it is.
_DEP11 = {
    "MetaKey": "$(COMPONENT)/dep11/Components-$(NATIVE_ARCHITECTURE).yml",
    "ShortDescription": "DEP-11",
    "Description": "AppStream metadata",
    "DefaultEnabled": "true",
}
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Package:
    """A binary package.

    Attributes:
        name: of the package.
        source: name of the source package that it is built from.
        section: such as "games"; of component main if it has no slash.
        tags: debtags, such as "use::editing".
        links: names of the packages it refers to, by any of `LINK_FIELDS`.
        short: English, one line.
        md5: of the English description; translations are known by it.
    """

    name: str
    source: str
    section: str
    tags: tuple[str, ...]
    links: tuple[str, ...]
    short: str
    md5: str


@dataclasses.dataclass(frozen=True)
class Description:
    """A description in one language.

    Attributes:
        short: one line.
        long: paragraphs, one a line.
    """

    short: str
    long: str


def fetch_lists(folder: Path, languages: Sequence[str], apt_options: Sequence[str] = ()) -> None:
    """Downloads the indexes of the releases that this machine's apt is set to, by apt itself.

    A source that cannot be reached is logged, if the others have what was asked for.

    Args:
        folder: to fill; made if absent.
        languages: of translations, such as ("de", "fr"); English comes too.
        apt_options: further ones of apt-get, such as ("-o", "Dir::Etc::SourceList=FILE") for
            another release.

    Raises:
        InputError: there is no apt, or packages or descriptions in a language did not come.
    """
    for language in languages:
        if not re.fullmatch(r"[A-Za-z_@]+", language):
            raise InputError(f"{language!r} is no language.", 'Give names such as "de" or "pt_BR".')
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State::lists": str(folder.resolve()),
        "Acquire::GzipIndexes": "false",
        "Acquire::Languages": ",".join(dict.fromkeys(["en", *languages, "none"])),
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
        **{f"Acquire::IndexTargets::deb::DEP-11::{key}": value for key, value in _DEP11.items()},
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    try:
        result = subprocess.run(
            ["apt-get", "update", *words, *apt_options], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise InputError("apt-get cannot be run.", "Use a Debian or Ubuntu machine.") from error
    said = result.stderr.strip()[-_SHOWN:]
    # Not by its exit status: it is 0 where no source was reached, 100 where a needless one fails.
    missing = [] if is_lists_folder(folder) else ["packages"]
    wanted = dict.fromkeys(["en", *languages])
    missing += [f"descriptions in {of!r}" for of in wanted if not _translation_files(folder, of)]
    if missing:
        raise InputError(
            f"apt-get update fetched no {', '.join(missing)}. It said: {said or 'nothing'}",
            "Check the network, apt's sources, and whether the release has these languages.",
        )
    if said:
        _log.warning("apt-get update: %s", said)


def is_lists_folder(folder: Path) -> bool:
    """Whether a folder holds apt's indexes."""
    return bool(index_files(folder, "Packages"))


def index_files(folder: Path, kind: str) -> list[Path]:
    """The indexes of one kind in apt's folder.

    Args:
        folder: of apt's lists.
        kind: "Packages", "i18n_Translation-XX" or "dep11_Components-.*\\.yml".
    """
    name = re.compile(rf".*_{kind}{_SUFFIXES}")
    return sorted(path for path in folder.glob("*_*") if name.fullmatch(path.name))


def read_packages(folder: Path) -> dict[str, Package]:
    """Reads all packages; of one that several releases have, the first file's.

    Raises:
        InputError: no such index, or one that cannot be read.
    """
    files = index_files(folder, "Packages")
    if not files:
        raise InputError(f"{folder} holds no index of packages (*_Packages).", _REMEDY)
    packages: dict[str, Package] = {}
    for path in files:
        for fields in _stanzas(path, _FIELDS):
            package = _package(fields)
            if package is not None:
                packages.setdefault(package.name, package)
    return packages


def read_translations(folder: Path, language: str) -> dict[tuple[str, str], Description]:
    """Reads descriptions in one language: (package, MD5 of the English one) -> description.

    Unfinished translations (with the mark `<trans>`) are left out.

    Raises:
        InputError: no index of the language; says which there are.
    """
    files = _translation_files(folder, language)
    if not files:
        there = {
            match[1].replace("%5f", "_")
            for path in index_files(folder, "i18n_Translation-.*")
            if (match := re.match(r".*Translation-([A-Za-z@]+(?:%5f[A-Za-z]+)?)", path.name))
        }
        raise InputError(
            f"{folder} holds no descriptions in {language!r}, only in {', '.join(sorted(there))}.",
            _REMEDY,
        )
    field = f"Description-{language}"
    descriptions: dict[tuple[str, str], Description] = {}
    for path in files:
        for fields in _stanzas(path, frozenset(("Package", "Description-md5", field))):
            text = fields.get(field, "")
            if text.strip() and "<trans>" not in text:
                key = fields.get("Package", ""), fields.get("Description-md5", "")
                descriptions.setdefault(key, _description(text))
    return descriptions


def _translation_files(folder: Path, language: str) -> list[Path]:
    # Apt writes the underscore of pt_BR so, since it parts names of files by underscores.
    escaped = re.escape(language.replace("_", "%5f"))
    return index_files(folder, f"i18n_Translation-{escaped}")


def read_app_categories(folder: Path) -> dict[str, tuple[str, ...]]:
    """Reads AppStream's categories by package; empty without such indexes.

    The files are YAML in one fixed layout, of which two lists of names are wanted: they are read
    line by line, a hundred times faster than by a YAML parser.
    """
    categories: dict[str, dict[str, None]] = {}
    for path in index_files(folder, r"dep11_Components-.*\.yml"):
        package, in_list = "", False
        for _, line in _index_lines(path):
            if line.startswith("---"):
                package, in_list = "", False
            elif line.startswith("Package: "):
                package = line.removeprefix("Package: ").strip()
            elif line.startswith("- ") and in_list:
                name = line.removeprefix("- ").strip().strip("'\"")
                categories.setdefault(package, {})[name] = None
            else:
                in_list = line.rstrip() == "Categories:" and bool(package)
    return {package: tuple(names) for package, names in categories.items()}


def _index_lines(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix in (".lz4", ".bz2", ".zst", ".lzma"):
        return split_lines(_unpacked_by_apt(path), path, Counter())
    return read_lines(path, Counter())


def _unpacked_by_apt(path: Path) -> Iterator[bytes]:
    if not _APT_HELPER.is_file():
        raise InputError(
            f"{path} is packed as {path.suffix[1:]}, and there is no {_APT_HELPER} to unpack it.",
            "Unpack it, or read it on a Debian or Ubuntu machine.",
        )
    command = [str(_APT_HELPER), "cat-file", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while chunk := process.stdout.read(_CHUNK):
            yield chunk
    if process.returncode:
        raise InputError(f"{path} cannot be unpacked.", "Fetch it again.")


def _stanzas(path: Path, wanted: frozenset[str]) -> Iterator[dict[str, str]]:
    """The paragraphs of a control file; lines of a folded field are joined by line ends."""
    fields: dict[str, list[str]] = {}
    current: list[str] | None = None
    for _, line in _index_lines(path):
        if line.startswith((" ", "\t")):
            if current is not None:
                current.append(line)
        elif line.strip():
            name, _, value = line.partition(":")
            current = fields.setdefault(name, [value.strip()]) if name in wanted else None
        else:
            if fields:
                yield {name: "\n".join(lines) for name, lines in fields.items()}
            fields, current = {}, None
    if fields:
        yield {name: "\n".join(lines) for name, lines in fields.items()}


def _package(fields: dict[str, str]) -> Package | None:
    name = fields.get("Package")
    if not name or "Description-md5" not in fields:
        return None
    links = (link for field in LINK_FIELDS for link in _names(fields.get(field, "")))
    return Package(
        name=name,
        source=fields.get("Source", name).split()[0],
        section=fields.get("Section", ""),
        tags=tuple(_tags(fields.get("Tag", ""))),
        links=tuple(dict.fromkeys(links)),
        short=fields.get("Description", "").split("\n")[0],
        md5=fields["Description-md5"],
    )


def _names(relation: str) -> Iterable[str]:
    """Package names of `a (>= 1) | b [amd64], c:any`."""
    for alternative in re.split(r"[,|]", relation):
        words = alternative.split()
        if words:
            yield words[0].split("(")[0].split(":")[0]


def _tags(text: str) -> Iterable[str]:
    """The tags of `a::b, c::{d,e}`."""
    for head, braced, plain in re.findall(r"([\w:+.-]+::)\{([^}]*)\}|([\w:+.-]+)", text):
        if plain:
            yield plain
        else:
            yield from (f"{head}{value.strip()}" for value in braced.split(","))


def _description(text: str) -> Description:
    """Paragraphs end at ` .`; lines of more than one blank are verbatim or of lists."""
    short, *lines = text.split("\n")
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == ".":
            paragraphs.append([])
        else:
            paragraphs[-1].append(line.strip())
    return Description(short.strip(), "\n".join(" ".join(p) for p in paragraphs if p))
