"""Invented result records."""

import copy

LOCAL = "local(w=128,k=7)"

CONFIG = {
    "seed": 1,
    "study_seed": 0,
    "device": "cpu",
    "precision": "fp32",
    "threads": 2,
    "attn_path": "plain",
    "norm": {"name": "rmsnorm", "eps": 1e-6},
    "activation": {"name": "swiglu", "d_ff": None, "ratio": 8 / 3},
    "attn": {"name": "gqa", "n_kv_heads": 2},
    "block": {"name": "pre"},
    "position": {"name": "rope", "theta": 10000.0},
    "init": {"name": "normal", "sd": 0.02},
    "model": {"dim": 128, "n_layers": 4},
    "stability": {"none": {"name": "none"}},
    "regularization": {"none": {"name": "none"}},
    "data": {"name": "sotu"},
    "tokenizer": {"name": "bpe", "vocab_size": 2048},
    "optim": {"name": "adamw", "lr": 0.001, "grad_clip": 1.0},
    "schedule": {"name": "cosine", "warmup_steps": 50},
    "track": {"name": "none"},
    "train": {"steps": 600, "batch_size": 16, "checkpoint_every": 100},
}


def config(**changes):
    """The config with whole sections replaced, or single keys as ``optim__lr=0.1``."""
    made = copy.deepcopy(CONFIG)
    for key, value in changes.items():
        *sections, last = key.split("__")
        part = made
        for section in sections:
            part = part[section]
        part[last] = value
    return made


def record(run, *, loss=3.2, status="done", **changes):
    """A run's result; ``changes`` go to the config, except those that name a field of the result."""
    done = status == "done"
    made = {
        "schema": 1,
        "id": run,
        "status": status,
        "reason": None,
        "config": None,
        "steps_done": 600,
        "early_loss": loss + 0.9 if done else None,
        "final_loss": loss if done else None,
        "bits_per_byte": loss * 0.55 if done else None,
        "spikes": {
            LOCAL: {
                "loss": {"score": 0.0, "spikes": 0, "counted": 568, "shifts": 0},
                "grad_norm": {"score": 0.35, "spikes": 2, "counted": 568, "shifts": 0},
            }
        },
        "clipped_share": 0.1,
        "parameters": {"non_embedding": 1_050_000, "total": 1_310_000},
        "flops_per_token": 8.1e6,
        "flops_formula": "6N + 12LDT",
        "tokens": 1_228_800,
        "epochs": 0.41,
        "tokens_per_s": 15000.0,
        "peak_memory_mib": 512.0,
        "match": None,
        "hashes": {"data": "1a2b3c4d5e6f", "tokenizer": "99aabbccddee", "batches": "00", "tensors": {}},
    }
    fields = {key: changes.pop(key) for key in list(changes) if key in made or key == "env"}
    return made | {"config": config(**changes)} | fields


LAYERNORM = {"name": "layernorm", "eps": 1e-5}


def study():
    """Two variants of three seeds: one failed run, one diverged run, different parameters."""
    parts = {"non_embedding": 1_051_280, "total": 1_311_280}
    return [
        record("a1", seed=1, loss=3.2014, tokens_per_s=15100.0),
        record("a2", seed=2, loss=3.2143),
        record("a3", seed=3, status="failed", reason="out of memory:\n  tried 3 GiB", tokens_per_s=None),
        record("b1", seed=1, loss=3.1822, norm=LAYERNORM, parameters=parts),
        record("b2", seed=2, loss=3.1911, norm=LAYERNORM, parameters=parts),
        record(
            "b3",
            seed=3,
            status="diverged",
            reason="loss is nan at step 212",
            norm=LAYERNORM,
            parameters=parts,
        ),
    ]
