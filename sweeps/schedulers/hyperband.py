"""Hyperband: brackets of trials that wait for each other at each rung, where the best go on.

Li et al., 2018, https://arxiv.org/abs/1603.06560. Fills and halves its brackets as Ray's
HyperBandForBOHB does (the widest first, trials wait although theirs is not full yet; a test compares
them), with three differences: the first rung is --grace-epochs and the others are whole multiples of it
(Ray's truncated powers lose one for 243 / 3); a bracket takes no trial in place of one that ended (Ray's
do, at whatever rung they are); and all is read from the record, so brackets survive the driver (Ray's
begin anew after a restore, and end trials at epochs that are no rung, ray#30838).
"""

from __future__ import annotations

from typing import Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from sweeps.common.formatting import count
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search import brackets
from sweeps.search.fifo_scheduler import FifoScheduler, live


def build(config: SweepConfig, record: Record) -> TrialScheduler:
    """Hyperband over the rungs of the config, judging by the record."""
    return Hyperband(config, record)


def describe(config: SweepConfig) -> str:
    return f"hyperband: {in_words(config)}"


def in_words(config: SweepConfig) -> str:
    """The brackets, for the plan."""
    if len(brackets.band(config)) == 1:
        return f"no rung before the end at {config.max_epochs} epochs, so nothing is pruned"
    first, *others = [
        f"{count(size, 'trial') if not number else size} "
        + (f"judged from epoch {judged[0]}" if judged else f"never (all to the end at {config.max_epochs})")
        for number, (size, judged) in enumerate(brackets.band(config))
    ]
    return (
        f"brackets of {', '.join([first, *others])}; the best 1/{config.reduction_factor} of a bracket go on"
    )


def ends_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    """Whether the trial, which reported this epoch, was stopped there."""
    return number in record.scores_at(epoch) and brackets.verdict(config, record, number, epoch) == "ends"


def waits_at(config: SweepConfig, record: Record, number: int, epoch: int) -> bool:
    """Whether the trial, which reported this epoch, waits for others of its bracket."""
    return number in record.scores_at(epoch) and brackets.verdict(config, record, number, epoch) == "waits"


expected_epochs = brackets.expected_epochs


class Hyperband(FifoScheduler):
    """Pauses a trial at a rung until all of its bracket are there, then runs the best ones on."""

    def __init__(self, config: SweepConfig, record: Record) -> None:
        super().__init__()
        self._config = config
        self._record = record

    def judge(self, number: int, epoch: int, score: float) -> str:
        """STOP, PAUSE or CONTINUE."""
        decided = brackets.verdict(self._config, self._record, number, epoch, score)
        words = {"goes on": TrialScheduler.CONTINUE, "waits": TrialScheduler.PAUSE}
        return str(words.get(decided, TrialScheduler.STOP))

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Who runs next: the oldest new trial, else one that was promoted.

        Asked in each turn of Tune's loop, so here those end that their bracket left behind.
        """
        promoted = []
        for trial in live(tune_controller):
            if trial.status == Trial.PAUSED and (decided := self._verdict(trial)) != "waits":
                if decided == "goes on":
                    promoted.append(trial)
                else:
                    tune_controller.stop_trial(trial)
        return super().choose_trial_to_run(tune_controller) or next(iter(promoted), None)

    def _verdict(self, trial: Trial) -> brackets.Verdict:
        number = trial.config["number"]
        last = max(self._record.trials[number].epochs, default=0)
        return brackets.verdict(self._config, self._record, number, last)
