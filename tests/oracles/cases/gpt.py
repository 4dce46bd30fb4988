"""GPT, BERT, the Transformer of 2017, BLOOM and MPT: layer norms, biases, positions that are added or biases."""

import torch
from torch import Tensor

from oracles.cases._names import SIZES, made
from oracles.compare import Case
from oracles.weight_maps import QKV, groups, rows, transposed

GPT = {"vocab_size": 61, "n_positions": 64, "n_embd": 32, "n_layer": 4, "n_head": 4}
H = "transformer.h.*"
FOUR_WIDE = {"activation.d_ff": 128}

GPT2 = {
    "transformer.wte": "embedding",
    "transformer.wpe": "position.table",
    f"{H}.ln_1": "blocks.*.attn_norm",
    f"{H}.ln_2": "blocks.*.ffn_norm",
    f"{H}.attn.c_attn": (QKV, transposed(3)),
    f"{H}.attn.c_proj": (["blocks.*.attn.out"], transposed()),
    f"{H}.mlp.c_fc": (["blocks.*.ffn.up"], transposed()),
    f"{H}.mlp.c_proj": (["blocks.*.ffn.out"], transposed()),
    "transformer.ln_f": "final_norm",
}
GPT1 = {
    "transformer.tokens_embed": "embedding",
    "transformer.positions_embed": "position.table",
    **{name: target for name, target in GPT2.items() if name.startswith(H)},
}
ATTN_NEO = f"{H}.attn.attention"
GPT_NEO = {
    "transformer.wte": "embedding",
    "transformer.wpe": "position.table",
    f"{H}.ln_1": "blocks.*.attn_norm",
    f"{H}.ln_2": "blocks.*.ffn_norm",
    f"{ATTN_NEO}.q_proj": "blocks.*.attn.q",
    f"{ATTN_NEO}.k_proj": "blocks.*.attn.k",
    f"{ATTN_NEO}.v_proj": "blocks.*.attn.v",
    f"{ATTN_NEO}.out_proj": "blocks.*.attn.out",
    f"{H}.mlp.c_fc": "blocks.*.ffn.up",
    f"{H}.mlp.c_proj": "blocks.*.ffn.out",
    "transformer.ln_f": "final_norm",
}
AS_GPT_NEO = {"attn.scale": 1.0, "attn.q_bias": False, "attn.k_bias": False, "attn.v_bias": False}
"""What GPT-Neo, which has GPT-3's pattern of layers, does otherwise."""
GPTJ = {
    "transformer.wte": "embedding",
    f"{H}.ln_1": "blocks.*.attn_norm",
    f"{H}.attn.q_proj": "blocks.*.attn.q",
    f"{H}.attn.k_proj": "blocks.*.attn.k",
    f"{H}.attn.v_proj": "blocks.*.attn.v",
    f"{H}.attn.out_proj": "blocks.*.attn.out",
    f"{H}.mlp.fc_in": "blocks.*.ffn.up",
    f"{H}.mlp.fc_out": "blocks.*.ffn.out",
    "transformer.ln_f": "final_norm",
    "lm_head.weight": "head.weight",
    "lm_head.bias": "head_bias",
}
BERT_LAYER = "bert.encoder.layer.*"
BERT = {
    "bert.embeddings.word_embeddings": "embedding",
    "bert.embeddings.position_embeddings": "position.table",
    "bert.embeddings.LayerNorm": "stability.embedding_norm.norm",
    f"{BERT_LAYER}.attention.self.query": "blocks.*.attn.q",
    f"{BERT_LAYER}.attention.self.key": "blocks.*.attn.k",
    f"{BERT_LAYER}.attention.self.value": "blocks.*.attn.v",
    f"{BERT_LAYER}.attention.output.dense": "blocks.*.attn.out",
    f"{BERT_LAYER}.attention.output.LayerNorm": "blocks.*.attn_norm",
    f"{BERT_LAYER}.intermediate.dense": "blocks.*.ffn.up",
    f"{BERT_LAYER}.output.dense": "blocks.*.ffn.out",
    f"{BERT_LAYER}.output.LayerNorm": "blocks.*.ffn_norm",
    "cls.predictions.transform.dense": "head_transform.dense",
    "cls.predictions.transform.LayerNorm": "head_transform.norm",
    "cls.predictions.bias": "head_bias",
}
MARIAN_LAYER = "model.decoder.layers.*"
MARIAN = {
    "model.decoder.embed_tokens": "embedding",
    f"{MARIAN_LAYER}.self_attn.q_proj": "blocks.*.attn.q",
    f"{MARIAN_LAYER}.self_attn.k_proj": "blocks.*.attn.k",
    f"{MARIAN_LAYER}.self_attn.v_proj": "blocks.*.attn.v",
    f"{MARIAN_LAYER}.self_attn.out_proj": "blocks.*.attn.out",
    f"{MARIAN_LAYER}.self_attn_layer_norm": "blocks.*.attn_norm",
    f"{MARIAN_LAYER}.fc1": "blocks.*.ffn.up",
    f"{MARIAN_LAYER}.fc2": "blocks.*.ffn.out",
    f"{MARIAN_LAYER}.final_layer_norm": "blocks.*.ffn_norm",
}


