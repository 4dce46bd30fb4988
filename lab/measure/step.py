"""Where a training step's FLOPs and time go, after arXiv:2007.00072, table 1.

Shares of the whole step, between 0 and 1, of three steps of the run from its first on, in fp32 with one thread, as
``lab profile`` has them. ``contractions_flops``, ``contractions_time``: products of matrices, and attention's two
with the softmax between them where one kernel does all. ``norms_flops``, ``norms_time``: all norms.
``elementwise_flops``, ``elementwise_time``: activation, residual stream, embedding, copies. With ``_excess``: the
share of the time less that of the FLOPs. The rest is the loss, the optimizer, the batch, and what lies between
operators. ``step_ms``: milliseconds of a step. All but FLOPs depend on the machine and on how busy it is.
"""

from dataclasses import replace

from lab.measure._text import tokens_of
from lab.progress import hidden, progress
from lab.training.load import Loaded
from lab.training.plan import Plan, batches_of
from lab.training.profile.classes import ELEMENTWISE, NORMS
from lab.training.profile.facts import facts as facts_of
from lab.training.profile.measure import measure as profiled

STEPS = 3


def measure(loaded: Loaded) -> dict[str, float]:
    """Take it."""
    tokens, config = tokens_of(loaded), loaded.config
    architecture = config.architecture(tokens.vocab_size)
    plan = Plan(
        config=replace(config, init_from=None),
        architecture=architecture,
        outline=architecture.outline(),
        tokens=tokens,
        batches=batches_of(config, tokens),
        run_id=loaded.result["id"],
        match=None,
        start=None,
    )
    with hidden(), progress("profile", 2 * STEPS) as bar:
        facts = facts_of(plan, profiled(plan, STEPS, bar))
    classes = {found["name"]: found for found in facts["classes"]}
    values = {"step_ms": facts["step_ms"]}
    for kind in ("flops", "time"):
        values |= {
            f"contractions_{kind}": facts[f"contractions_{kind}_share"],
            f"norms_{kind}": classes[NORMS][f"{kind}_share"],
            f"elementwise_{kind}": classes[ELEMENTWISE][f"{kind}_share"],
        }
    return values | {
        f"{name}_excess": values[f"{name}_time"] - values[f"{name}_flops"]
        for name in ("contractions", "norms", "elementwise")
    }
