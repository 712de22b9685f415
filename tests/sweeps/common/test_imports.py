"""Fast imports, each in a process of its own: what they change holds for all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

COMMON = "import gc, sys\nfrom sweeps.common import imports\n"


def runs(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMON + code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_collected_within_and_what_was_made_there_is_never_looked_at_again() -> None:
    runs(
        "with imports.fast():\n    assert not gc.isenabled()\n    import decimal\n    made = [[]]\n"
        "assert gc.isenabled()\n"
        "assert not any(each is made for each in gc.get_objects())\n"
        "gc.unfreeze()\n"
        "assert any(each is made for each in gc.get_objects())"
    )


def test_the_collector_is_on_again_after_an_import_that_fails() -> None:
    runs(
        "try:\n    with imports.fast():\n        import no_such_module\n"
        "except ModuleNotFoundError:\n    assert gc.isenabled()\n"
        "else:\n    raise AssertionError"
    )


def test_a_collector_that_was_off_stays_off() -> None:
    runs("gc.disable()\nwith imports.fast():\n    pass\nassert not gc.isenabled()")


def test_torchmetrics_leaves_scipy_out_and_a_user_gets_it_whole() -> None:
    runs(
        "before = [*sys.meta_path]\n"
        "with imports.fast():\n    import torchmetrics\n"
        "assert 'scipy.signal' not in sys.modules\n"
        "import scipy.signal.windows\n"
        "from scipy.signal import butter\n"
        "assert len(scipy.signal.windows.hamming(3)) == 3 and callable(butter)\n"
        "import inspect\n"
        "assert 'scipy' in inspect.getsource(torchmetrics)\n"
        "assert sys.meta_path == before"
    )


def test_scipy_that_was_imported_before_stays() -> None:
    runs(
        "import scipy.signal\nbefore = scipy.signal\n"
        "with imports.fast():\n    import torchmetrics\n"
        "assert sys.modules['scipy.signal'] is before and scipy.signal is before"
    )


@pytest.mark.parametrize(
    "wanted",
    ["from scipy.signal import butter", "import scipy.signal.windows as butter"],
    ids=["name", "module"],
)
def test_a_package_that_torchmetrics_imports_may_use_scipy(tmp_path: Path, wanted: str) -> None:
    package = tmp_path / "torchmetrics"
    package.mkdir()
    (package / "__init__.py").write_text(
        f"import scipy.signal\nhas_old_name = hasattr(scipy.signal, 'hamming')\n{wanted}\n"
    )
    runs(
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "with imports.fast():\n    import torchmetrics\n"
        "assert torchmetrics.has_old_name\n"
        "assert torchmetrics.butter.__module__.startswith('scipy.signal.') if callable(torchmetrics.butter) "
        "else torchmetrics.butter.hamming\n"
        "import scipy.signal\nassert not hasattr(scipy.signal, 'hamming')"
    )


def test_what_replaces_the_finders_ends_no_import() -> None:
    runs("with imports.fast():\n    sys.meta_path = sys.meta_path[1:]\nassert gc.isenabled()")


def test_the_old_name_works_for_who_asks_torchmetrics_for_it(tmp_path: Path) -> None:
    package = tmp_path / "torchmetrics"
    package.mkdir()
    (package / "__init__.py").write_text("from scipy.signal import hamming\nfrom scipy import signal\n")
    runs(
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "with imports.fast():\n    import torchmetrics\n"
        "assert len(torchmetrics.hamming(5)) == 5\n"
        "import scipy.signal\n"
        "assert torchmetrics.signal.butter is scipy.signal.butter"
    )


def test_a_torchmetrics_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "torchmetrics.py").write_text("import scipy.signal\nraise ImportError('broken')\n")
    runs(
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    with imports.fast():\n        import torchmetrics\n"
        "except ImportError as error:\n    assert str(error) == 'broken'\n"
        "else:\n    raise AssertionError\n"
        "assert 'scipy.signal' not in sys.modules"
    )


def test_a_package_is_left_out_in_this_thread_and_only_within() -> None:
    runs(
        "import threading\n"
        "found = []\n"
        "def other():\n    import wave\n    found.append(wave)\n"
        "with imports.without('wave', 'not_there'):\n"
        "    try:\n        import wave\n"
        "    except ModuleNotFoundError as error:\n        assert error.name == 'wave'\n"
        "    else:\n        raise AssertionError\n"
        "    thread = threading.Thread(target=other)\n    thread.start()\n    thread.join()\n"
        "    import wave  # it is there now\n"
        "assert found == [wave]"
    )


def test_a_left_out_package_can_be_imported_later() -> None:
    runs(
        "try:\n    with imports.without('wave'):\n        import wave\n"
        "except ModuleNotFoundError:\n    import wave\n"
        "else:\n    raise AssertionError"
    )


@pytest.mark.parametrize("context", ["fast()", "without('wave')"])
def test_a_thread_that_looks_for_a_module_meanwhile_misses_no_finder(context: str) -> None:
    runs(
        "others = list(sys.meta_path)\n"
        f"with imports.{context}:\n    walk = iter(sys.meta_path)\n    next(walk)\n    next(walk)\n"
        "assert list(walk) == others[1:]\n"
        "assert sys.meta_path == others"
    )


def test_the_other_names_of_lightning_are_its_own_modules() -> None:
    runs(
        "import lightning_fabric.utilities.seed\n"
        "import pytorch_lightning as pl\n"
        "import pytorch_lightning.loggers as loggers\n"
        "import pytorch_lightning.utilities.rank_zero\n"
        "from pytorch_lightning.callbacks import EarlyStopping\n"
        "import lightning.fabric, lightning.pytorch\n"
        "assert pl is lightning.pytorch and loggers is lightning.pytorch.loggers\n"
        "assert lightning_fabric is lightning.fabric\n"
        "assert EarlyStopping is lightning.pytorch.callbacks.EarlyStopping\n"
        "assert pl.utilities.__spec__.name == 'lightning.pytorch.utilities'\n"
        "assert not [file for name, each in [*sys.modules.items()] if name.startswith('pytorch_lightning') "
        "if 'pytorch_lightning' in (file := each.__file__)]"
    )


def test_a_name_that_lightning_has_not_is_answered_as_python_does() -> None:
    runs(
        "try:\n    import pytorch_lightning.metrics\n"
        "except ModuleNotFoundError as error:\n    assert error.name == 'pytorch_lightning.metrics'\n"
        "else:\n    raise AssertionError"
    )


def test_the_other_names_cost_nothing_until_they_are_imported() -> None:
    runs(
        "from importlib.util import find_spec\n"
        "assert find_spec('pytorch_lightning') and find_spec('lightning_fabric')\n"
        "assert 'lightning' not in sys.modules and 'torch' not in sys.modules"
    )


def test_a_package_that_was_imported_before_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "pytorch_lightning").mkdir()
    for name in ("__init__", "callbacks", "loggers"):
        (tmp_path / "pytorch_lightning" / f"{name}.py").touch()
    code = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "import pytorch_lightning, pytorch_lightning.callbacks\n"
        "import sweeps, lightning.pytorch\n"
        "import pytorch_lightning.loggers\n"
        f"assert pytorch_lightning.loggers.__file__.startswith({str(tmp_path)!r})"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
