"""A small task for tests of the training loop: a table of vectors learns to match its inputs."""

import jax
import jax.numpy as jnp
import numpy as np

from retrieval_jax.losses import contrastive_loss_from_embeddings
from retrieval_jax.pipeline import ShuffledBatches, iterate

INPUTS = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)


class ToyTask:
    """Maps inputs by a matrix so that each is nearest to its row of a table; dropout included."""

    rules = ()
    inseparable = None
    batches_by_process = True

    def __init__(self, warm_start=None, measures=None, explode_at=None, dropout=0.1):
        self.start = warm_start or {}
        self.measures = measures
        self.explode_at, self.dropout = explode_at, dropout
        self.evaluations = 0

    def init(self, rng):
        first, second = jax.random.split(rng)
        return {
            "dense": {"kernel": jax.random.normal(first, (8, 8)), "bias": jnp.zeros(8)},
            "table": {"embedding": jax.random.normal(second, (len(INPUTS), 8))},
        }

    def warm_start(self):
        return self.start

    def loss(self, params, batch, rng, train):
        outputs = batch["x"] @ params["dense"]["kernel"] + params["dense"]["bias"][None]
        if train:
            outputs = outputs * jax.random.bernoulli(rng, 1 - self.dropout, outputs.shape)
        table = params["table"]["embedding"]
        loss = contrastive_loss_from_embeddings(outputs, table, 0.1, positives=batch["id"])
        if self.explode_at is not None:
            loss = jnp.where(jnp.sum(batch["id"]) == self.explode_at, jnp.nan, loss)
        return loss, {"mean_id": (jnp.sum(batch["id"]).astype(jnp.float32), jnp.float32(16))}

    def batches(self, batch_size, seed):
        def make_batch(parts):
            indices = parts[jax.process_index()]
            return {"x": INPUTS[indices], "id": indices.astype(np.int32)}

        return iterate(ShuffledBatches(np.zeros(50), batch_size, seed), make_batch)

    def evaluate(self, params):
        self.evaluations += 1
        if self.measures is not None:
            return {"RR": self.measures[self.evaluations - 1]}
        outputs = INPUTS @ np.asarray(params["dense"]["kernel"])
        return {"RR": float(np.mean(outputs))}
