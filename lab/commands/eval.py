"""Score a finished run as it is, on other data or lengths, or with a part taken away."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lab.commands._parser import Parser
from lab.commands._runs import add_run

if TYPE_CHECKING:
    from lab.training.load import Loaded
    from lab.training.score import Score


def main(argv: list[str]) -> int:
    """Run ``lab eval``; the exit status.

    Raises:
        LabError: there is no such run, an override is refused, or the weights do not make that model.
    """
    parser = _parser()
    options = parser.parse_with_overrides(argv)
    if options.positions < 1:
        parser.error(f"--positions '{options.positions}' must be at least 1")

    from lab.commands._changes import changed
    from lab.runs.find import find_run

    folder = find_run(options.run)

    from lab.training.load import load_model
    from lab.training.score import score

    loaded = load_model(folder)
    config = changed(loaded.config, options.overrides, config_dir=options.config_dir)
    facts = _facts(loaded, score(loaded, config, n_buckets=options.positions), options.overrides)
    if options.format == "json":
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        print("\n".join(_lines(facts)))
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="lab eval",
        description=f"{__doc__} The run's own tokenizer and weights are used; nothing is trained or written.",
    )
    add_run(parser)
    parser.add_argument(
        "overrides",
        metavar="OVERRIDE",
        nargs="*",
        help="what is to differ from the run: stability=none, data=text data.file=book.txt, model.max_seq_len=512 "
        "(the windows' length), position.scaling=yarn position.factor=4",
    )
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="a folder with configuration files of your own")
    parser.add_argument(
        "--positions",
        metavar="N",
        type=int,
        default=8,
        help="ranges of positions to split the loss by (default: 8)",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="a page for people, or JSON (default: text)",
    )
    return parser


def _facts(loaded: "Loaded", score: "Score", overrides: Sequence[str]) -> dict[str, Any]:
    """All that is known of a scoring."""
    from dataclasses import asdict

    from lab.training.transfer import grouped

    config, found, own = score.config, score.evaluation, score.own_loss
    moved = score.transfer
    return {
        "run": loaded.result["id"],
        "step": loaded.step,
        "overrides": list(overrides),
        "loss": found.loss,
        "standard_error": score.standard_error,
        "bits_per_byte": found.bits_per_byte,
        "own_loss": own,
        "change": None if own is None else found.loss - own,
        "positions": [asdict(bucket) for bucket in score.positions],
        "seq_len": config.model.max_seq_len,
        "trained_seq_len": loaded.config.model.max_seq_len,
        "tokens": score.n_tokens,
        "documents": score.tokens.documents["val"],
        "data": {"name": config.data.name, "hash": score.tokens.data_hash, "split": score.tokens.note},
        "device": str(config.device),
        "precision": str(config.precision),
        "weights": {
            "loaded": grouped(moved.loaded),
            "converted": grouped(moved.converted),
            "kept": grouped(moved.fresh),
            "dropped": grouped(moved.dropped),
        },
    }


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """The page for people."""
    words = " ".join(facts["overrides"])
    yield f"run {facts['run']} at step {facts['step']}{f' with {words}' if words else ''}"
    weights = facts["weights"]
    for part, text in (
        ("dropped", "taken away"),
        ("converted", "converted"),
        ("kept", "not in the run, at the value that the module starts with"),
    ):
        if weights[part]:
            yield f"  {text}: {', '.join(_counted(weights[part]))}"
    error = facts["standard_error"]
    spread = "" if error is None else f" ± {error:.4f} (standard error over documents)"
    bits = "" if facts["bits_per_byte"] is None else f", {facts['bits_per_byte']:.4f} bits per byte"
    yield f"loss {facts['loss']:.4f} nats/token{spread}{bits}"
    if facts["change"] is not None:
        yield f"  {facts['change']:+.4f} against the run's final loss {facts['own_loss']:.4f}"
    elif facts["own_loss"] is None:
        yield "  no comparison: other data than the run's, or a run without a final loss"
    yield (
        f"{facts['tokens']:,} tokens of the val split of {facts['data']['name']}, {facts['documents']} "
        f"document{'' if facts['documents'] == 1 else 's'}, in windows of {facts['seq_len']} that do not overlap"
        + (f" (trained at {facts['trained_seq_len']})" if facts["seq_len"] != facts["trained_seq_len"] else "")
        + f"; {facts['device']} in {facts['precision']}"
    )
    yield "by position in the window, and against the whole:"
    yield from _table(facts["positions"], facts["loss"])


def _counted(groups: Mapping[str, int]) -> list[str]:
    return [name if count == 1 else f"{name} ({count})" for name, count in groups.items()]


def _table(buckets: Sequence[Mapping[str, Any]], whole: float) -> Iterator[str]:
    """One line for each range of positions."""
    labels = [f"{b['first']}–{b['last']}" if b["last"] > b["first"] else str(b["first"]) for b in buckets]
    width = max(map(len, labels))
    for label, bucket in zip(labels, buckets, strict=True):
        loss = bucket["loss"]
        yield f"  {label:>{width}}  {'—' if loss is None else f'{loss:.4f}  {loss - whole:+.4f}'}"
