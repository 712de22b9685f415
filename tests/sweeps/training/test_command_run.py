"""A training by a command: real programs, their reports, their checkpoints, their ends and their faults."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sweeps.common import project
from sweeps.common.errors import CannotTrain, MetricNotLogged, PCUnfit, ProgramFailed, UserError
from sweeps.kinds.commands import program_reports
from sweeps.kinds.commands.command_trainable import CommandTrainable
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.function_run import FunctionRun
from tests.support.steered import is_alive
from tests.sweeps.training.runs.test_function_run import reports

COUNTING = """
import json, pathlib, sys, time
lr, epochs, folder = float(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
state = folder / "state.json"
epoch = json.loads(state.read_text()) if state.exists() else 0
while epoch < epochs:
    epoch += 1
    time.sleep(0.02)
    state.write_text(json.dumps(epoch))
    print(f"epoch={epoch} acc={lr * epoch}")
"""
BY_VARIABLES = f"""
import os, sys
sys.argv += ["0.5", os.environ["SWEEPS_MAX_EPOCHS"], os.environ["SWEEPS_CHECKPOINT_DIR"]]
open(os.environ["SWEEPS_METRICS"], "a").close()
{COUNTING}"""
RAN_OUT = (
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total "
    "capacity of 23.00 GiB of which 4.00 GiB is free. Process 4711 has 9.00 GiB memory in use. Including "
    "non-PyTorch memory, this process has 10.00 GiB memory in use. Of the allocated memory 9.00 GiB is "
    "allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated."
)
STAYS = f"{COUNTING}    if epoch == LAST: time.sleep(1000)\n"
"""It is stopped there: between its next checkpoint and the report of that, this report would be lost."""
SAVES = f"{sys.executable} train.py {{lr}} {{max_epochs}} {{checkpoint_dir}}"
MakeRun = Callable[..., FunctionRun]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    """Makes a training by a command, in a project with a file `train.py`."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    project.use()

    def make(
        source: str = COUNTING,
        command: str = SAVES,
        checkpoint: Path | None = None,
        epochs: int = 3,
        grace_s: float = 60,
        metrics: tuple[str, ...] = (),
        metric: str = "acc",
    ) -> FunctionRun:
        Path("train.py").write_text(source)
        trainable = CommandTrainable.find(f"command:{command}")
        params = trainable.params_class(**dict.fromkeys(trainable.without_default, 0.5))
        config = FitConfig(max_epochs=epochs, metric=metric, mode="max", seed=3, threads=2)
        more = {"number": 7, "other_metrics": metrics, "stop_grace_s": grace_s}
        return FunctionRun(trainable, params, config, checkpoint, **more)

    return make


def python(source: str = "") -> str:
    """A command of Python without hyperparameters."""
    return f"{sys.executable} -c '{source}'" if source else f"{sys.executable} train.py"


def saved(training: FunctionRun, folder: Path) -> Path:
    """A checkpoint of a training, which then ends."""
    folder.mkdir()
    training.save(folder)
    training.close()
    return folder


def left_in(folder: Path) -> list[Path]:
    """Folders of trials that were not removed."""
    gc.collect()
    return [*folder.glob("sweeps-command-*")]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for what a signal brings about."""
    while not is_so():  # the whole test has a time limit
        time.sleep(0.01)


def test_each_line_with_the_metric_is_an_epoch(run: MakeRun, tmp_path: Path) -> None:
    training = run()
    found = reports(training)
    training.close()
    assert [(each.epoch, each.score) for each in found] == [(1, 0.5), (2, 1.0), (3, 1.5)]
    assert not {"cpu_busy_pct", "memory_gb"} & found[0].costs.keys()
    del training
    assert not left_in(tmp_path)


def test_a_paused_one_goes_on_where_it_was_left(run: MakeRun, tmp_path: Path) -> None:
    training = run(STAYS.replace("LAST", "40"), epochs=500)
    assert [each.score for each in reports(training, 40)][-1] == 20
    checkpoint = saved(training, tmp_path / "saved")
    resumed = run(epochs=500, checkpoint=checkpoint)
    (first,) = reports(resumed, 1)
    resumed.close()
    assert (first.epoch, first.score) == (41, 20.5)


WAITS = (
    "lines = []\nwhile 0 < epoch < epochs and not pathlib.Path('goes_on').exists(): time.sleep(0.01)\nwhile"
)
"""One that goes on comes to no further report, which could be lost, before it is stopped."""


@pytest.mark.parametrize("epochs", [4, 6])
def test_what_a_program_had_reported_before_it_was_stopped_is_not_lost(
    run: MakeRun, tmp_path: Path, epochs: int
) -> None:
    """It has gone on to its fourth epoch, or ended with it, when its first report is read."""
    fast = (
        COUNTING.replace("    print", "    lines.append").replace("while", WAITS)
        # At once: each argument of a print is a write of its own, and a stop may come between two.
        + '    if epoch > 3: sys.stdout.write("\\n".join([*lines, ""])); lines = []\n'
        + "    if epoch == 4 < epochs: time.sleep(1000)\n"
    )
    training = run(fast, epochs=epochs)
    assert [each.epoch for each in reports(training, 2)] == [1, 2]
    resumed = run(fast, epochs=epochs, checkpoint=saved(training, tmp_path / "second"))
    assert [(each.epoch, each.score) for each in reports(resumed, 1)] == [(3, 1.5)]
    Path("goes_on").touch()
    again = run(fast, epochs=epochs, checkpoint=saved(resumed, tmp_path / "third"))
    found = [(each.epoch, each.score) for each in reports(again)]
    assert found == [(epoch, epoch / 2) for epoch in range(4, epochs + 1)]


def test_one_that_would_report_more_epochs_is_kept_with_its_last_checkpoint(
    run: MakeRun, tmp_path: Path
) -> None:
    """As `sweeps fit` does: its program has been ended by then."""
    training = run(COUNTING.replace("epoch < epochs", "epoch < 99"), epochs=2)
    assert [each.epoch for each in reports(training, 2)] == [1, 2]
    training.close()
    assert training.keep_best(tmp_path / "best", "of it")
    assert (tmp_path / "best" / "checkpoint" / "state.json").is_file()


def test_an_epoch_that_is_known_is_not_reported_again(run: MakeRun, tmp_path: Path) -> None:
    lagging = COUNTING.replace("    state.write_text", "    if epoch % 2: state.write_text")
    training = run(f"{lagging}    if epoch == 2: time.sleep(1000)\n", epochs=5)
    assert [each.epoch for each in reports(training, 2)] == [1, 2]
    checkpoint = saved(training, tmp_path / "saved")
    found = reports(run(lagging, epochs=5, checkpoint=checkpoint))
    assert [(each.epoch, each.score) for each in found] == [(3, 1.5), (4, 2.0), (5, 2.5)]


def test_one_that_prints_much_while_it_writes_its_checkpoint_does_not_wait_for_ever(
    run: MakeRun, tmp_path: Path
) -> None:
    source = """
import os, pathlib, sys, time
file = pathlib.Path(sys.argv[3], "state").open("w")
print("acc=1" + 20_000 * " more than a pipe holds", flush=True)
file.write("whole")
file.close()
time.sleep(1000)
"""
    training = run(source)
    reports(training, 1)
    assert (saved(training, tmp_path / "saved") / "checkpoint" / "state").read_text() == "whole"


def test_a_checkpoint_that_is_being_written_is_waited_for(run: MakeRun, tmp_path: Path) -> None:
    source = """
import os, pathlib, sys, time
file = pathlib.Path(sys.argv[3], "state").open("w")
file.write("whole")
file.flush()
print("acc=1")
time.sleep(0.5)
print(" and more", file=file, flush=True)
file.close()
time.sleep(1000)
"""
    training = run(source)
    reports(training, 1)
    checkpoint = saved(training, tmp_path / "saved")
    assert (checkpoint / "checkpoint" / "state").read_text() == "whole and more\n"


def test_a_log_beside_a_checkpoint_is_not_waited_for(run: MakeRun, tmp_path: Path) -> None:
    """Meanwhile the program would train on, behind the report that the checkpoint is of."""
    source = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[3])
log = (folder / "train.log").open("a")
for epoch in range(3):
    (folder / "state").write_text(str(epoch))
    print("acc=1")
    time.sleep(0.2)
"""
    training = run(source)
    reports(training, 1)
    assert (saved(training, tmp_path / "saved") / "checkpoint" / "state").read_text() == "0"


def test_it_has_its_own_folder_with_the_files_of_the_project(run: MakeRun) -> None:
    Path("data").mkdir()
    Path("data/rows.txt").write_text("0.25")
    Path("runs").mkdir()
    Path(".hidden").mkdir()
    source = """
import os, pathlib
print(sorted(os.listdir()), os.getcwd() == os.environ["SWEEPS_WORK_DIR"])
pathlib.Path("new.txt").write_text("x")
names = ["SWEEPS_TRIAL", "SWEEPS_SEED", "SWEEPS_MAX_EPOCHS", "OMP_NUM_THREADS"]
assert [os.environ[name] for name in names] == ["7", "3", "3", "2"]
assert sorted(os.listdir()) == ["data", "new.txt", "train.py"]
assert not [name for name in os.environ if name.startswith(("RAY_", "TUNE_"))]
print("acc =", pathlib.Path("data/rows.txt").read_text())
"""
    os.environ["RAY_JOB_ID"] = "1"
    (report,) = reports(run(source, python()))
    assert report.score == 0.25
    assert not Path("new.txt").exists()


def test_torchrun_has_a_port_of_its_own_unless_the_user_has_given_one(
    run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trials of a PC start it at the same time, and its default is 29500."""
    command = python('import os; print("acc=" + os.environ["PET_MASTER_PORT"])')
    monkeypatch.delenv("PET_MASTER_PORT", raising=False)
    (own,) = reports(run(command=command))
    monkeypatch.setenv("PET_MASTER_PORT", "29501")
    (given,) = reports(run(command=command))
    assert 1023 < own.score != 29500
    assert given.score == 29501


def test_metrics_come_from_a_file_as_well_and_then_from_it_alone(run: MakeRun) -> None:
    script = (
        'for e in 1 2; do echo "{\\"loss\\": 2}" >> $SWEEPS_METRICS; '
        'echo "{\\"acc\\": 0.$e, \\"epoch\\": $e}" >> $SWEEPS_METRICS; echo acc=9; done'
    )
    found = reports(run(command=f"bash -c '{script}'"))
    assert [dict(each.metrics) for each in found] == [{"loss": 2, "acc": 0.1}, {"loss": 2, "acc": 0.2}]


def test_a_report_has_the_further_metrics(run: MakeRun) -> None:
    command = python('print("ms=2"); print("acc=1"); print("acc=3 ms=4")')
    found = reports(run(command=command, metrics=("ms",)))
    assert [dict(each.metrics) for each in found] == [{"ms": 2, "acc": 1}, {"acc": 3, "ms": 4}]


def test_sigterm_ends_it_and_all_that_it_has_started(run: MakeRun, tmp_path: Path) -> None:
    source = """
import pathlib, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
def end(*_):
    pathlib.Path(sys.argv[1], "ended").write_text("in order")
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("acc=1 child=%d" % child.pid)
time.sleep(1000)
"""
    training = run(source, f"{python()} {tmp_path}")
    (report,) = reports(training, 1)
    training.close()
    assert (tmp_path / "ended").read_text() == "in order"
    assert not is_alive(int(report.metrics["child"]))


def test_a_report_stops_processes_of_another_session(run: MakeRun) -> None:
    """As the workers of a launcher are, which write the checkpoints."""
    worker = """
import os, pathlib, time
pathlib.Path(os.environ["SWEEPS_CHECKPOINT_DIR"], "state").write_text("1")
print("acc=1 pid=%d" % os.getpid())
time.sleep(1000)
"""
    Path("worker.py").write_text(worker)
    source = f"import subprocess; subprocess.run([{sys.executable!r}, 'worker.py'], start_new_session=True)"
    training = run(f"{source}  # writes to SWEEPS_CHECKPOINT_DIR", python())
    (report,) = reports(training, 1)
    assert psutil.Process(int(report.metrics["pid"])).status() == psutil.STATUS_STOPPED
    training.close()
    assert not is_alive(int(report.metrics["pid"]))


def test_one_that_ignores_sigterm_is_killed_after_its_grace(run: MakeRun) -> None:
    source = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    training = run(source + "print('acc=1 pid=%d' % os.getpid()); time.sleep(1000)", python(), grace_s=0.2)
    (report,) = reports(training, 1)
    training.close()
    assert not is_alive(int(report.metrics["pid"]))


@pytest.mark.slow
def test_it_ends_with_a_process_of_a_trial_that_is_killed(run: MakeRun, tmp_path: Path) -> None:
    """Also where its program, which is stopped by its report, has started others."""
    run()
    source = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
pathlib.Path(sys.argv[3], "state").write_text("1")
print("acc=1 child=%d pid=%d" % (child.pid, os.getpid()))
time.sleep(1000)
"""
    Path("train.py").write_text(source)
    trial = f"""
import sys
from sweeps.kinds.commands.command_trainable import CommandTrainable
from sweeps.training.config import FitConfig
from sweeps.training.runs.function_run import FunctionRun
trainable = CommandTrainable.find({f"command:{SAVES}"!r})
run = FunctionRun(trainable, trainable.params_class(lr=1), FitConfig(max_epochs=3, metric="acc", mode="max"))
report = run.advance()
print("pids", int(report.metrics["pid"]), int(report.metrics["child"]), flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", trial],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
    )
    with process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("pids"))
        pids = [*map(int, line.split()[1:])]
        assert all(map(is_alive, pids))
        # As a worker of Ray does, which kills its children when it exits.
        for each in [*psutil.Process(process.pid).children(), psutil.Process(process.pid)]:
            each.kill()
    wait_until(lambda: not any(map(is_alive, pids)))
    assert left_in(tmp_path)
    assert reports(run(COUNTING))
    assert not left_in(tmp_path)


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("", CannotTrain, r"`.*train.py` has ended without a report: it is to print a line such as acc=0.9"),
        (
            "print('val_acc=1'); print('accu=2')",
            MetricNotLogged,
            r"logged: accu, val_acc. Did you mean 'accu'\? \(it is to print a line such as acc=0.9 for ",
        ),
        ("raise SystemExit(3)", ProgramFailed, "exit status 3$"),
        (
            "print('x'); raise ValueError('lr is bad')",
            ProgramFailed,
            "exit status 1: ValueError: lr is bad$",
        ),
        ("print('bad flag'); raise SystemExit(2)", CannotTrain, "`.*train.py`: exit status 2: bad flag$"),
        ("print('acc=1'); raise SystemExit(2)", ProgramFailed, "exit status 2: acc=1$"),
        ("import os; print(os.getcwd()); raise SystemExit(1)", ProgramFailed, "exit status 1: /work$"),
        ("import os; os.kill(os.getpid(), 9)", ProgramFailed, "killed by signal 9$"),
        (
            f"print({RAN_OUT!r}); print('torch.distributed.ChildFailedError:'); raise SystemExit(1)",
            ProgramFailed,
            "exit status 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB",
        ),
        (
            "print('no more out of memory'); raise ValueError('lr is bad')",
            ProgramFailed,
            "exit status 1: ValueError: lr is bad$",
        ),
        ("import os; print('x'); os.abort()", ProgramFailed, "killed by signal 6: x$"),
        (
            "import os, time\nif not os.fork(): time.sleep(1000)\n",
            CannotTrain,
            r"without a report.*It ended while others that it had started went on \(1\): let it wait",
        ),
        (
            "for batch in range(2): print('epoch=1', 'acc=%d' % batch)",
            CannotTrain,
            "epoch 1 was reported twice, with acc=0 and then 1: report acc once for each epoch, or leave out",
        ),
        (r"import sys; sys.stdout.buffer.write(b'\xff\xfe\n'); 1 / 0", ProgramFailed, "ZeroDivisionError"),
    ],
)
def test_a_fault_of_a_program(run: MakeRun, source: str, kind: type[Exception], expected: str) -> None:
    with pytest.raises(kind, match=expected):
        reports(run(source, python()))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("╭ Error ─╮\\n│ No such option: --b │\\n╰─╯", "No such option: --b"),
        ("ERROR: Unknown flag b\\nPass --help to see all flags.", "ERROR: Unknown flag b"),
        ("t.py: error: bad b\\nmake: *** [Makefile:2: train] Error 2", "t.py: error: bad b"),
        ("error in f(x) : no rows\\nCalls: train -> f", "error in f(x) : no rows"),
        ("error in f(x) :\\n  no rows\\nCalls: train -> f", "error in f(x) : no rows"),
        ("RuntimeError: in loading Net:\\n\\tsize of a\\n\\nbye", "RuntimeError: in loading Net: size of a"),
        ("INFO: could not find a cache\\n\\tat com.Main", "at com.Main"),
        ("warning: no such GPU\\nepoch 1: error: 0.5\\nerrors: many\\nlr is too large", "lr is too large"),
    ],
)
def test_the_error_need_not_be_the_last_line(run: MakeRun, output: str, expected: str) -> None:
    """It may be in a box, or have advice behind it, or the error of what has started the program."""
    with pytest.raises(ProgramFailed, match=f"exit status 1: {re.escape(expected)}$"):
        reports(run(f"print('{output}'); raise SystemExit(1)", python()))


def test_a_name_of_two_words_is_not_told_as_one(run: MakeRun) -> None:
    with pytest.raises(MetricNotLogged, match=r'such as \{"val loss": 0.9\} for each epoch'):
        reports(run("print('step 30: val loss=4.5, tokens: 9')", python(), metric="val loss"))


def test_a_fault_behind_a_report_comes_behind_it(run: MakeRun) -> None:
    training = run("print('acc=1'); 1 / 0", python())
    assert isinstance(training.advance(), Report)
    with pytest.raises(ProgramFailed, match="ZeroDivisionError"):
        training.advance()


@pytest.mark.slow
def test_much_output_and_a_huge_line_do_no_harm(run: MakeRun, capfd: pytest.CaptureFixture[str]) -> None:
    source = "print('x' * 10_000_000)\nfor n in range(100_000): print('line', n)\nprint('acc=1')"
    (report,) = reports(run(source, python()))
    assert report.score == 1
    assert len(capfd.readouterr().out) > 11_000_000


def test_an_epoch_that_is_named_again_at_the_end_is_known(run: MakeRun) -> None:
    source = "print('epoch=1 acc=2'); print('epoch=2 acc=1'); print('the best: epoch=1 acc=2')"
    assert [each.score for each in reports(run(source, python()))] == [2, 1]


@pytest.mark.parametrize("line", ["Best acc: 3", "best epoch=2 acc=2.0", "best epoch=3 acc=3.00"])
def test_a_closing_line_is_no_epoch(run: MakeRun, line: str) -> None:
    source = f"for n in (1, 2, 3): print(f'epoch={{n}} acc={{n + 0.004}}')\nprint({line!r})"
    assert [each.score for each in reports(run(source, python(), epochs=5))] == [1.004, 2.004, 3.004]


def test_one_line_about_an_epoch_names_no_others(run: MakeRun) -> None:
    source = "print('goes on from epoch 3'); print('acc=1'); print('acc=2'); print('acc=3')"
    assert [each.score for each in reports(run(source, python()))] == [1, 2, 3]


@pytest.mark.parametrize("header", ["epoch=%d ", "epoch %d\n"])
def test_epochs_that_begin_again_are_refused(run: MakeRun, header: str) -> None:
    source = f"for fold in (1, 2):\n for n in (1, 2): print({header!r} % n + 'acc=%d' % (fold * 10 + n))"
    with pytest.raises(
        CannotTrain, match="epoch 1 was reported behind epoch 2, with acc=21: let the numbers"
    ):
        reports(run(source, python(), epochs=4))


def test_one_that_writes_its_metric_twice_is_read_in_one_place(
    run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it goes on, with other epochs in the other place."""
    monkeypatch.setattr(program_reports, "LOOK_EVERY_S", 60.0)  # however late it comes to the other place
    source = """
import os, pathlib, time
state = pathlib.Path(os.environ["SWEEPS_CHECKPOINT_DIR"], "state")
first = int(state.read_text()) + 1 if state.exists() else 1
for epoch in range(first, 5):
    state.write_text(str(epoch))
    print(f"epoch={epoch} acc=9", flush=True)
    with open(os.environ["SWEEPS_METRICS"], "a") as file:
        print('{"acc": %d, "epoch": %d}' % (epoch, epoch * 100), file=file)
    if epoch == 2: time.sleep(1000)
"""
    training = run(source, python(), epochs=4)
    assert [each.score for each in reports(training, 2)] == [1, 2]
    resumed = run(source, python(), checkpoint=saved(training, tmp_path / "saved"), epochs=4)
    assert [each.score for each in reports(resumed)] == [3, 4]


def test_one_that_goes_on_and_reports_nothing_has_failed(run: MakeRun, tmp_path: Path) -> None:
    training = run(STAYS.replace("LAST", "2"))
    reports(training, 2)
    checkpoint = saved(training, tmp_path / "saved")
    for source in ("", "print('epoch=1 acc=1'); print('epoch=2 acc=1')"):
        with pytest.raises(ProgramFailed, match="from its checkpoint, that of epoch 2, and ended without a"):
            reports(run(source, checkpoint=checkpoint))


def test_a_file_of_metrics_that_is_overwritten(run: MakeRun, tmp_path: Path) -> None:
    source = """
import os, sys, time
for epoch in range(2):
    with open(os.environ["SWEEPS_METRICS"], "w") as file:
        print('{"acc": %d}' % epoch, file=file)
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
"""
    training = run(source, f"{python()} {tmp_path / 'is_read'}")
    reports(training, 1)
    (tmp_path / "is_read").touch()
    with pytest.raises(CannotTrain, match=r'append to .SWEEPS_METRICS [(]mode "a"[)]'):
        reports(training)


def test_links_in_a_checkpoint_are_whole_elsewhere(run: MakeRun, tmp_path: Path) -> None:
    Path("vocabulary.txt").write_text("words")
    source = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SWEEPS_CHECKPOINT_DIR"])
(folder / "step1").mkdir()
(folder / "step1" / "state").write_text("1")
(folder / "last").symlink_to(folder / "step1")
(folder / "words").symlink_to(pathlib.Path("vocabulary.txt").absolute())
print("acc=1")
time.sleep(1000)
"""
    training = run(source, python())
    reports(training, 1)
    checkpoint = saved(training, tmp_path / "saved") / "checkpoint"
    assert (checkpoint / "last").readlink() == Path("step1")
    assert (checkpoint / "last" / "state").read_text() == "1"
    assert not (checkpoint / "words").is_symlink()
    assert (checkpoint / "words").read_text() == "words"


def test_a_program_that_is_missing_on_a_pc(run: MakeRun) -> None:
    Path("mine").touch(mode=0o755)
    training = run(command="./mine")
    Path("mine").unlink()
    with pytest.raises(PCUnfit, match=r"\./mine: the program can't be started: No such file"):
        training.advance()


def test_a_metric_that_is_written_behind_another_one_is_of_the_same_epoch(run: MakeRun) -> None:
    source = """
import json, os
for epoch in range(1, 4):
    with open(os.environ["SWEEPS_METRICS"], "a") as file:
        for metrics in {"acc": epoch / 2}, {"loss": epoch}, {"norm": float("nan")}, {"f1": epoch / 4}:
            print(json.dumps({"step": 100 * epoch, **metrics, "epoch": epoch}), file=file)
"""
    found = reports(run(source, python()))
    assert [{**each.metrics, "norm": None} for each in found] == [
        {"acc": n / 2, "loss": n, "norm": None, "f1": n / 4, "step": 100 * n} for n in (1, 2, 3)
    ]


@pytest.mark.slow
def test_metrics_come_from_event_files(run: MakeRun) -> None:
    source = """
from tensorboardX import SummaryWriter
writer = SummaryWriter("logs/mine")
for step in range(3):
    writer.add_scalar("loss", 2, step)
    writer.add_scalar("acc", step / 2, step)
    writer.add_scalar("f1", step / 4, step)
writer.close()
"""
    found = reports(run(source, python()))
    assert [dict(each.metrics) for each in found] == [
        {"loss": 2, "acc": step / 2, "f1": step / 4} for step in range(3)
    ]


@pytest.mark.slow
def test_event_files_may_be_in_the_folder_of_checkpoints(run: MakeRun, tmp_path: Path) -> None:
    """Those that a trial goes on with have no new report."""
    source = """
import pathlib, sys, time
from tensorboardX import SummaryWriter
folder = pathlib.Path(sys.argv[3])
done = len(list(folder.glob("events*")))
with SummaryWriter(str(folder)) as writer:
    writer.add_scalar("acc", done + 1, done)
time.sleep(1000)
"""
    training = run(source)
    assert [each.score for each in reports(training, 1)] == [1]
    resumed = run(source, checkpoint=saved(training, tmp_path / "saved"))
    assert [each.score for each in reports(resumed, 1)] == [2]
    resumed.close()


LOGGING = """
import LIBRARY, sitecustomize, sys
run = LIBRARY.init(project="digits")
for epoch in range(2):
    LIBRARY.log({"loss": 2})
    run.log({"acc": epoch / 2, "epoch": epoch, "note": "good", "inner": {"f1": 0.5}})
LIBRARY.finish()
assert sitecustomize.OWN == "of the environment"
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", ["wandb", "trackio"])
def test_metrics_come_from_calls_of_a_library(
    run: MakeRun, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an account; and the environment's own sitecustomize is imported, too."""
    pytest.importorskip(library)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("OWN = 'of the environment'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "own"), *sys.path]))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = reports(run(LOGGING.replace("LIBRARY", library), python()))
    assert [each.metrics["acc"] for each in found] == [0, 0.5]
    assert found[1].metrics["inner.f1"] == 0.5
    assert not Path("wandb").exists()


OLD_WANDB = {
    "__init__.py": "from wandb.sdk import wandb_run\ninit = wandb_run.Run",
    "sdk/__init__.py": "",
    "sdk/wandb_run.py": "class Run:\n    def log(self, data, step=None): pass",
}
"""Its parts as 0.17 has them: `wandb.Run` came later."""


def test_metrics_come_from_calls_of_an_old_release(
    run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in OLD_WANDB.items():
        file = tmp_path / "own" / "wandb" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "own"))
    source = "import wandb\nrun = wandb.init()\nfor step in range(2): run.log({'acc': step / 2}, step=step)"
    assert [dict(each.metrics) for each in reports(run(source, python()))] == [{"acc": 0}, {"acc": 0.5}]


def test_a_pc_without_the_project(run: MakeRun, tmp_path: Path) -> None:
    training = run()
    (tmp_path / "project").rename(tmp_path / "moved")
    with pytest.raises(PCUnfit, match="a command needs the project's folder at the same path on each PC"):
        training.advance()


def test_it_saves_where_its_command_or_its_script_names_the_folder(run: MakeRun) -> None:
    run("import os; os.environ['SWEEPS_CHECKPOINT_DIR']")
    Path("other.py").touch()
    commands = ("python train.py", "bash -c 'ls $SWEEPS_CHECKPOINT_DIR'", "python other.py", SAVES)
    found = [CommandTrainable.find(f"command:{command}") for command in commands]
    assert [each.saves for each in found] == [True, True, False, True]
    ((title, note),) = found[2].notes()
    assert title == "checkpoint"
    assert note.startswith("the command has no {checkpoint_dir}")


def test_it_saves_where_what_its_command_runs_names_the_folder(run: MakeRun) -> None:
    run("from pkg import saving")
    Path("pkg").mkdir()
    Path("pkg/saving.py").write_text("import os; os.environ['SWEEPS_CHECKPOINT_DIR']")
    Path("pkg/train.py").write_text("from .saving import os")
    Path("other.py").write_text("from sweeps.kinds.commands import command_words")
    Path("pkg/__main__.py").write_text("from pkg import saving")
    commands = ("train.py", "-m pkg.saving", "-m pkg.train", "-m pkg", "other.py", "-m other")
    for form in (
        "command:python {}",
        "command:bash -c 'python {}'",
        "command:bash -c 'df -m /;python {};ls'",
    ):
        found = [CommandTrainable.find(form.format(each)) for each in commands]
        assert [each.saves for each in found] == [True, True, True, True, False, False]
    Path("its train.py").write_text("import os; os.environ['SWEEPS_CHECKPOINT_DIR']")
    assert CommandTrainable.find("command:python 'its train.py'").saves


@pytest.mark.parametrize(
    ("source", "command"),
    [(COUNTING, SAVES), (BY_VARIABLES, python())],
    ids=["placeholders", "variables"],
)
def test_the_command_of_the_best_trial_trains_it_again_as_it_is(
    run: MakeRun, source: str, command: str
) -> None:
    run(source, command)
    trainable = CommandTrainable.find(f"command:{command}")
    files = trainable.export({"lr": 0.5}, {"max_epochs": 3, "seed": 3}, "results/NAME/best")
    done = subprocess.run(["sh", "-c", files["command.sh"]], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["epoch=1 acc=0.5", "epoch=2 acc=1.0", "epoch=3 acc=1.5"], done.stderr


def test_one_whose_supervisor_is_killed_ends(run: MakeRun) -> None:
    source = "import os, time; print('acc=1 pid=%d above=%d' % (os.getpid(), os.getppid())); time.sleep(1000)"
    training = run(source, python())
    (report,) = reports(training, 1)
    os.kill(int(report.metrics["above"]), signal.SIGKILL)
    with pytest.raises(ProgramFailed, match="its supervisor was killed"):
        training.advance()
    wait_until(lambda: not is_alive(int(report.metrics["pid"])))


def test_the_words_of_a_shell_may_end_with_a_script(run: MakeRun) -> None:
    run()
    command = "bash -c 'LR=$0 python train.py' {lr}"
    assert [*CommandTrainable.find(f"command:{command}").without_default] == ["lr"]


@pytest.mark.parametrize("command", ["./{algorithm}.sh {lr}", "{algorithm} train.py"])
def test_a_hyperparameter_may_choose_the_program(run: MakeRun, command: str) -> None:
    run()
    assert "algorithm" in CommandTrainable.find(f"command:{command}").without_default


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python trian.py", "trian.py: no such file in .* Did you mean 'train.py'"),
        ("pyhton train.py", "pyhton: no such program on PATH. Did you mean 'python'"),
        ("train.py {lr}", "train.py: no such program on PATH. Did you mean './train.py'"),
        ("./train.py {lr}", "can't be executed: chmod [+]x ./train.py"),
        ("./tarin.sh", "./tarin.sh: no such file"),
        ("LR={lr} python train.py", "variables are set by env"),
        ("python train.py && echo", "&& is of a shell: give bash -c"),
        ("python 'train.py", "no closing quotation"),
        ("", "give a program"),
    ],
)
def test_a_command_that_cannot_run(run: MakeRun, command: str, expected: str) -> None:
    run()
    with pytest.raises(UserError, match=expected):
        CommandTrainable.find(f"command:{command}")
