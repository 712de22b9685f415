"""Run by pytest: the model learns something within two epochs."""

import digits
import lightning


def test_two_epochs_do_better_than_chance(tmp_path):
    params = digits.Params(lr=1e-2)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, default_root_dir=tmp_path
    )
    trainer.fit(digits.build_model(params), digits.build_data(params))
    assert trainer.callback_metrics[digits.METRIC] > 0.5
