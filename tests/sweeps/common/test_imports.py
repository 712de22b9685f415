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


@pytest.mark.slow
def test_the_other_names_of_lightning_are_its_own_modules_and_one_it_lacks_is_told_with_its_release() -> None:
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
        "if 'pytorch_lightning' in (file := each.__file__)]\n"
        "try:\n    import pytorch_lightning.metrics\n"
        "except ModuleNotFoundError as error:\n    assert error.name == 'pytorch_lightning.metrics'\n"
        "    assert f'is lightning.pytorch of lightning {lightning.__version__} in this' in str(error)\n"
        "else:\n    raise AssertionError"
    )


def test_the_other_names_cost_nothing_until_they_are_imported() -> None:
    runs(
        "from importlib.util import find_spec\n"
        "assert find_spec('pytorch_lightning') and find_spec('lightning_fabric')\n"
        "assert 'lightning' not in sys.modules and 'torch' not in sys.modules"
    )


@pytest.mark.slow
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
