"""One run from a configuration to its folder: found by identity, resumed where it stopped, never done twice."""

import logging
import shutil
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lab.config import Device, RunConfig
from lab.errors import LabError, Stopped
from lab.files import remove_temporaries, write_json
from lab.match import facts as match_facts
from lab.paths import runs_dir
from lab.progress import progress
from lab.runs import attempts
from lab.runs.metrics import JsonLines, whole_lines
from lab.runs.store import RunFolder
from lab.track import Guarded, Tracker
from lab.track.none import Silent
from lab.training import summary
from lab.training.checkpoint import load_newest
from lab.training.company import NOBODY, Company
from lab.training.distributed import ignore_signals, joined
from lab.training.endings import peak_memory_mib, reason_of, thin_out_quietly, write_ending
from lab.training.evaluate import Evaluator
from lab.training.layer_stats import watched_layers
from lab.training.loop import Course, Loop, Outcome, go_through
from lab.training.plan import Plan, plan
from lab.training.ranks import ALONE, Found, Ranks
from lab.training.recorder import Lines, Nowhere, Recorder
from lab.training.run_log import run_log
from lab.training.state import TrainState, new_state

STEPS_AT_ONCE_ON_A_GPU = 16
"""Steps whose numbers are read from a GPU together."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trained:
    """What came of a call."""

    result: dict[str, Any]
    """As in ``result.json``."""
    folder: Path
    was_done: bool
    """Whether the run existed, finished or diverged, and nothing was trained."""


def train(config: RunConfig, target: RunConfig | None = None) -> Trained:
    """Train a run to its end, or find that it is done; ``target`` is what it is to be matched to.

    Raises:
        LabError: the configuration is refused, the run is held by another process, or it failed.
        Stopped: the process was asked to stop; the run is saved and can be resumed.
    """
    with joined(config.device) as ranks:
        planned = ranks.in_turn(lambda: plan(config, target))
        assert planned.config.threads is not None
        torch.set_num_threads(ranks.threads(planned.config.threads))
        if ranks.first:
            ranks.check(planned.config.train)
            return go_through(course(config, planned, ranks))
        if ranks.begin():
            _helped(planned, ranks)
        return Trained({}, folder_of(planned).path, was_done=False)


def folder_of(planned: Plan) -> RunFolder:
    """Where a run is kept."""
    return RunFolder(runs_dir() / planned.run_id)


def course(config: RunConfig, planned: Plan, ranks: Ranks = ALONE, company: Company = NOBODY) -> Course[Trained]:
    """What the first rank does, or the only one: it holds the run, and all that is written and said is its.

    Raises:
        LabError: the run is held by another process, or it failed.
        Stopped: the process was asked to stop.
    """
    folder = folder_of(planned)
    for remark in planned.outline.remarks(planned.architecture):
        log.warning("%s", remark)
    if not config.fresh and (result := finished(folder)) is not None:
        return _already(result, folder)
    with folder.locked(), run_log(folder):
        if not config.fresh and (result := finished(folder)) is not None:  # another process was quicker
            return _already(result, folder)
        if config.fresh:
            _clear(folder)
        result = yield from _recorded(planned, folder, ranks, company)
        return Trained(result, folder.path, was_done=False)


def _helped(planned: Plan, ranks: Ranks) -> None:
    """What another rank does: it computes its share and writes nothing."""
    recorder = _recorder(planned.config, Nowhere(), Nowhere(), Silent(), None)
    go_through(_looped(planned, _state(planned), recorder, None, ranks, NOBODY))
    ranks.largest(peak_memory_mib(planned.config.device))
    ranks.leave()


def _recorded(planned: Plan, folder: RunFolder, ranks: Ranks, company: Company) -> Course[dict[str, Any]]:
    """Train with the result on disk at every moment saying what is known.

    Raises:
        LabError: the run failed.
        Stopped: the process was asked to stop.
    """
    result = _opening(planned)
    tracker = Guarded(lambda: planned.config.track.build(planned.run_id, planned.config.as_dict(), folder.path))
    attempt = attempts.begin(folder, commit=result["env"]["commit"])

    def failed(reason: str) -> str:
        write_ending(folder, tracker, {**result, "status": "failed", "reason": reason})
        attempt.end("failed", reason)
        return f"run {planned.run_id} failed: {reason}; see {folder.log}"

    ranks.when_one_fails(failed)
    ranks.begin()
    try:
        found = _begin(planned, folder, result, ranks.size, company.size)
        state = _state(planned)
        result["hashes"]["tensors"] = summary.tensor_hashes(state.model)
        if found is not None:
            state.load(*found)
            log.info("  resumed from step %d", state.step)
        attempt.from_step(state.step)
        outcome = yield from _trained(planned, folder, state, tracker, ranks, company)
        peak = ranks.largest(peak_memory_mib(planned.config.device)) if result["stacked"] == [1] else None
        ranks.leave()
        ended = result | summary.closing(planned.config, folder, outcome) | {"peak_memory_mib": peak}
        folder.write_result(ended)
    except Stopped as stop:
        write_ending(folder, tracker, {**result, "status": "partial"})
        attempt.end("partial", f"stopped by {signal.Signals(stop.signal_number).name}")
        raise
    except KeyboardInterrupt:
        attempt.end(attempts.KILLED, "a second signal while it was being stopped")
        raise
    except Exception as error:
        if ranks.size > 1:
            ignore_signals()
        log.debug("%s", traceback.format_exc())
        raise LabError(failed(reason_of(error))) from error
    attempt.end(ended["status"], ended["reason"])
    tracker.finish(ended)
    _say(summary.closing_lines(ended))
    thin_out_quietly(folder, planned.config.checkpoint.after)
    if outcome.signal_number is not None:
        raise Stopped(f"run {planned.run_id} had ended, stopped after it", outcome.signal_number)
    return ended


def _opening(planned: Plan) -> dict[str, Any]:
    """The result before the first step."""
    return {
        **summary.opening(planned.config, planned.outline, planned.tokens, planned.batches),
        "id": planned.run_id,
        "match": match_facts(planned.config.match, planned.match) if planned.match else None,
        "init_from": planned.start.facts() if planned.start else None,
    }


def _begin(planned: Plan, folder: RunFolder, result: dict[str, Any], ranks: int, stacked: int) -> Found | None:
    """Write what the folder holds from the first step on, and say what is about to be trained, and from where."""
    found = _checkpoint(planned.config, folder)
    before = (folder.result() or {}) if found is not None else {}
    result["ranks"] = _so_far(before.get("ranks", [1] if before else []), ranks)
    result["stacked"] = _so_far(before.get("stacked", [1] if before else []), stacked)
    if found is not None:
        result["env"]["earlier"] = summary.earlier_versions(folder)
    remove_temporaries(folder.path)
    remove_temporaries(folder.checkpoints)
    write_json(folder.path / "config.json", planned.config.as_dict())
    write_json(folder.path / "env.json", summary.environment())
    shutil.copyfile(planned.tokens.tokenizer_file, folder.path / "tokenizer.json")
    folder.write_result(result)
    log.info("run %s in %s", planned.run_id, folder.path)
    _say(summary.opening_lines(result))
    _say(planned.start.lines() if planned.start else [])
    return found


def _checkpoint(config: RunConfig, folder: RunFolder) -> Found | None:
    """The newest one that training can go on from."""
    done = len(whole_lines(folder.metrics))
    return load_newest(folder.checkpoints, most_steps=done, complete_below=config.train.steps)


def _so_far(before: list[int], now: int) -> list[int]:
    """The numbers of ranks, or of runs in a stack, that a run was trained with, in their order."""
    return before if before[-1:] == [now] else [*before, now]


def _state(planned: Plan) -> TrainState:
    """Step zero."""
    if planned.config.device is Device.cuda:
        torch.cuda.reset_peak_memory_stats()  # an earlier run of this process is not this run's peak
    state = new_state(planned.config, planned.architecture)
    if planned.start is not None:
        planned.start.transfer.apply(state.model)
    return state


def _trained(
    planned: Plan, folder: RunFolder, state: TrainState, tracker: Tracker, ranks: Ranks, company: Company
) -> Course[Outcome]:
    """Run the loop and write what comes of it."""
    metrics, timing = (JsonLines(file, keep_steps=state.step) for file in (folder.metrics, folder.timing))
    state.layers, layers = watched_layers(planned.config, folder, state.step)
    recorder = _recorder(planned.config, metrics, timing, tracker, layers)
    return (yield from _looped(planned, state, recorder, folder.checkpoints, ranks, company))


def _recorder(config: RunConfig, metrics: Lines, timing: Lines, tracker: Tracker, layers: Lines | None) -> Recorder:
    return Recorder(
        metrics,
        timing,
        tracker,
        layers,
        steps_at_once=1 if config.device is Device.cpu else STEPS_AT_ONCE_ON_A_GPU,
        tokens_per_step=config.train.batch_size * config.model.max_seq_len,
    )


def _looped(
    planned: Plan,
    state: TrainState,
    recorder: Recorder,
    checkpoints: Path | None,
    ranks: Ranks,
    company: Company,
) -> Course[Outcome]:
    """The loop of any rank, from the first one's state on."""
    config, tokens = planned.config, planned.tokens
    if ranks.size > 1:
        state.load(*ranks.from_first((state.tensors(), state.step)))
    evaluator = Evaluator(
        tokens.val,
        n_bytes=tokens.bytes["val"],
        seq_len=config.model.max_seq_len,
        device=config.device,
        precision=config.precision,
        ranks=ranks,
    )
    loop = Loop(config, state, planned.batches, evaluator, recorder, checkpoints, ranks)
    label = f"run {planned.run_id}"
    try:
        with company.asked() as request, progress(label, total=config.train.steps, done=state.step) as bar:
            return (yield from loop.run(bar, request))
    finally:
        recorder.close()


def _say(lines: Sequence[str]) -> None:
    for line in lines:
        log.info("  %s", line)


def _already(result: dict[str, Any], folder: RunFolder) -> Trained:
    log.info("run %s is done already, nothing to train (fresh=true starts again)", folder.path.name)
    _say(summary.closing_lines(result))
    return Trained(result, folder.path, was_done=True)


def finished(folder: RunFolder) -> dict[str, Any] | None:
    """The result of a run that has nothing left to train."""
    result = folder.result()
    return result if result is not None and result["status"] in ("done", "diverged") else None


def _clear(folder: RunFolder) -> None:
    """Remove what an earlier run left, but for the lock that is held and the log that is open."""
    (folder.path / "result.json").unlink(missing_ok=True)  # first: a result without the rest would be believed
    for path in folder.path.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("lock", folder.log.name):
            path.unlink()
