"""Kill a real driver with SIGKILL at random moments, resume it, and check that nothing was lost.

A moment is either a time after the start (in which Ray starts and nothing is trained yet) or a number
of bytes that the record has grown by (in the middle of the training, wherever that is).
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeps.common.objective import Losses
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.schedulers.asha import continues
from tests import ROOT

MOST_RUN_S = 240


@dataclass
class Murderer:
    """Runs one sweep to its end, killing its driver on the way."""

    folder: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    generator: random.Random
    most_bytes: int
    """That the record grows by before a kill, at most."""
    cwd: Path = ROOT
    resume: Sequence[str] = ()
    """Flags of a resume."""
    kills: int = 0
    log: list[str] = field(default_factory=list)

    def run(self, kills: int) -> subprocess.CompletedProcess[str]:
        """Kill so many times (fewer when the sweep ends before), then run to the end."""
        seen: dict[int, TrialRow] = {}
        again: Counter[str] = Counter()
        for _ in range(kills):
            if not self._kill_once():
                break
            self.kills += 1
            seen = check_nothing_is_lost(self.folder, seen)
            self._check_no_ended_trial_trains(seen, again)
        self._leave_debris()
        output = self.folder.parent / "last-run.txt"
        with output.open("w") as file:
            done = subprocess.run(
                self.command(),
                cwd=self.cwd,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=MOST_RUN_S,
                check=False,
            )
        check_nothing_is_lost(self.folder, seen)
        self._check_no_ended_trial_trains(seen, again)
        return subprocess.CompletedProcess(done.args, done.returncode, output.read_text())

    def _leave_debris(self) -> None:
        """All that a dying driver can leave, at once: a torn line, a lock, half-written tables."""
        if not (self.folder / JOURNAL).is_file():
            return
        with (self.folder / JOURNAL).open("ab") as record:
            record.write(b'{"op_code":8,"worker_id":"a","trial_')
        if not (lock := self.folder / f"{JOURNAL}.lock").is_symlink():
            lock.symlink_to(self.folder / JOURNAL)
        for name in ("trials.parquet", ".trials.parquet.part", "epochs.parquet"):
            (self.folder / name).write_bytes(b"PAR1 and no more")

    def command(self) -> list[str]:
        """What a user would type now."""
        begun = (self.folder / JOURNAL).is_file()
        new = [*self.arguments, "--name", self.folder.name, "--results-dir", str(self.folder.parent)]
        arguments = ["--resume", str(self.folder), *self.resume] if begun else new
        return [sys.executable, "-m", "sweeps.run", *arguments]

    def _kill_once(self) -> bool:
        """Whether it was killed before it ended by itself."""
        journal = self.folder / JOURNAL
        size = journal.stat().st_size if journal.is_file() else 0
        early = self.generator.random() < 0.25
        seconds = self.generator.uniform(0, 10) if early else math.inf
        growth = math.inf if early else self.generator.randrange(self.most_bytes)
        with (self.folder.parent / "killed-runs.txt").open("a") as output:
            driver = subprocess.Popen(
                self.command(), cwd=self.cwd, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
        began = time.monotonic()
        while driver.poll() is None:
            grown = (journal.stat().st_size if journal.is_file() else 0) - size
            after_s = time.monotonic() - began
            if grown > growth or after_s > seconds:
                break
            assert after_s < MOST_RUN_S, "the sweep hangs"
            time.sleep(0.001)
        if driver.poll() is not None:
            return False
        driver.kill()
        driver.wait(timeout=30)
        self.log.append(f"killed after {after_s:.1f} s, the record had grown by {grown:,} bytes")
        print(self.log[-1], flush=True)
        return True

    def _check_no_ended_trial_trains(self, seen: dict[int, TrialRow], again: Counter[str]) -> None:
        """By the toy's own diary."""
        diary = Path(self.environment["TOY_ATTEMPTS"]) / "epochs"
        trained = (
            Counter(line.split()[0] for line in diary.read_text().splitlines()) if diary.exists() else {}
        )
        for trial in seen.values():
            slope = str(trial.params.get("slope"))
            if trial.status == "unfinished" or slope not in trained:
                continue
            assert again.setdefault(slope, trained[slope]) == trained[slope], f"trial {trial.number}"


def check_nothing_is_lost(folder: Path, before: dict[int, TrialRow]) -> dict[int, TrialRow]:
    """Every trial and epoch that was in the record is there as it was; what has ended, for good."""
    if not (folder / JOURNAL).is_file():
        assert not before
        return {}
    now = {trial.number: trial for trial in Record.read(folder).trials}
    for number, old in before.items():
        new = now[number]
        assert new.params == old.params
        if new.attempt != old.attempt:  # it was opened again
            continue
        assert {epoch: new.epochs[epoch] for epoch in old.epochs} == old.epochs
        if old.status != "unfinished":
            assert (new.status, new.epochs, new.end) == (old.status, old.epochs, old.end)
    return now


def check_whole(
    record: Record,
    num_trials: int,
    rungs: Sequence[int],
    max_epochs: int,
    brackets: bool = False,
    halving: bool = False,
) -> None:
    """The promises of a sweep: all its trials, each once, each to a rung or to the end, pruned by rule.

    Args:
        record: of the sweep.
        num_trials: that were asked for.
        rungs: epochs at which trials were judged, by factor 3.
        max_epochs: the end.
        brackets: whether trials were judged in the brackets of Hyperband with one rung: three, of which
            the best goes on, and two that are not judged.
        halving: whether trials waited at the rungs, and of every three the best one went on.
    """
    assert [trial.number for trial in record.trials] == list(range(num_trials))
    assert len({tuple(sorted(trial.params.items())) for trial in record.trials}) == num_trials
    for trial in record.trials:
        assert list(trial.epochs) == list(range(1, len(trial.epochs) + 1))
        last = len(trial.epochs)
        expected = "finished" if last == max_epochs else "pruned"
        assert trial.status == expected, f"trial {trial.number} ended after epoch {last}"
        assert last in (*rungs, max_epochs)
    if brackets:
        for first in range(0, num_trials, 5):
            at_rung = {n: s for n, s in record.scores_at(rungs[0]).items() if first <= n < first + 3}
            best = max(at_rung, key=lambda number: (at_rung[number], -number))
            went_on = {trial.number for trial in record.trials if len(trial.epochs) == max_epochs}
            assert {n for n in went_on if first <= n < first + 5} == {best, first + 3, first + 4} & set(
                range(num_trials)
            )
        return
    for rung in rungs if halving else ():
        at_rung = record.scores_at(rung)
        went_on = {number for number in at_rung if len(record.trials[number].epochs) > rung}
        assert len(went_on) == max(1, len(at_rung) // 3)
        stopped = sorted(score for number, score in at_rung.items() if number not in went_on)
        # The last two may have come when the last promotion was over.
        assert max(at_rung[number] for number in went_on) >= stopped[-3]
    for rung in () if halving else rungs:
        before: list[Losses] = []
        for number, losses in record.losses_at(rung).items():
            went_on = len(record.trials[number].epochs) > rung
            assert went_on == continues(losses, before, 3), f"trial {number} at rung {rung}"
            before.append(losses)
