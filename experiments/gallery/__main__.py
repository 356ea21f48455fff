"""A page for people who look: answers to real requests, nearest entities, formulas, maps.

COMMAND   python -m experiments.gallery --docent runs/films_dual --near "Toy Story" "Alien"
          python -m experiments.gallery --gcl runs/gcl --collection enwiki_formulas.tsv.xz
TIME      about a minute
HARDWARE  1 CPU core
SCORE     gallery.html, map_entities.png and map_formulas.png in --output

Requests are the first dev queries of the run's data, so that nothing is chosen by its answers.
"""

import dataclasses
from pathlib import Path

import tyro

import docent_jax
import gcl_jax
from docent_jax.datasets.load import load_documents
from experiments.docent.figures import dev_requests
from experiments.gallery.entities import answer, answer_blocks, chosen_entities, nearest_table
from experiments.gallery.formulas import QUERIES, root_groups, sample_formulas, search_blocks
from experiments.gallery.maps import Method, evenly_spaced, group_largest, groups_of, map_figure
from experiments.report.blocks import Block
from experiments.report.page import document, section
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.logs import quiet_libraries


@dataclasses.dataclass(frozen=True)
class Command:
    """What to show.

    Attributes:
        docent: run folder of a DocEnt model.
        gcl: run folder of an encoder of formulas.
        collection: file of formulas that are searched, as `python -m gcl_jax parse` reads it.
        formulas: so many of them, drawn at random.
        queries: requests to show, from the data of the run.
        ask: requests of your own, instead.
        query_formulas: LaTeX to search for.
        near: words in the names of entities whose neighbours are shown.
        method: of the maps.
        points: of a map, at most.
        data_dir: where prepared data are kept.
        output: folder to write.
    """

    docent: Path | None = None
    gcl: Path | None = None
    collection: Path | None = None
    formulas: int = 5000
    queries: int = 12
    ask: tuple[str, ...] = ()
    query_formulas: tuple[str, ...] = QUERIES
    near: tuple[str, ...] = ()
    method: Method = "tsne"
    points: int = 2000
    data_dir: Path = Path("data")
    output: Path = Path("runs/gallery")


def entity_section(command: Command, run: Path) -> str:
    """Answers, neighbours and the map of a DocEnt run."""
    ranker = docent_jax.load(run)
    if command.ask:
        asked = [(text, frozenset[str]()) for text in command.ask]
        about = "Requests of our own"
    else:
        corpus = load_documents(ranker.config.data, command.data_dir)
        asked = dev_requests(corpus, command.queries)
        about = f"The first {len(asked)} dev requests"
    names = chosen_entities(ranker, command.near, command.queries)
    rows = evenly_spaced(len(ranker.entities), command.points)
    shown = [ranker.entities[row] for row in rows]
    figure = map_figure(
        ranker.entity_vectors[rows],
        shown,
        groups_of(shown),
        command.output / "map_entities.png",
        f"{len(shown):,} entities of {run.name}",
        command.method,
    )
    blocks: list[Block] = [
        *answer_blocks(answer(ranker, asked), about),
        nearest_table(ranker, names),
        figure,
    ]
    return section("entities", f"Entities: {run.name}", blocks)


def formula_section(command: Command, run: Path, collection: Path) -> str:
    """Searches and the map of an encoder of formulas."""
    searcher = gcl_jax.load(run)
    texts = sample_formulas(collection, command.data_dir, command.formulas)
    documents = searcher.encode_documents(texts)
    rows = evenly_spaced(len(texts), command.points)
    shown = [texts[row] for row in rows]
    figure = map_figure(
        documents[rows],
        shown,
        group_largest(root_groups(shown)),
        command.output / "map_formulas.png",
        f"{len(shown):,} formulas, by the operator at their root",
        command.method,
        labelled=12,
    )
    found = search_blocks(searcher, command.query_formulas, texts, documents)
    return section("formulas", f"Formulas: {run.name}", [*found, figure])


@one_screen_errors
def main() -> None:
    """Writes the page and the maps."""
    command = tyro.cli(Command, prog="python -m experiments.gallery", description=__doc__)
    quiet_libraries()
    command.output.mkdir(parents=True, exist_ok=True)
    sections = []
    if command.docent is not None:
        sections.append(entity_section(command, command.docent))
    if command.gcl is not None:
        if command.collection is None:
            raise InputError("no formulas to search", "Give a file after --collection.")
        sections.append(formula_section(command, command.gcl, command.collection))
    if not sections:
        raise InputError("nothing to show", "Give run folders after --docent or --gcl.")
    path = command.output / "gallery.html"
    path.write_text(document("Retrieval with structure: gallery", sections), encoding="utf-8")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
