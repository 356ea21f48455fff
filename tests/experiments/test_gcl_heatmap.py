"""The sweep: its cells, its means and its picture."""

import pytest

from experiments.gcl.heatmap import Command, cell_config, draw, means

COMMAND = Command(
    augmentations=("rename", "none"), batch_sizes=(256, 512), layouts=("slt",), seeds=2
)


def cell(augmentation: str, batch_size: int, seed: int) -> dict:
    value = 0.5 + 0.1 * seed + (batch_size == 512) * 0.2
    measures = {"partial": value, "full": value / 2}
    return {
        "layout": "slt",
        "augmentation": augmentation,
        "batch_size": batch_size,
        "seed": seed,
        "bpref": dict.fromkeys(("all", "odd", "even"), measures),
    }


def test_batches_of_all_sizes_see_as_many_formulas() -> None:
    steps = [
        cell_config(COMMAND, "slt", size, "rename", 1).training.steps * size for size in (256, 1024)
    ]
    assert steps[0] == pytest.approx(steps[1], rel=0.02)
    config = cell_config(COMMAND, "opt", 256, "rename", 1)
    assert (config.model.layout, config.augmentation.methods) == ("opt", ("rename",))
    assert config.training.seed == 1


def test_means_over_seeds_and_their_picture(tmp_path) -> None:
    cells = [cell(a, b, s) for a in ("rename", "none") for b in (256, 512) for s in (0, 1)]
    of_cells = means(COMMAND, cells)
    found = of_cells["slt"]["rename"]["512"]["all"]
    assert found["partial"] == pytest.approx({"mean": 0.75, "sd": 0.005**0.5})
    assert found["full"]["mean"] == pytest.approx(0.375)
    draw(of_cells["slt"], COMMAND, "slt", tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
