"""BERT and its MLM head in plain NumPy, one text at a time: what the models are compared with."""

import math

import numpy as np

erf = np.vectorize(math.erf)


def layer_norm(x, params):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-12) * params["scale"] + params["bias"]


def dense(x, params):
    return x @ params["kernel"] + params["bias"]


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def hidden_states(params, words, segments):
    """Hidden states `[length, dim]` for word vectors `[length, dim]` and segments `[length]`."""
    tables = params["embeddings"]
    position = tables["position"]["embedding"][: len(words)]
    x = words + position + tables["segment"]["embedding"][segments]
    x = layer_norm(x, tables["norm"])
    for index in range(len(params["encoder"])):
        x = _layer(x, params["encoder"][f"layer_{index}"])
    return x


def transformed(head, x):
    """The MLM head's transform."""
    return layer_norm(gelu(dense(x, head["transform"])), head["norm"])


def _layer(x, params):
    qkv, output = params["attention"]["qkv"], params["attention"]["output"]
    contexts = []
    for head in range(qkv["kernel"].shape[2]):
        q, k, v = (x @ qkv["kernel"][:, i, head] + qkv["bias"][i, head] for i in range(3))
        weights = softmax(q @ k.T / math.sqrt(q.shape[1]))
        contexts.append(weights @ v @ output["kernel"][head])
    x = layer_norm(x + sum(contexts) + output["bias"], params["attention_norm"])
    wide = gelu(dense(x, params["intermediate"]))
    return layer_norm(x + dense(wide, params["output"]), params["output_norm"])
