"""The sentences of a report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from sweeps.analysis.course import causes_of, pruned_at
from sweeps.analysis.figures import costs
from sweeps.analysis.report import confidence
from sweeps.common.formatting import count, duration, moment, short
from sweeps.common.param_types import shown_range
from sweeps.kinds.registry import shown_name
from sweeps.record import status as record_status
from sweeps.record.record import Record
from sweeps.record.trials import BAD, TrialRow


def result(record: Record) -> str:
    """The best trial and its scores."""
    best = record.best()
    if best is None:
        causes = [cause.reason for cause in causes_of(record.trials)]
        reasons = [*causes, *(trial.reason for trial in record.trials)]  # of those that were stopped, too
        most = next((f" The most common reason: {reason}." for reason in reasons if reason), "")
        return f"{record_status.no_score(record) if record.live else 'No trial has ended well.'}{most}"
    if record.objectives.are_several:
        return _front(record) + _on_test(record, best) + _of_defaults(record)
    metric = record.objective.metric
    model = f" ({best.trainable})" if record.info.is_of_several else ""
    is_live = record_status.not_ended(record, best)
    leads = f"is the best so far ({is_live})" if is_live else "is the best"
    score = f"{metric} {short(best.best_score(record.objective))}"
    epoch = f"in epoch {best.best_epoch(record.objective)} of {len(best.epochs)}"
    if confirmed := record.confirmed_with_score():
        over_seeds = f"{metric} {confidence.over_seeds(confirmed[best.number])}"
        best_trial = (
            f"Trial {best.number}{model} {leads}: {over_seeds}. In the search it had {score}, {epoch}."
        )
    else:
        of_search = " of the search" if record.rerun_trials else ""
        best_trial = f"Trial {best.number}{model} {leads}{of_search}: {score} {epoch}."
    return best_trial + _on_test(record, best) + _of_defaults(record)


def _of_defaults(record: Record) -> str:
    """What the defaults reached, beside the best trial."""
    several = record.info.is_of_several
    return "".join(
        f" Your defaults{f' of {each.trainable}' if several else ''} (trial {each.number}): {text}."
        for each, text in record_status.baselines(record)
    )


def troubles(record: Record) -> list[str]:
    """How many trials did not end well, and most often why; none where all did."""
    bad = Counter(trial.status for trial in record.searched if trial.status in BAD)
    if not bad or record.best() is None:  # then the result tells the reason
        return []
    which = ", ".join(f"{times:,} {status}" for status, times in bad.most_common())
    (most, *_) = causes_of(record.trials)
    reason = f"The most common reason: {most.reason or 'none was recorded'}."
    of = f"{bad.total():,} of {count(len(record.searched), 'trial')}"
    return [f"{of} did not end well: {which}. {reason}"]


def _front(record: Record) -> str:
    """How many trials are the best of several objectives, and which is the knee."""
    values = record.front_values()
    knee, of_knee = next(iter(values.items()))
    again = ", by the means of their reruns" if record.confirmed_with_score() else ""
    names = " and ".join([", ".join(record.objectives.metrics[:-1]), record.objectives.metrics[-1]])
    return (
        f"The front of {names} has {count(len(values), 'trial')}{again}: no trial is better than one of them "
        f"in one objective and not worse in another. Trial {knee} is the knee, the best compromise: "
        f"{record_status.in_words(record, of_knee)}. What it lacks to the best value of each objective on "
        "the front, in units of the range there, is least in sum."
    )


def _on_test(record: Record, best: TrialRow) -> str:
    """What the weights of the best trial, or of one of its reruns, scored on the test rows."""
    if (test := record.test_of_best()) is None:
        return ""
    scores, again = ", ".join(f"{name} {short(score)}" for name, score in test.scores.items()), ""
    if test.run is not None and test.run != best.number:
        again = f" (the weights of trial {test.run}, its rerun with seed {record.trials[test.run].seed})"
    times = len(record.info.tests)
    often = f" They were scored {times} times." if times > 1 else ""
    return f" On the test rows, which no trial has seen, it scored {scores}{again}.{often}"


def settings(record: Record) -> list[str]:
    """What was trained, searched and pruned, and how far the sweep is."""
    info, asked = record.info, record.info.settings
    trained = " and ".join(map(shown_name, info.trainables)) or "?"
    aims = " and ".join(f"{each.direction} {each.metric}" for each in info.objectives.every)
    first = [f"The sweep trained {trained} to {aims}."]
    first += [f"It refined {each.name}." for each in info.parents]
    if asked.searcher:
        number = sum(trial.status == "pruned" for trial in record.searched)
        by_scheduler = f"the scheduler {asked.scheduler} pruned {number:,} of them"
        pruned = by_scheduler if number else "no trial was pruned"
        wanted, started = record.most_trials, len(record.searched)
        trials = count(started, "trial") if started >= wanted else f"{started:,} of {count(wanted, 'trial')}"
        first.append(
            f"The searcher {asked.searcher} proposed {trials} of at most "
            f"{count(info.max_epochs or 0, 'epoch')}, and {pruned}. The seed was {info.seed}."
        )
    first += [f"An epoch was {words}." for words in [asked.fit.epoch_in_words] if words]
    for each in info.raised:
        anew = {"restart": ", with new schedules of the learning rate", "anew": ", and trained anew"}
        first.append(
            f"Until {_day(each.time)} it was {count(each.before, 'epoch')}; the best of the trials that had "
            f"trained them went on{anew.get(each.schedule, '')}."
        )
    data = info.identity["data"]
    first += [f"The {name}: {text}." for name, text in data.items() if name.startswith("data") and text]
    first += _range_changes(record)
    own = [f"Your note: {info.note}"] if info.note else []
    own += [f"Its tags: {', '.join(info.tags)}."] if info.tags else []
    said = [" ".join([*first, *_functions(record)]), _progress(record)]
    return [*said, *_codes(record), *own]


def _codes(record: Record) -> Iterator[str]:
    """What the column `code` of the trials tells, where it is there."""
    if not record.codes():
        return
    changed = [run for run in record.info.runs if run.changed_scores]
    since = [
        f"{code} since {_day(run.started)}, after a change of {'; '.join(run.changed_scores)}"
        for code, run in enumerate(changed, start=2)
    ]
    what = "Not all trials had the same code or data. The column code has 1 at first"
    yield f"{what}, {'. It has '.join(since)}."


def _day(seconds: float | None) -> str:
    """`2026-01-31 at 14:05`, of seconds since 1970."""
    return time.strftime("%Y-%m-%d at %H:%M", time.localtime(seconds))


def _range_changes(record: Record) -> Iterator[str]:
    """Since which trial ranges were others than before."""
    for changed, ranges in record.info.range_changes:
        first = next((trial.number for trial in record.searched if trial.proposed > changed), None)
        trials = "no trial yet" if first is None else f"trials from {first} on"
        given = ", ".join(f"{name}={shown_range(each)}" for name, each in ranges.items())
        yield f"New ranges {moment(changed)}: {given} ({trials})."


def _functions(record: Record) -> Iterator[str]:
    """The file of each space that no table can show whole."""
    for name in record.info.trainables:
        if file := record_status.function_of(record, name):
            sampled = "; the table shows ranges of its samples" if record.info.sampled_space else ""
            of = f" of {name}" if record.info.is_of_several else ""
            yield f"The search space{of} is the function suggest(trial) in {file}{sampled}."


def _progress(record: Record) -> str:
    how = f"The sweep is {record_status.status(record)}"
    if not record.trials:
        return f"{how}; no trial has started."
    statuses = Counter(trial.status for trial in record.searched)
    parts = ", ".join(f"{times:,} {status}" for status, times in statuses.most_common())
    when = ""
    if (started := record.info.started) is not None:
        when = f" It started on {_day(started)}."
    if (waited_s := record.info.waited_s) >= 1:
        when += f" It waited {duration(waited_s)} in the queue, for other sweeps."
    reruns = len(record.trials) - len(record.searched)
    again = f" and {count(reruns, 'rerun')}" if reruns else ""
    enough = f" Its search ended by {limit}." if (limit := record_status.enough(record)) else ""
    return f"{how}: {count(len(record.searched), 'trial')} ({parts}){again}.{when}{enough}"


def pruning(record: Record) -> str:
    """At which epochs trials were pruned."""
    trials = record.searched
    pruned = [trial for trial in trials if trial.status == "pruned"]
    if not pruned:
        return "No trial was pruned."
    where = ", ".join(f"{times} at epoch {epoch}" for epoch, times in pruned_at(record).items())
    return f"{len(pruned):,} of {count(len(trials), 'trial')} were pruned: {where}."


def cost(record: Record) -> str:
    """Time and device time, and what pruning saved."""
    took = costs.spent(record)
    if not took.epochs:
        return "No epoch was trained."
    lines = [
        f"The sweep trained {count(took.epochs, 'epoch')} in {duration(record.elapsed_s)}. "
        f"Training took {device_time(took.device_hours, took.devices)}."
    ]
    if took.saved_epochs:
        whole = took.device_hours + took.saved_hours
        percent, of = f"{100 * took.saved_hours / whole:.0f} %", device_time(whole, took.devices)
        lines.append(
            f"Pruning saved {count(took.saved_epochs, 'epoch')}: {percent} of the {of} that training all "
            "trials to the end would take."
        )
    for part, activity in (("data wait", "Waiting for data"), ("checkpoint", "Writing checkpoints")):
        if took.seconds and took.parts.get(part):
            percent = f"{100 * took.parts[part] / took.seconds:.0f} %"
            lines.append(f"{activity} took {percent} of the training time.")
    if took.start_up_s:
        lines.append(f"Starting the trials took another {duration(took.start_up_s)} in total.")
    return " ".join(lines)


def device_time(hours: float, devices: str) -> str:
    """`3.2 GPU-hours`; what is short as `42 s of GPU time`."""
    return f"{hours:,.1f} {devices}-hours" if hours >= 1 else f"{duration(3600 * hours)} of {devices} time"
