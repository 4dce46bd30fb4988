"""Size and speed of the KV cache.

``bytes_per_token_layer``: bytes per token and layer in bf16 by the formula of each layer's attention, at a context
of the training length, in which a window holds no more than its width. ``measured_bytes``: the same of the tensors
in a cache that was filled. ``share_of_mha``: the first over that of MHA, as many keys and values as query heads.
``decode_tokens_per_s``: tokens that one sequence gains in a second at the end of that context, one at a time from
the cache, in fp32 with one thread: of this machine and of how busy it is. As ``lab kv`` has them.
"""

from lab.measure.gradients import initial
from lab.training.cache_cost import cache_bytes, measure_speed, measured_bytes, mha_bytes
from lab.training.load import Loaded


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    config, vocab_size = loaded.config, loaded.model.embedding.weight.shape[0]
    dims = config.architecture(vocab_size).dims
    length = dims.max_seq_len
    per_token = cache_bytes(loaded.model, length)
    speed = measure_speed(loaded.model, length, config.precision, without=False)
    return {
        "bytes_per_token_layer": per_token,
        "measured_bytes": measured_bytes(initial(config, vocab_size), length),  # it casts the weights
        "share_of_mha": per_token / mha_bytes(dims),
        "decode_tokens_per_s": speed.decode.tokens_per_s,
    }
