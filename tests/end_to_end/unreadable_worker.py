"""`process_worker`, of which process 1 cannot read the states of some steps.

`python -m retrieval_jax.distributed ... tests.end_to_end.unreadable_worker FOLDER SECONDS STEPS`,
STEPS as in `5,10`; `hang` stands for storage that never answers.
"""

import errno
import sys
import time

import jax
import orbax.checkpoint as ocp

from retrieval_jax import checkpoints
from tests.end_to_end import process_worker

HANG = "hang"


def main() -> None:
    """Trains, with a reading of arrays that fails as the command line says."""
    steps = sys.argv[3].split(",")
    restore = ocp.StandardCheckpointHandler.restore

    def failing(self, directory, *args, **kwargs):
        if steps == [HANG]:
            time.sleep(3600)
        step = directory.parent
        if step.parent.name == checkpoints.LAST and step.name in steps:
            raise OSError(errno.EIO, "Input/output error", str(directory))
        return restore(self, directory, *args, **kwargs)

    if jax.process_index() == 1:
        ocp.StandardCheckpointHandler.restore = failing
    checkpoints.WAIT = 10.0
    process_worker.main()


if __name__ == "__main__":
    main()
