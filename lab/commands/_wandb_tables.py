"""Tables A and B of a study as a W&B run of their own, in the study's group."""

import re
from collections.abc import Mapping

from lab.commands._claims import with_claims
from lab.commands._compared import comparison, find
from lab.report.grid import Grid
from lab.report.main_table import table
from lab.report.stability_table import stability
from lab.study.manifest import Manifest

JOB = "tables"
"""Job type of the run that holds them."""


def log_tables(study: Manifest, *, project: str, entity: str | None, online: bool) -> bool:
    """Write the tables below ``wandb/`` in the study's folder, and upload them where that is asked for.

    Args:
        study: of which the finished runs are taken.
        project: that the runs go to.
        entity: user or team; None: the key's own.
        online: whether to upload now; else ``lab wandb sync`` does.

    Returns:
        Whether there was a result to make a table of.
    """
    found = find([study.path])
    if not found.records:
        return False
    import wandb

    from lab.track.wandb import quiet

    made = with_claims(comparison(found))
    run = wandb.init(
        id=f"{study.label}-tables",
        name=f"{study.label} tables",
        project=project,
        entity=entity,
        group=study.label,
        job_type=JOB,
        dir=study.path,
        mode="online" if online else "offline",
        resume="allow",
        reinit="finish_previous",
        settings=quiet(init_timeout=5.0, finish_timeout=10.0),
    )
    grids: Mapping[str, Grid] = {"table_A": table(made), "table_B": stability(made.variants)}
    for key, grid in grids.items():
        heads = [re.sub(r"(?<=/)\n", "", column.header).replace("\n", " ").strip() for column in grid.columns]
        run.summary[key] = wandb.Table(columns=heads, data=[list(row) for row in grid.rows])
        run.summary[f"{key}_notes"] = "\n".join(grid.notes)
    run.finish()
    return True
