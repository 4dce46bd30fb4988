"""Say what this machine is good for, what `auto` chooses on it and why, and what is wrong."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from lab.commands._parser import Parser
from lab.errors import LabError

PIPE_WIDTH = 100
"""Columns where the output is no terminal."""

LENGTHS = (128, 256, 512, 1024, 2048)
"""Tokens for which the path of attention is told."""

GIB = 2**30


def main(argv: list[str]) -> int:
    """Run ``lab doctor``; the exit status, 1 where ``lab train`` would fail."""
    options = _parser().parse_args(argv)
    from lab.commands._services import least
    from lab.commands._warnings import warnings

    facts = examine()
    found = warnings(facts, least("torch"))
    facts["warnings"] = [asdict(one) for one in found]
    if options.format == "json":
        print(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print(_page(facts))
    failing = [one.what for one in found if one.fails]
    for what in failing:
        print(f"lab doctor: lab train would fail: {what}", file=sys.stderr)
    return 1 if failing else 0


def _parser() -> Parser:
    parser = Parser(
        prog="lab doctor",
        description=f"{__doc__} It takes about three seconds; speeds are measured, and what is chosen is asked of "
        "the code that chooses. The exit status is 1 where lab train would fail.",
    )
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="a page for people, or JSON (default: text)"
    )
    return parser


def examine() -> dict[str, Any]:
    """All that is known of this machine."""
    from lab.commands._services import extras, missing, services
    from lab.paths import cache_dir, outputs_dir
    from lab.training.machine import disk, machine, speed

    facts = machine()
    chosen = choose()
    return {
        **facts,
        "speed": speed(chosen["device"] or "cpu", chosen["threads"] or facts["processor"]["usable_cores"]),
        "disk": {"outputs": disk(outputs_dir()), "cache": disk(cache_dir())},
        "services": services(),
        "extras": extras(),
        "missing": missing(),
        "chosen": chosen,
    }


def choose() -> dict[str, Any]:
    """What a run without overrides comes to here, by the code that decides it."""
    from lab.commands._cost import THREADS
    from lab.compose import compose_config
    from lab.model.attention_path import choose as choose_path
    from lab.study.slots import slots
    from lab.training.compiled import FROM_STEPS, missing
    from lab.training.resolve import bf16_is_faster, resolve

    try:
        config = resolve(compose_config([]))
    except LabError as error:
        keys = ("device", "precision", "threads", "attention_path", "compile", "sweep", "bf16_is_faster")
        return {"error": str(error), **dict.fromkeys(keys)}
    device, precision = config.device, config.precision
    of_a_run = int(THREADS.rpartition("=")[2])
    places = slots(None, jobs_per_gpu=1, device=str(device), threads=of_a_run)
    return {
        "error": None,
        "device": str(device),
        "precision": str(precision),
        "bf16_is_faster": bf16_is_faster(device),
        "threads": config.threads,
        "sweep": {"slots": len(places), "threads": of_a_run},
        "attention_path": {
            str(length): choose_path(device=device, precision=precision, seq_len=length) for length in LENGTHS
        },
        "compile": {"from_steps": FROM_STEPS, "lacks": missing(device)},
    }


def _page(facts: Mapping[str, Any]) -> str:
    """One page."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH
    blocks = [[*_machine(facts), *_speed(facts), *_around(facts)], list(_choices(facts["chosen"]))]
    blocks.append(
        [("fails" if one["fails"] else "warning", f"{one['what']}: {one['do']}") for one in facts["warnings"]]
        or [("warnings", "none")]
    )
    label = max(len(name) for block in blocks for name, _ in block) + 2
    return "\n\n".join(
        "\n".join(
            textwrap.fill(
                text,
                width,
                initial_indent=name.ljust(label),
                subsequent_indent=" " * label,
                break_long_words=False,
                break_on_hyphens=False,
            )
            for name, text in block
        )
        for block in blocks
    )


