"""What an epoch costs, in numbers that a record keeps and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PARTS = ("data_wait", "transfer", "forward", "backward", "optimizer", "checkpoint")
"""Of a training step and of what stands between steps."""
COSTS = (
    *(f"{part}_pct" for part in PARTS),  # of the epoch's time, validation included
    "cpu_busy_pct",  # of the process's PyTorch threads
    "gpu_util_pct",  # by NVML, of all processes of the GPU
    "memory_gb",  # of the process, without mapped files, when the epoch ended
    "gpu_memory_gb",  # of the process, the epoch's peak
)
"""All names; without a GPU two of them are missing."""
DATA_BOUND_PCT = 20.0
"""Of an epoch, from which waiting for data is worth a word."""
GPU_BUSY_PCT = 80.0
"""From which a GPU has enough to do: the host that waits then has queued its work."""
ADVICE = {
    "data-bound": "prepare the data or add loader workers",
    "host-bound": "the GPU waits for the CPU that launches its work: give a larger batch, or --compile",
}


def mean_costs(epochs: Iterable[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Of several epochs (seconds, costs): shares as the mean over time, memory as its peak."""
    rows, found = list(epochs), {}
    for name in COSTS:
        known = [(seconds, costs[name]) for seconds, costs in rows if name in costs]
        whole = sum(seconds for seconds, _ in known)
        if name.endswith("_pct") and whole:
            found[name] = sum(seconds * value for seconds, value in known) / whole
        elif known:
            found[name] = max(value for _, value in known)
    return found


def bound(costs: Mapping[str, float]) -> tuple[str, str]:
    """What holds a run back, and the shares that say so.

    Args:
        costs: some of `COSTS`; without `gpu_util_pct` it ran on a CPU, or NVML was not there.
    """
    waits, busy = costs.get("data_wait_pct", 0.0), costs.get("gpu_util_pct")
    waiting = f"the step waits {waits:.0f} % of the time for its batch"
    if busy is None:
        return "data-bound" if waits >= DATA_BOUND_PCT else "compute-bound", waiting
    if busy >= GPU_BUSY_PCT:
        return "compute-bound", f"the GPU is busy {busy:.0f} % of the time"
    what = "data-bound" if waits >= DATA_BOUND_PCT else "host-bound"
    return what, f"{waiting}, the GPU is busy {busy:.0f} % of it"


def verdict(costs: Mapping[str, float], *, is_prepared: bool = False) -> str:
    """What the costs of a run say, in words, and what to do.

    Args:
        costs: some of `COSTS`.
        is_prepared: the data has been prepared already.
    """
    what, why = bound(costs)
    advice = ADVICE.get(what, "")
    if is_prepared:
        advice = advice.removeprefix("prepare the data or ")
    return f"{what}: {why}" + (f"; {advice}" if advice else "")


def where_time_went(costs: Mapping[str, float]) -> str:
    """The shares of the parts of an epoch, and how busy what computed was, in a line."""
    busy = "gpu_util_pct" if "gpu_util_pct" in costs else "cpu_busy_pct"
    shown = [*(f"{part}_pct" for part in PARTS), busy]
    words = {name: name.removesuffix("_pct").replace("_", " ").replace("cpu", "CPU") for name in shown}
    return ", ".join(f"{words[name]} {costs[name]:.0f} %" for name in shown if name in costs)
