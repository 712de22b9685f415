"""Costs of an epoch: their names, means, what they say about the bottleneck, and memory that grows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sweeps.common.formatting import GB, size

PARTS = ("data_wait", "transfer", "forward", "backward", "optimizer", "checkpoint")
"""Parts of an epoch's time."""
COSTS = (
    *(f"{part}_pct" for part in PARTS),  # of the epoch's time, validation included
    "cpu_busy_pct",  # of the process's PyTorch threads
    "gpu_util_pct",  # by NVML, over all processes of the GPU
    "memory_gb",  # of the process, without mapped files, at the end of the epoch
    "gpu_memory_gb",  # of the process, peak of the epoch
)
"""All names; without a GPU two of them are missing."""
DATA_BOUND_PCT = 20.0
"""Share of an epoch spent waiting for data, from which a run is data-bound."""
GPU_BUSY_PCT = 80.0
"""Utilization from which a GPU is the bottleneck."""
ADVICE = {
    "data-bound": "prepare the data or add loader workers",
    "host-bound": "the GPU waits for the CPU that launches its work: try a larger batch, or --compile",
}
WARM_UP_EPOCHS = 2
"""First epochs, in which caches fill and allocators settle."""
GROWING_EPOCHS = 5
"""Consecutive epochs of growth that count as a leak."""
LEAST_GROWTH_GB = 0.002
"""Per epoch; less is noise of the allocator."""
_WATCHED = {"memory_gb": "the process", "gpu_memory_gb": "the GPU"}


def mean_costs(epochs: Iterable[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Costs of several epochs (seconds, costs): percentages as means over time, memory as its maximum."""
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
    """The bottleneck of a run, and the percentages that show it.

    Args:
        costs: some of `COSTS`; `gpu_util_pct` is missing on a CPU and without NVML.
    """
    waits, busy = costs.get("data_wait_pct", 0.0), costs.get("gpu_util_pct")
    waiting = f"training waits {waits:.0f} % of the time for data"
    if busy is None:
        return "data-bound" if waits >= DATA_BOUND_PCT else "compute-bound", waiting
    if busy >= GPU_BUSY_PCT:
        return "compute-bound", f"the GPU is busy {busy:.0f} % of the time"
    what = "data-bound" if waits >= DATA_BOUND_PCT else "host-bound"
    return what, f"{waiting}, the GPU is busy {busy:.0f} % of it"


def verdict(costs: Mapping[str, float], *, is_prepared: bool = False) -> str:
    """The bottleneck of a run in words, and what to do; "" where the parts of its time are not known."""
    if "data_wait_pct" not in costs:
        return ""
    what, why = bound(costs)
    advice = ADVICE.get(what, "")
    if is_prepared:
        advice = advice.removeprefix("prepare the data or ")
    return f"{what}: {why}" + (f"; {advice}" if advice else "")


def where_time_went(costs: Mapping[str, float]) -> str:
    """The time breakdown in a line."""
    busy = "gpu_util_pct" if "gpu_util_pct" in costs else "cpu_busy_pct"
    shown = [*(f"{part}_pct" for part in PARTS), busy]
    words = {name: name.removesuffix("_pct").replace("_", " ").replace("cpu", "CPU") for name in shown}
    return ", ".join(f"{words[name]} {costs[name]:.0f} %" for name in shown if name in costs)


class Growth:
    """Detects memory that grows in every epoch."""

    def __init__(self) -> None:
        self._epochs = 0
        self._growing: defaultdict[str, list[float]] = defaultdict(list)
        """GB of the last epochs, each larger than the one before."""

    def note(self, costs: Mapping[str, float]) -> str:
        """Add an epoch's memory (`memory_gb`, `gpu_memory_gb`); returns a warning, mostly ""."""
        self._epochs += 1
        warnings = []
        for name in _WATCHED.keys() & costs.keys() if self._epochs > WARM_UP_EPOCHS else ():
            growing, now = self._growing[name], costs[name]
            if growing and now - growing[-1] < LEAST_GROWTH_GB:
                growing.clear()
            growing.append(now)
            if len(growing) > GROWING_EPOCHS:
                mean = size(GB * (now - growing[0]) / GROWING_EPOCHS)
                warnings.append(
                    f"the memory of {_WATCHED[name]} grew in each of the last {GROWING_EPOCHS} epochs, by "
                    f"{mean} per epoch, to {size(GB * now)}. Look for tensors kept across epochs: losses "
                    "summed without .detach(), or a list that only grows"
                )
                growing.clear()  # the next warning needs as many epochs again
        return "; ".join(warnings)
