"""Train one trial by itself, without Ray: `python -m training.fit fashion_cnn --lr 0.01`

All flags: `python -m training.fit NAME --help`. Exit status: 0; 1, the training failed; 2, a mistake in
what was asked; 130, Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

from training import single
from training.single import SingleRun
from training.values import UserError


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    try:
        return fit(*single.parse(arguments))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130


def fit(run: SingleRun, module: ModuleType, resumes: bool) -> int:
    """Load, train epoch by epoch, keep the best one, say where the time went."""
    from training import imports

    single.say(f"Loading {run.trainable} ...")
    with imports.uncollected():
        from training.diary import Diary
        from training.trainer import Fit, test

    params, config = module.Params(**run.params), run.fit_config(module)
    with Diary(run, config, resumes) as diary:
        training = Fit(module, params, config, diary.checkpoint)
        diary.begin(module, params, training)
        training.run(lambda epoch: diary.note(epoch, training), progress_bar=sys.stderr.isatty())
        diary.keep_best(training)
        scores = test(module, params, config, diary.best) if run.test and single.is_first() else {}
        return diary.say_end(scores)


if __name__ == "__main__":
    sys.exit(main())