def bloom(n_heads: int) -> dict:
    """Rows of queries, keys and values head by head."""
    return {
        "transformer.word_embeddings": "embedding",
        "transformer.word_embeddings_layernorm": "stability.embedding_norm.norm",
        f"{H}.input_layernorm": "blocks.*.attn_norm",
        f"{H}.post_attention_layernorm": "blocks.*.ffn_norm",
        f"{H}.self_attention.query_key_value": (QKV, groups(n_heads, 8)),
        f"{H}.self_attention.dense": "blocks.*.attn.out",
        f"{H}.mlp.dense_h_to_4h": "blocks.*.ffn.up",
        f"{H}.mlp.dense_4h_to_h": "blocks.*.ffn.out",
        "transformer.ln_f": "final_norm",
    }


MPT_BLOCK = "transformer.blocks.*"
MPT = {
    "transformer.wte": "embedding",
    f"{MPT_BLOCK}.norm_1": "blocks.*.attn_norm",
    f"{MPT_BLOCK}.norm_2": "blocks.*.ffn_norm",
    f"{MPT_BLOCK}.attn.Wqkv": (QKV, rows(48, 48, 48)),
    f"{MPT_BLOCK}.attn.out_proj": "blocks.*.attn.out",
    f"{MPT_BLOCK}.ffn.up_proj": "blocks.*.ffn.up",
    f"{MPT_BLOCK}.ffn.down_proj": "blocks.*.ffn.out",
    "transformer.norm_f": "final_norm",
}
SIX_HEADS = {"model.dim": 48, "model.n_heads": 6, "activation.d_ff": 192}
"""A number of heads that is no power of two, for which ALiBi's slopes take another rule."""


def gpt1_logits(net, ids_BT: Tensor) -> Tensor:
    """Of a class that knows no cache."""
    return net(input_ids=ids_BT).logits


def bert():
    """A causal BERT whose segment vectors are zero: the preset has no segments."""
    net = made(
        "BertLMHeadModel",
        "BertConfig",
        **{k: v for k, v in SIZES.items() if k != "num_key_value_heads"},
        is_decoder=True,
        layer_norm_eps=1e-12,
    )()
    segments = net.bert.embeddings.token_type_embeddings.weight
    segments.requires_grad_(False)
    torch.nn.init.zeros_(segments)
    return net


CASES = [
    Case(
        preset="gpt1",
        table=GPT1,
        oracle=made("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", **GPT),
        changed=FOUR_WIDE,
        logits=gpt1_logits,
    ),
    Case(preset="gpt2", table=GPT2, oracle=made("GPT2LMHeadModel", "GPT2Config", **GPT), changed=FOUR_WIDE),
    Case(
        preset="gpt3",
        table=GPT_NEO,
        oracle=made(
            "GPTNeoForCausalLM",
            "GPTNeoConfig",
            vocab_size=61,
            max_position_embeddings=64,
            hidden_size=32,
            num_layers=4,
            num_heads=4,
            attention_types=[[["local", "global"], 2]],
            window_size=8,
        ),
        changed={**FOUR_WIDE, "attn.window": 8, **AS_GPT_NEO},
    ),
    Case(
        preset="gpt3",
        note="dense",
        table=GPT2,
        oracle=made("GPT2LMHeadModel", "GPT2Config", **GPT),
        changed={**FOUR_WIDE, "attn.global_every": 1},
    ),
    Case(
        preset="gptj",
        table=GPTJ,
        oracle=made("GPTJForCausalLM", "GPTJConfig", **{**GPT, "n_embd": 64}, rotary_dim=4),
        changed={"model.dim": 64, "model.head_dim": 16, "activation.d_ff": 256},
    ),
    Case(preset="bert_like", table=BERT, oracle=bert, unused=r"token_type"),
    Case(
        preset="transformer_2017",
        table=MARIAN,
        oracle=made(
            "MarianForCausalLM",
            "MarianConfig",
            vocab_size=61,
            d_model=32,
            decoder_layers=4,
            decoder_attention_heads=4,
            decoder_ffn_dim=48,
            max_position_embeddings=64,
            activation_function="relu",
            scale_embedding=True,
            is_decoder=True,
            pad_token_id=0,
            decoder_start_token_id=0,
            eos_token_id=None,
            forced_eos_token_id=None,
        ),
        changed={"position.layout": "half"},  # Marian's order of the waves; the paper's is interleaved
        unused=r"encoder_attn|embed_positions",
    ),
    Case(
        preset="bloom",
        table=bloom(4),
        oracle=made("BloomForCausalLM", "BloomConfig", vocab_size=61, hidden_size=32, n_layer=4, n_head=4),
        changed=FOUR_WIDE,
    ),
    Case(
        preset="bloom",
        note="6-heads",
        table=bloom(6),
        oracle=made("BloomForCausalLM", "BloomConfig", vocab_size=61, hidden_size=48, n_layer=4, n_head=6),
        changed=SIX_HEADS,
    ),
    Case(
        preset="mpt",
        table=MPT,
        oracle=made(
            "MptForCausalLM", "MptConfig", vocab_size=61, d_model=48, n_heads=6, n_layers=4, max_seq_len=64
        ),
        changed=SIX_HEADS,
    ),
]
