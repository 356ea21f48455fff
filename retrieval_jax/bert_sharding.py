"""Placement of BERT's parameters on the model axis."""

from jax.sharding import PartitionSpec

from retrieval_jax.bert import BertConfig
from retrieval_jax.sharding import MODEL, Rules


def bert_rules(config: BertConfig, parts: int) -> Rules:
    """Splits each layer over the model axis: heads, and inner units of the feed-forward layer.

    So a layer takes one sum over the axis after each of its two sub-layers. What `parts` does not
    divide stays whole on every device.

    Args:
        config: of the encoder.
        parts: devices of the model axis.

    References:
        Shoeybi et al., 2019, "Megatron-LM", section 3.
    """
    layers = (None,) if config.scan_layers else ()
    rules: list[tuple[str, PartitionSpec]] = []
    if parts > 1 and config.num_heads % parts == 0:
        rules += [
            ("attention/qkv/kernel$", PartitionSpec(*layers, None, None, MODEL, None)),
            ("attention/qkv/bias$", PartitionSpec(*layers, None, MODEL, None)),
            ("attention/output/kernel$", PartitionSpec(*layers, MODEL, None, None)),
        ]
    if parts > 1 and config.intermediate_size % parts == 0:
        rules += [
            ("intermediate/kernel$", PartitionSpec(*layers, None, MODEL)),
            ("intermediate/bias$", PartitionSpec(*layers, MODEL)),
            (r"layer(s|_\d+)/output/kernel$", PartitionSpec(*layers, MODEL, None)),
        ]
    return tuple(rules)
