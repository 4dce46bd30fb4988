"""Say what a run comes to, and train nothing: parameters, FLOPs, tokens, papers, `auto`."""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lab import choices, preset
from lab.commands._parser import Parser

if TYPE_CHECKING:
    from lab.training.plan import Plan

PIPE_WIDTH = 100
"""Columns where the output is no terminal."""


def main(argv: list[str]) -> int:
    """Run ``lab explain``; the exit status.

    Raises:
        LabError: the configuration or its data are refused.
    """
    options = _parser().parse_with_overrides(argv)

    from lab.compose import compose_config, match_target

    config = compose_config(options.overrides, config_dir=options.config_dir)
    target = match_target(config)

    from lab.training.plan import plan

    facts = explain(plan(config, target))
    if options.format == "json":
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        _print_text(facts)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="lab explain",
        description=f"{__doc__} Data and tokenizer are prepared if they are new.",
    )
    parser.add_argument(
        "overrides",
        metavar="OVERRIDE",
        nargs="*",
        help="as for lab train: norm=layernorm, attn.n_kv_heads=1",
    )
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="a folder with configuration files of your own")
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="a page for people, or JSON (default: text)",
    )
    return parser


def explain(planned: "Plan") -> dict[str, Any]:
    """The facts of a run that could be trained."""
    from lab.match import facts as match_facts
    from lab.model.count import FLOPS_FORMULA, parameters, training_flops_per_token

    config, model = planned.config, planned.outline
    sizes, train, tokens = planned.architecture.dims, config.train, planned.tokens
    counted = parameters(model)
    folder, status = _folder(planned.run_id)
    per_step = train.batch_size * sizes.max_seq_len
    return {
        "id": planned.run_id,
        "status": status,
        "folder": folder,
        "parameters": {"total": counted.total, "non_embedding": counted.non_embedding},
        "flops_per_token": training_flops_per_token(model, sizes.max_seq_len),
        "flops_formula": FLOPS_FORMULA,
        "model": {
            "dim": sizes.dim,
            "n_layers": sizes.n_layers,
            "n_heads": sizes.n_heads,
            "head_dim": sizes.head_dim,
            "max_seq_len": sizes.max_seq_len,
            "vocab_size": sizes.vocab_size,
            "tie_embeddings": config.model.tie_embeddings,
        },
        "device": str(config.device),
        "precision": str(config.precision),
        "compile": config.compile,
        "threads": config.threads,
        "attention_path": sorted({attn.path for attn in model.attention()}),
        "steps": train.steps,
        "tokens_per_step": per_step,
        "tokens": train.steps * per_step,
        "epochs": planned.batches.epochs(train.steps),
        "data": {
            "train_tokens": len(tokens.train),
            "val_tokens": len(tokens.val),
            "test_tokens": len(tokens.test),
            "split": tokens.note,
        },
        "seed": config.seed,
        "match": match_facts(config.match, planned.match) if planned.match else None,
        "init_from": planned.start.facts() if planned.start else None,
        "preset": _preset(config.preset),
        "remarks": model.remarks(planned.architecture),
        "components": list(_components(config.as_dict())),
    }


def _preset(name: str) -> dict[str, Any] | None:
    """What a shipped preset says of itself."""
    if not preset.is_shipped(name):
        return None
    said = preset.read(name)["preset"]
    return {key: said.get(key) for key in ("name", "title", "year", "source", "notes", "corrects", "published")}


def _folder(run_id: str) -> tuple[str, str]:
    """Where the run lies or will lie, and how far it is."""
    from lab.paths import runs_dir
    from lab.runs.store import RunFolder

    folder = RunFolder(runs_dir() / run_id)
    result = folder.result_now()
    return str(folder.path), "new" if result is None else str(result["status"])


def _components(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What was chosen of each group, with the first line of the module that says what it is."""
    for group in choices.GROUPS:
        chosen = config[group].values() if group in choices.COMBINED else [config[group]]
        for values in chosen:
            module = choices.load(group, values["name"])
            yield {
                "group": group,
                "name": values["name"],
                "description": (module.__doc__ or "").strip().partition("\n")[0],
                "settings": {key: value for key, value in values.items() if key != "name"},
            }


STATUS_WORDS = {
    "new": "not trained yet",
    "running": "being trained now",
    "partial": "begun and stopped: lab train resumes it",
    "done": "done: lab train finds it and trains nothing",
    "diverged": "diverged: lab train finds it and trains nothing",
    "failed": "failed: lab train tries it again",
}


def _print_text(facts: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    page = Table.grid(padding=(0, 2))
    page.add_column(style="bold", no_wrap=True)
    page.add_column(overflow="fold")
    for label, text in _lines(facts):
        page.add_row(label, text)
    parts = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    for title in ("group", "choice"):
        parts.add_column(title, no_wrap=True)
    parts.add_column("what it is, and its settings", overflow="fold")
    for part in facts["components"]:
        settings = ", ".join(f"{key} {_value(value)}" for key, value in part["settings"].items())
        parts.add_row(part["group"], part["name"], part["description"] + (f"\n{settings}" if settings else ""))
    with console.capture() as captured:
        console.print(page, "", parts, sep="\n")
    text = captured.get()
    if not console.is_terminal:  # no blanks up to the width
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    sys.stdout.write(text)


def _lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    model, data, counted = facts["model"], facts["data"], facts["parameters"]
    yield "run", f"{facts['id']}, {STATUS_WORDS.get(facts['status'], facts['status'])}"
    yield "folder", facts["folder"]
    yield (
        "model",
        f"{model['n_layers']} layers, width {model['dim']}, {model['n_heads']} heads of {model['head_dim']}, "
        f"{model['max_seq_len']} tokens, vocabulary {model['vocab_size']:,}, "
        f"embeddings {'tied' if model['tie_embeddings'] else 'not tied'}",
    )
    if facts["preset"]:
        told = facts["preset"]
        yield "preset", f"{told['title']} ({told['year']}), {told['source']}; lab presets {told['name']} tells more"
    yield "parameters", f"{counted['total']:,} in total, {counted['non_embedding']:,} without embeddings and head"
    yield "FLOPs", f"{facts['flops_per_token']:,.0f} for a token in training: {facts['flops_formula']}"
    for remark in facts["remarks"]:
        yield "but", remark
    if facts["match"]:
        from lab.training.summary import match_line

        yield "match", match_line(facts["match"])
    if facts["init_from"]:
        start = facts["init_from"]
        counts = ", ".join(f"{sum(start[part].values())} {part}" for part in ("loaded", "converted", "fresh"))
        yield "weights", f"from run {start['run']} at step {start['step']}: {counts} tensors"
    yield (
        "training",
        f"{facts['steps']:,} steps of {facts['tokens_per_step']:,} tokens: {facts['tokens']:,} tokens, "
        f"{facts['epochs']:.2f} epochs; seed {facts['seed']}",
    )
    yield (
        "data",
        f"{data['train_tokens']:,} train, {data['val_tokens']:,} val, {data['test_tokens']:,} test tokens; "
        f"{data['split']}",
    )
    threads = f"{facts['threads']} thread{'' if facts['threads'] == 1 else 's'}"
    path = " and ".join(facts["attention_path"])
    compiled = "compiled" if facts["compile"] else "not compiled"
    yield "machine", f"{facts['device']} in {facts['precision']}, {threads}; attention by {path}; {compiled}"


def _value(value: Any) -> str:
    """A setting as it would be typed."""
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))
