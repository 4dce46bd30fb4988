"""A W&B workspace for runs of lab: curves by variant with the seeds folded, results, spikes."""

from typing import TYPE_CHECKING, Any

from lab.stats import spikes

if TYPE_CHECKING:
    from wandb_workspaces.workspaces import Workspace

CURVES = {"loss": ("training loss, nats per token", False), "grad_norm": ("gradient norm before clipping", True)}
"""Metric to a panel's title, and whether its axis is logarithmic."""

OUTCOMES = {
    "final_loss": "validation loss at the end, nats per token",
    "early_loss": "validation loss early, nats per token",
    "bits_per_byte": "bits per byte",
    "tokens_per_s": "tokens per second",
}


def workspace(*, entity: str, project: str, study: str | None) -> "Workspace":
    """The workspace, of one study's runs or of all of a project's; nothing is sent anywhere."""
    import wandb_workspaces.workspaces as ws

    name = "lab" if study is None else study
    runs = ws.RunsetSettings(
        groupby=[ws.Metric("JobType")], filters=[] if study is None else [ws.Metric("Group") == study]
    )
    sections = [
        ws.Section(name="Curves", is_open=True, panels=_curves()),
        ws.Section(name="Results", is_open=True, panels=[_bars(key, title) for key, title in OUTCOMES.items()]),
        ws.Section(name=f"Spikes, {spikes.LOCAL}", is_open=True, panels=_spikes()),
        *([] if study is None else [ws.Section(name="Tables", is_open=True, panels=_tables())]),
    ]
    return ws.Workspace(name=name, entity=entity, project=project, sections=sections, runset_settings=runs)


def _curves() -> list[Any]:
    import wandb_workspaces.reports.v2 as wr

    wanted = {**CURVES, "val_loss": ("validation loss, nats per token", False), "lr": ("learning rate", False)}
    return [
        wr.LinePlot(
            title=title,
            x="Step",
            y=[key],
            title_x="step",
            log_y=log_y,
            groupby="JobType",
            groupby_aggfunc="mean",
            groupby_rangefunc="stddev",
        )
        for key, (title, log_y) in wanted.items()
    ]


def _bars(key: str, title: str) -> Any:
    import wandb_workspaces.reports.v2 as wr

    return wr.BarPlot(
        title=title,
        metrics=[key],
        groupby="JobType",
        groupby_aggfunc="mean",
        groupby_rangefunc="stddev",
    )


def _spikes() -> list[Any]:
    import wandb_workspaces.reports.v2 as wr

    scores = {"loss": "loss, % of steps", "grad_norm": "gradient norm, % of steps"}
    bars = [_bars(f"spikes/{spikes.LOCAL}/{series}/score", title) for series, title in scores.items()]
    return [*bars, wr.WeavePanelSummaryTable(table_name="spike_steps")]


def _tables() -> list[Any]:
    import wandb_workspaces.reports.v2 as wr

    return [wr.WeavePanelSummaryTable(table_name=f"table_{letter}") for letter in "AB"]
