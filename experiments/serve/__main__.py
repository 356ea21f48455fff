r"""Serves the search page and its API.

COMMAND   python -m experiments.serve --formulas runs/gcl --entities runs/quickstart
TIME      models are loaded and compiled in about a minute; then milliseconds a query
HARDWARE  2 CPU cores, or an accelerator

Without arguments: formulas from the docstrings of installed libraries, with an untrained encoder,
made within two minutes at the first start; and the entities of the quickstart's run, where there is
one. Stop it by Ctrl-C or SIGTERM: what was asked is answered first.
"""

import asyncio
import contextlib
import dataclasses
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from experiments.serve.limits import Limits
from retrieval_jax.errors import InputError, one_screen_errors
from retrieval_jax.interruption import StopRequest
from retrieval_jax.logs import quiet_libraries

if TYPE_CHECKING:
    import uvicorn

    from experiments.serve.service import Service

QUICKSTART = Path("runs/quickstart")
EXTRA = "pip install -e '.[serve]'"


@dataclasses.dataclass(frozen=True)
class Command:
    """What to serve, and where.

    Attributes:
        formulas: run folder of an encoder, with its collection in the folder `store`, or that
            store; `docstrings` = formulas of installed libraries; `none` = no formulas.
        entities: run folder of a ranker; `none` = no entities; `quickstart` = the quickstart's run,
            if there is one.
        host: address to listen on; 0.0.0.0 = on all, for others too.
        port: to listen on; 0 = a free one.
        data_dir: where prepared documents are, and vectors are kept.
        kept: where the collection of docstrings is kept.
        slt_weight: share of layout trees in the fused score, as the store was made with; None = as
            training chose it (the run's results.json), else .5.
        processes: that read formulas.
        limits: of queries.
    """

    formulas: str = "docstrings"
    entities: str = "quickstart"
    host: str = "127.0.0.1"
    port: int = 8000
    data_dir: Path = Path("data")
    kept: Path = Path("runs/docstring_formulas")
    slt_weight: float | None = None
    processes: int = 2
    limits: Limits = Limits()


@one_screen_errors
def main() -> None:
    """Serves as the command line says."""
    command = tyro.cli(Command, prog="python -m experiments.serve", description=__doc__)
    quiet_libraries()
    try:
        import uvicorn

        from experiments.serve.app import create_app

        app = create_app(load(command))
    except ModuleNotFoundError as error:
        raise InputError(f"the package {error.name!r} is not installed", EXTRA) from error
    config = uvicorn.Config(
        app,
        command.host,
        command.port,
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=int(2 * command.limits.seconds) + 1,  # reading, then answering
    )
    listening = config.bind_socket()
    listening.set_inheritable(False)  # by the processes that read formulas
    serve(uvicorn.Server(config), listening)


def serve(server: "uvicorn.Server", listening: socket.socket) -> None:
    """Serves until a signal comes; says where once it does."""
    # uvicorn stops at SIGTERM and SIGINT, and then sends them again.
    with StopRequest(), contextlib.suppress(KeyboardInterrupt):
        # Not by uvloop, which would fork for workers, from a process with many threads.
        asyncio.run(_serve(server, listening))


async def _serve(server: "uvicorn.Server", listening: socket.socket) -> None:
    serving = asyncio.create_task(server.serve([listening]))
    while not (server.started or serving.done()):
        await asyncio.sleep(0.05)
    if server.started:
        host, port = listening.getsockname()[:2]
        print(f"http://{host}:{port} (ready when /health/ready says so)", flush=True)
    await serving


def load(command: Command) -> "Service":
    """Loads the models that are named.

    Raises:
        InputError: nothing to serve, or what loading refuses.
    """
    from experiments.serve.entities import load_entities
    from experiments.serve.formulas import load_formulas
    from experiments.serve.service import Service
    from gcl_jax.inference import slt_weight_of

    answers = command.limits.answers
    formulas = entities = None
    if command.formulas == "docstrings":
        from experiments.serve import docstring_formulas

        run = docstring_formulas.prepare(command.kept)
        title = f"docstrings of {', '.join(docstring_formulas.DEFAULT_PACKAGES)}"
        formulas = load_formulas(run, answers, title)
    elif command.formulas != "none":
        path, slt_weight = Path(command.formulas), command.slt_weight
        if slt_weight is None:
            slt_weight = slt_weight_of(path if (path / "config.json").is_file() else path.parent)
        formulas = load_formulas(path, answers, None, slt_weight)
    if command.entities == "quickstart" and not QUICKSTART.is_dir():
        print(f"no entities: there is no {QUICKSTART}; make it by python -m experiments.quickstart")
    elif command.entities == "quickstart":
        try:
            entities = load_entities(QUICKSTART, command.data_dir, answers)
        except InputError as error:  # not finished, say
            print(f"no entities: {error.problem}")
    elif command.entities != "none":
        entities = load_entities(Path(command.entities), command.data_dir, answers)
    if formulas is None and entities is None:
        raise InputError("there is nothing to serve", "Name a run: --formulas or --entities.")
    return Service(formulas, entities, command.limits, command.processes)


if __name__ == "__main__":
    main()