def _machine(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cpu, memory, torch = facts["processor"], facts["memory"], facts["torch"]
    cores = f"{cpu['usable_cores']} of {cpu['logical_cores']} cores usable"
    if cpu["cores"]:
        cores += f", {cpu['cores']} physical"
    if cpu["quota"] is not None:
        cores += f", time of {cpu['quota']:.1f}"
    yield "processor", f"{cpu['name']}; {cores}"
    yield "instructions", f"{', '.join(cpu['instructions']) or 'unknown'}; torch uses {cpu['capability']}"
    parts = [f"{_gib(memory['total'])} in all", f"{_gib(memory['available'])} available"]
    if memory["limit"] is not None:
        parts.append(f"limited to {_gib(memory['limit'])}")
    if memory["swapped"]:
        parts.append(f"{_gib(memory['swapped'])} swapped out")
    yield "memory", ", ".join(parts)
    for gpu in facts["gpus"]:
        yield "GPU", f"{gpu['name']}, {_gib(gpu['bytes'])}, {'' if gpu['bf16'] else 'no '}bf16"
    if not facts["gpus"]:
        yield "GPU", "none that torch can use"
    onednn = "with oneDNN" if torch["mkldnn"] else "without oneDNN"
    cuda = f", CUDA {torch['cuda']}" if torch["cuda"] else ", built without CUDA"
    yield "torch", f"{torch['version']}, BLAS {torch['blas']}, {onednn}{cuda}; Python {torch['python']}"


def _speed(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    speed = facts["speed"]
    words = [
        f"{'too few' if one['flops_per_s'] is None else format(one['flops_per_s'] / 1e9, ',.0f')} in "
        f"{one['precision']} at {one['size']} × {one['size']}"
        for one in speed["products"]
    ]
    where = "the GPU" if speed["device"] == "cuda" else _threads(speed["threads"])
    yield "products", f"GFLOP/s on {where}: {', '.join(words)}"
    yield "bandwidth", f"{speed['bytes_per_s'] / 1e9:,.1f} GB/s read and written by a copy"
    for name, place in facts["disk"].items():
        told = "cannot be written to"
        if place["reason"] is None:
            told = f"{_gib(place['free'])} free, {place['bytes_per_s'] / 1e6:,.0f} MB/s written and synced"
        yield name, f"{place['folder']}: {told}"


def _around(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    services = facts["services"]
    yield "Slurm", services["slurm"] or "none here: sweeps run in this machine's own processes"
    wandb = services["wandb"]
    key = "a key" if wandb["key"] else "no key"
    reached = f"offline by WANDB_MODE={wandb['mode']}"
    if wandb["answers"] is not None:
        reached = f"{wandb['server']} {'answers' if wandb['answers'] else 'does not answer'}"
    online = wandb["key"] and wandb["answers"]
    yield "W&B", f"{key}, {reached}: track=wandb would be {'online' if online else 'offline'}"
    hub = services["hub"]
    reached = f"offline by {hub['offline_by'][0]}" if hub["offline_by"] else f"{hub['server']} does not answer"
    yield "HF hub", f"{hub['server']} answers" if hub["answers"] else f"{reached}; nothing of lab needs it"
    found = facts["extras"]
    have = [name for name, here in found.items() if here]
    lack = [name for name, here in found.items() if not here]
    words = [", ".join(have) or "none"]
    words += [f"not installed: {', '.join(lack)} (pip install 'ablation-lab[NAME]')"] if lack else []
    yield "extras", "; ".join(words)


def _choices(chosen: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What ``auto`` comes to, with the fact that decides it."""
    if chosen["error"] is not None:
        yield "auto", chosen["error"]
        return
    device, precision = chosen["device"], chosen["precision"]
    why = {"cuda": "a CUDA GPU is there", "mps": "no CUDA GPU, but Apple's", "cpu": "no GPU that torch can use"}
    yield "device", f"{device}: {why[device]}"
    faster = "faster" if chosen["bf16_is_faster"] else "not faster"
    yield "precision", f"{precision}: matrix products in bf16 are {faster} on this {device}"
    yield "threads", f"{_threads(chosen['threads'])} for a single run: every core that this process may use"
    sweep = chosen["sweep"]
    at_once = f"{sweep['slots']} run{'' if sweep['slots'] == 1 else 's'} at once, {_threads(sweep['threads'])} each"
    yield "sweep", f"{at_once}: {'one a GPU' if device == 'cuda' else 'one a core'}"
    lengths: dict[str, list[str]] = {}
    for length, path in chosen["attention_path"].items():
        lengths.setdefault(path, []).append(length)
    told = "; ".join(f"{path} at T = {', '.join(found)}" for path, found in lengths.items())
    yield "attention", f"{told}: by the shipped table for {device} and {precision}"
    compiles = chosen["compile"]
    told = f"runs of {compiles['from_steps']:,} steps or more, where it pays for the time it takes"
    yield "compile", f"never: {compiles['lacks']} is missing" if compiles["lacks"] else told


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / GIB:,.1f} GiB"


def _threads(number: int) -> str:
    return f"{number} thread{'' if number == 1 else 's'}"
