"""DeepSeek's latent attention, feed-forwards dense in all layers, and its choice of tokens."""

from oracles.cases._names import ENDS, GATED, LAYER, PRE, decoder, theta
from oracles.compare import Case
from oracles.weight_maps import heads, rows

ATTN = f"{LAYER}.self_attn"
MLA = {
    **ENDS,
    **GATED,
    **PRE,
    f"{ATTN}.q_proj": "blocks.*.attn.q",
    f"{ATTN}.q_a_proj": "blocks.*.attn.q_down",
    f"{ATTN}.q_a_layernorm": "blocks.*.attn.q_norm",
    f"{ATTN}.q_b_proj": "blocks.*.attn.q_up",
    f"{ATTN}.kv_a_proj_with_mqa": (["blocks.*.attn.kv_down", "blocks.*.attn.k_rope"], rows(8, 4)),
    f"{ATTN}.kv_a_layernorm": "blocks.*.attn.kv_norm",
    f"{ATTN}.kv_b_proj": (["blocks.*.attn.k_up", "blocks.*.attn.v_up"], heads(4, 8, 6)),
    f"{ATTN}.o_proj": "blocks.*.attn.out",
}
SETTINGS = {
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 99,
    "rms_norm_eps": 1e-6,
    **theta(1e4),
}
INDEXED = {
    **MLA,
    f"{ATTN}.indexer.wq_b": "blocks.*.attn.indexer.q",
    f"{ATTN}.indexer.wk": "blocks.*.attn.indexer.k",
    f"{ATTN}.indexer.k_norm": "blocks.*.attn.indexer.k_norm",
    f"{ATTN}.indexer.weights_proj": "blocks.*.attn.indexer.w",
}
RANKS = {"attn.kv_rank": 8, "attn.rope_dim": 4, "attn.v_dim": 6}

CASES = [
    Case(
        preset="deepseek_v2",
        faint=r"(q_a|kv_a)_proj",
        table=MLA,
        oracle=decoder("DeepseekV2", q_lora_rank=12, **SETTINGS),
        changed={**RANKS, "attn.q_rank": 12},
    ),
    Case(
        preset="deepseek_v2",
        faint=r"(q_a|kv_a)_proj",
        note="lite",
        table=MLA,
        oracle=decoder("DeepseekV2", q_lora_rank=None, **{**SETTINGS, "rms_norm_eps": 1e-5}),
        # The latents' norms do not follow the others' eps.
        changed={**RANKS, "attn.q_rank": None, "attn.q_rank_share": None, "norm.eps": 1e-5},
    ),
    Case(
        preset="deepseek_v3",
        faint=r"(q_a|kv_a)_proj",
        table=MLA,
        oracle=decoder("DeepseekV3", q_lora_rank=12, **SETTINGS),
        changed={**RANKS, "attn.q_rank": 12},
    ),
    Case(
        # The reference computes its indexer without gradients, so that those of its parameters are zero on both
        # sides: the loss is without the indexer's divergence. With fewer heads ReLU makes many scores zero, and
        # which of equal ones are chosen is torch.topk's secret there.
        preset="deepseek_v3_2",
        faint=r"(q_a|kv_a)_proj",
        table=INDEXED,
        oracle=decoder("DeepseekV32", q_lora_rank=12, index_topk=6, index_head_dim=8, index_n_heads=8, **SETTINGS),
        changed={**RANKS, "attn.q_rank": 12, "attn.top_k": 6, "attn.index_n_heads": 8},
    ),
]
