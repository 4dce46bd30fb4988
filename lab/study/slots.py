"""How many runs this machine has room for at once, and on which GPU each is put."""

import os


def slots(n_jobs: int | None, *, jobs_per_gpu: int, device: str, threads: int) -> list[dict[str, str]]:
    """One entry for each run at a time: on GPUs ``jobs_per_gpu`` each, else a usable core for each of its threads.

    Args:
        n_jobs: so many instead.
        jobs_per_gpu: runs that share a GPU.
        device: what the runs ask for.
        threads: of one run.
    """
    gpus = _gpus() if device in ("auto", "cuda") else []
    if gpus:
        return [{"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)]} for i in range(n_jobs or jobs_per_gpu * len(gpus))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [{}] * (n_jobs or max(1, cores // threads))


def _gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    given = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return (given or [str(number) for number in range(count)])[:count]
