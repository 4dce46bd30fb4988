"""T5's decoder, alone, as a causal language model; LaMDA is taken to be that of v1.1."""

from torch import Tensor, nn

from oracles.cases._names import made
from oracles.compare import Case

BLOCK = "decoder.block.*"
T5 = {
    "shared": "embedding",
    "decoder.embed_tokens": "embedding",
    f"{BLOCK}.layer.0.SelfAttention.q": "blocks.*.attn.q",
    f"{BLOCK}.layer.0.SelfAttention.k": "blocks.*.attn.k",
    f"{BLOCK}.layer.0.SelfAttention.v": "blocks.*.attn.v",
    f"{BLOCK}.layer.0.SelfAttention.o": "blocks.*.attn.out",
    f"{BLOCK}.layer.0.SelfAttention.relative_attention_bias": "position.table",
    f"{BLOCK}.layer.0.layer_norm": "blocks.*.attn_norm",
    f"{BLOCK}.layer.2.DenseReluDense.wi": "blocks.*.ffn.up",
    f"{BLOCK}.layer.2.DenseReluDense.wi_0": "blocks.*.ffn.gate",
    f"{BLOCK}.layer.2.DenseReluDense.wi_1": "blocks.*.ffn.up",
    f"{BLOCK}.layer.2.DenseReluDense.wo": "blocks.*.ffn.out",
    f"{BLOCK}.layer.2.layer_norm": "blocks.*.ffn_norm",
    "decoder.final_layer_norm": "final_norm",
    "lm_head": "head",
}
SETTINGS = {
    "vocab_size": 61,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 4,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "layer_norm_epsilon": 1e-6,
    "decoder_start_token_id": 0,
}
BUCKETS = {"position.buckets": 8, "position.max_distance": 16}
UNUSED = r"^encoder\.|EncDecAttention|layer\.1\.layer_norm"


def decoder_logits(net, ids_BT: Tensor) -> Tensor:
    """Logits of the decoder, which without an encoder's output leaves cross-attention out."""
    x_BTD = net.decoder(input_ids=ids_BT, use_cache=False).last_hidden_state
    return net.lm_head(x_BTD * 32**-0.5 if net.config.scale_decoder_outputs else x_BTD)


def v1_1() -> nn.Module:
    """T5 v1.1 with a head of its own, which transformers 5 ties whatever the configuration says."""
    make = made(
        "T5ForConditionalGeneration",
        "T5Config",
        **SETTINGS,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    net = make()
    net.lm_head.weight = nn.Parameter(net.lm_head.weight.detach().clone())
    return net


CASES = [
    Case(
        preset="t5",
        table=T5,
        oracle=made("T5ForConditionalGeneration", "T5Config", **SETTINGS),
        changed=BUCKETS,
        logits=decoder_logits,
        unused=UNUSED,
    ),
    *(
        Case(preset=preset, table=T5, oracle=v1_1, changed=BUCKETS, logits=decoder_logits, unused=UNUSED)
        for preset in ("t5v1_1", "lamda")
    ),
]
