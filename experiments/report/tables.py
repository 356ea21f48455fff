"""Tables of results files, by what they hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from experiments.gcl.names import AUGMENTATION_NAMES
from experiments.records import mean_and_sd
from experiments.report.blocks import Block, Notes, Table
from experiments.report.published import read_papers

Results = Mapping[str, Any]
BASELINES = "gcl formula retrieval baselines"
TAG_MEASURES = ("MAP", "AUC", "P@10", "NDCG@10")
LEVEL = 0.05
BEST_ACCURACY = (
    "Best accuracy is at the threshold that is best for the very pairs that are measured: an upper"
    " bound."
)


def result_blocks(results: Results) -> list[Block]:
    """The tables of a results file, and its tests."""
    kinds: Sequence[tuple[str, Callable[[Results], list[Block]]]] = (
        ("equal_edges", conversion_blocks),
        ("comparisons", similarity_blocks),
        ("means", heat_map_blocks),
        ("axes", sweep_blocks),
        ("closed", tag_blocks),
    )
    for key, blocks in kinds:
        if key in results:
            return blocks(results)
    is_ranking = _split(results) in next(iter(results["systems"].values()))
    return ranking_blocks(results) if is_ranking else formula_blocks(results)


def _split(results: Results) -> str:
    return results.get("split", "test")


def ranking_blocks(results: Results) -> list[Block]:
    """Systems by measures on one split, and the tests."""
    split, systems = _split(results), results["systems"]
    measures = list(next(iter(systems.values()))[split])
    rows = [
        [name, *(mean_and_sd(system[split][measure]) for measure in measures)]
        for name, system in systems.items()
    ]
    source = results.get("queries", "all")
    asked = f"{split} queries" if source == "all" else f"{split} queries of {source}"
    intro = f"{results['data']}; {asked}, {seeds_in_words(results)}"
    return [intro, Table(["system", *measures], rows), *test_blocks(results["significance"])]


def test_blocks(rows: Sequence[Results]) -> list[Block]:
    """Tests of one measure as sentences, of several as a table."""
    if not rows:
        return []
    measures = list(dict.fromkeys(map(_measure, rows)))
    if len(measures) == 1:
        return [Notes([difference(row) for row in rows])]
    pairs: dict[str, dict[str, str]] = {}
    for row in rows:
        star = " *" if row["p_holm"] < LEVEL else ""
        name = f"{row['first']} - {row['second']}"
        pairs.setdefault(name, {})[_measure(row)] = f"{row['difference']:+.3f}{star}"
    cells = [[name, *(of.get(measure, "") for measure in measures)] for name, of in pairs.items()]
    return [
        Table(["difference", *measures], cells),
        f"With a star: p < {LEVEL} by a paired randomisation test, Holm-corrected.",
    ]


def _measure(row: Results) -> str:
    """The measure of a test, and the layout and the topics that it is over where they are named."""
    more = (row[name] for name in ("layout", "topics") if name in row)
    return ", ".join([row["measure"], *more])


def difference(row: Results) -> str:
    """A row of tests as a sentence."""
    low, high = row["interval_95"]
    holm = f", p = {row['p_holm']:.4f} after Holm" if "p_holm" in row else ""
    return (
        f"{row['first']} - {row['second']}: {row['measure']} {row['difference']:+.3f}"
        f" (95 % interval {low:+.3f} to {high:+.3f}{holm})"
    )


def formula_blocks(results: Results) -> list[Block]:
    """Formula retrieval: systems by pools and kinds of topics, partial/full bpref."""
    systems = results["systems"]
    pools = next(iter(systems.values()))
    columns = [(pool, topics) for pool, of_pool in pools.items() for topics in of_pool]
    rows = []
    for name, system in systems.items():
        cells = (system[pool][topics] for pool, topics in columns)
        rows.append([name, *(_both(cell) for cell in cells)])
    table = Table(["system", *(", ".join(column) for column in columns)], rows)
    # Of the baselines it would be as long as the table; the page shows it.
    shown = results.get("experiment") != BASELINES
    tests = test_blocks(results.get("significance", [])) if shown else []
    intro = f"{results['data']}; bpref, partial/full, by pool and topics"
    if number_of_seeds(results) > 1:
        intro += f"; mean and standard deviation of {seeds_in_words(results)}"
    return [intro, table, *tests]


def _both(cell: Results) -> str:
    return f"{mean_and_sd(cell['partial'])}/{mean_and_sd(cell['full'])}"


def heat_map_blocks(results: Results) -> list[Block]:
    """Augmentation by batch size, a table a layout, partial/full bpref of all topics; the tests."""
    blocks: list[Block] = [
        f"bpref partial/full over all 20 topics, pool of all judged formulas; mean and standard"
        f" deviation of {seeds_in_words(results)}"
    ]
    for layout, augmentations in results["means"].items():
        sizes = list(next(iter(augmentations.values())))
        rows = [
            [readable(name), *(_both(of[size]["all"]) for size in sizes)]
            for name, of in augmentations.items()
        ]
        header = [f"{layout.upper()}: augmentation", *(f"batch {size}" for size in sizes)]
        blocks.append(Table(header, rows))
    # What is tested at the best sizes stands among the rest, or in the verdicts.
    rows = [
        {**row, "first": readable(row["first"]), "second": readable(row["second"])}
        for row in results.get("significance", [])
        if row["at"] != "best"
    ]
    return [*blocks, *test_blocks(rows), *budget_notes(results)]


def budget_notes(results: Results) -> list[str]:
    """What the cells of a sweep took, in words."""
    spent = results.get("budget", {"timed": 0})
    if not spent["timed"]:
        return []
    some = "" if spent["timed"] == spent["cells"] else f"{spent['timed']} timed ones of "
    return [
        f"Budget: {some}{spent['cells']} cells took {spent['cpu_hours']:.2f} CPU hours,"
        f" {spent['wall_hours']:.2f} by the clock if one after the other, and at most"
        f" {spent['peak_mib']:,.0f} MiB each."
    ]


def number_of_seeds(results: Results) -> int:
    """How many seeds a results file is of: it holds their number or names them."""
    seeds = results.get("seeds", ())
    return seeds if isinstance(seeds, int) else len(seeds)


def seeds_in_words(results: Results) -> str:
    """The number of seeds as words."""
    number = number_of_seeds(results)
    return "1 seed" if number == 1 else f"{number} seeds"


def readable(name: str) -> str:
    """A name of the code as words; an augmentation before a comma, or alone, as in the paper."""
    first, comma, rest = name.partition(", ")
    return AUGMENTATION_NAMES.get(first, first.replace("_", " ")) + comma + rest


def sweep_blocks(results: Results) -> list[Block]:
    """A sweep: combinations by measures, over their finished seeds; what a cell and all took."""
    measures = list(dict.fromkeys(m for row in results["rows"] for m in row["measures"]))
    rows = []
    for row in results["rows"]:
        cells = (row["measures"].get(measure) for measure in measures)
        seeds = str(row["cells"].get("done", 0))
        shown = [mean_and_sd(cell) if cell else "" for cell in cells]
        seconds = "" if row["seconds"] is None else f"{row['seconds']:,.0f}"
        rows.append([*row["choices"].values(), seeds, *shown, seconds])
    about = [results["about"]] if results["about"] else []
    table = Table([*results["axes"], "seeds", *measures, "seconds a cell"], rows)
    return [*about, table, *budget_notes(results)]


def conversion_blocks(results: Results) -> list[Block]:
    """The conversion of formulas: likeness to gold trees, coverage, speed."""
    header = ["from LaTeX, against", "layout", "rows", "formulas", "edge Dice", "without end marks"]
    rows = [
        [
            *(str(row[name]) for name in ("gold", "layout", "rows", "formulas")),
            *(f"{row[name]:.3f}" for name in ("dice", "dice_without_marks")),
        ]
        for row in results["rows"]
    ]
    notes = [
        f"The 20 concrete topics, {row['layout']} from {row['from']}: {row['equal']:.3f} of"
        f" {row['edges']} edges equal those of the coded graphs ({row['equal_of_decoded']:.3f} of"
        f" those with known codes)."
        for row in results["equal_edges"]
    ]
    wikipedia = results["wikipedia"]
    notes.append(
        f"Wikipedia: {wikipedia['converted']:.2%} of {wikipedia['formulas']:,} formulas give both"
        f" trees; {wikipedia['formulas_per_second']:,} a second in {wikipedia['processes']}"
        f" processes."
    )
    return [Table(header, rows), Notes(notes)]


def similarity_blocks(results: Results) -> list[Block]:
    """Similarity: encoders by measures on each set of pairs, beside published ones."""
    blocks: list[Block] = [f"{results['data']}; {seeds_in_words(results)}"]
    if "reading" in results:  # which earlier results do not say
        blocks.append(reading_in_words(results["reading"]))
    for name, comparison in results["comparisons"].items():
        systems = comparison["systems"]
        measures = list(next(iter(systems.values())))
        rows = [[n, *(mean_and_sd(row[m]) for m in measures)] for n, row in systems.items()]
        blocks.append(Table([f"{name}: {comparison['pairs']}", *measures], rows))
        blocks.append(Notes([difference(row) for row in comparison["differences"]]))
    blocks.append(BEST_ACCURACY)
    (paper,) = (paper for paper in read_papers() if paper.id == "mathsim")
    for table in paper.tables:
        rows = [[system, *values] for system, values in table.rows.items()]
        blocks.append(Table([f"published, on other data: {table.data}", *table.measures], rows))
    return blocks


def reading_in_words(reading: Mapping[str, Results]) -> str:
    """How encoders turn texts into vectors: what all do alike, and where they differ.

    Args:
        reading: encoder -> setting -> value; all have the same settings.
    """
    alike, different = [], []
    for setting in next(iter(reading.values())):
        values = {name: str(of[setting]).lower() for name, of in reading.items()}
        called = setting.replace("_", " ")
        if len(set(values.values())) == 1:
            alike.append(f"{called} {next(iter(values.values()))}")
        else:
            listed = ", ".join(f"{name}: {value}" for name, value in values.items())
            different.append(f"{called} ({listed})")
    differ = f" The encoders differ in {'; '.join(different)}." if different else ""
    return f"All encoders alike: {', '.join(alike) or 'nothing'}.{differ}"


def tag_blocks(results: Results) -> list[Block]:
    """Tag prediction, closed and open vocabulary, by T."""
    blocks: list[Block] = [f"{results['data']}; protocol {results['protocol']}, test"]
    for title, table in tag_tables(results):
        blocks += [f"{title}; a label is positive above T votes", table]
    return [*blocks, *test_blocks(results.get("significance", []))]


def tag_tables(results: Results) -> list[tuple[str, Table]]:
    """Tag prediction: title and table of each task and T, measured on test."""
    tasks = {"closed vocabulary": results["closed"], "open vocabulary": results["open"]["all"]}
    tables = []
    for task, systems in tasks.items():
        for threshold in dict.fromkeys(t for system in systems.values() for t in system):
            rows = [
                [name, *(mean_and_sd(of[threshold]["test"][m]) for m in TAG_MEASURES)]
                for name, of in systems.items()
                if threshold in of
            ]
            title = f"tag prediction, {task}, {threshold}"
            tables.append((title, Table(["system", *TAG_MEASURES], rows)))
    return tables


def benchmark_blocks(records: Sequence[Results]) -> list[Block]:
    """Benchmarks: a row for each peer, ours beside it; then those without peers."""
    header = [
        *("benchmark", "peer", "ours, items/s", "peer, items/s", "ratio", "threads"),
        *("peak MiB", "compile, s"),
    ]
    rows = []
    for record in records:
        for name, ours, peer, cells in _beside_peers(record):
            settings = (f"{k} {v}" for k, v in record["settings"].items() if k != "encoder")
            rows.append(
                [
                    f"{record['benchmark']}: {', '.join(settings)}",
                    name,
                    *(f"{side['items_per_second']:,.0f}" for side in (ours, peer)),
                    *cells,
                    f"{max(0.0, record['compile_s']):.1f}",
                ]
            )
    alone = [block for record in records for block in _blocks_without_peer(record)]
    return [Table(header, rows), *alone]


def speed_table(records: Mapping[str, Results]) -> Table:
    """Benchmarks in few columns: the file and the peer, how many times as fast, memory."""
    rows = [
        [f"{file}, {name}", *cells]
        for file, record in records.items()
        for name, _, _, cells in _beside_peers(record)
    ]
    return Table(["benchmark, peer", "ratio", "cores", "peak MiB, ours / peer"], rows)


def _beside_peers(record: Results) -> Iterator[tuple[str, Results, Results, list[str]]]:
    """Of each peer its name, our side, its side, and cells: ratio, threads, memory of both."""
    if "sides" not in record:
        return
    (_, ours), *peers = record["sides"].items()
    for name, peer in peers:
        memory = f"{ours['peak_mib']} / {peer['peak_mib']}" if "peak_mib" in ours else ""
        yield name, ours, peer, [f"{peer['ratio']:.2f}", str(record["threads"]), memory]


def _blocks_without_peer(record: Results) -> list[Block]:
    """What a benchmark found that has no peer: memory of long streams, the server."""
    if record["benchmark"] == "stream_encode":
        first, *_, last = record["quarters_mib"]
        return [
            f"{record['settings']['texts']:,} texts encoded from file to file: at most"
            f" {first:.0f} MiB in the first quarter, {last:.0f} MiB in the last"
        ]
    if record["benchmark"] == "film_preparation":
        names = ("reviews", "sentences", "reviews_per_second", "peak_mib", "workers_mib")
        return [
            "Films prepared from files of generated reviews, memory in MiB at most",
            Table(
                ["reviews", "sentences", "reviews/s", "main process", "largest worker"],
                [[f"{row[name]:,}" for name in names] for row in record["rows"]],
            ),
        ]
    if record["benchmark"] == "serve_load":
        settings, errors = record["settings"], sum(record["errors"].values())
        rows = [
            [kind, f"{of['requests']:,}", f"{of['p50']:.0f}", f"{of['p99']:.0f}"]
            for kind, of in record["latency_ms"].items()
        ]
        return [
            f"The search page's server, asked by {settings['clients']} clients at once for"
            f" {settings['seconds']:.0f} s: {record['requests_per_second']:.0f} answers a second,"
            f" {errors} errors",
            Table(["asked for", "answers", "p50, ms", "p99, ms"], rows),
        ]
    if record["benchmark"] == "serve_fuzz":
        statuses = sorted(record["statuses"].items())
        answers = ", ".join(f"{count:,} answered {status}" for status, count in statuses)
        return [
            f"The search page's server, sent {record['settings']['requests']:,} requests of"
            f" nonsense: {answers}; its memory grew by {record['growth_mib']} MiB"
        ]
    return []
