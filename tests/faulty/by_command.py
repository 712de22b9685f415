"""A program that trains: one weight by gradient descent, with its state in a file. It ignores no signal.

`python by_command.py LR SIZE SEED EPOCHS FOLDER`
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    lr, size = float(sys.argv[1]), int(sys.argv[2])
    state = Path(sys.argv[5]) / "inside" / "state.json"
    done, weight = json.loads(state.read_text()) if state.exists() else (0, 0.0)
    state.parent.mkdir(exist_ok=True)
    for epoch in range(done + 1, int(sys.argv[4]) + 1):
        time.sleep(float(os.environ.get("EPOCH_S", "0.02")))
        noise = random.Random(f"{sys.argv[3]} {epoch}").gauss(0, 0.1)
        weight += lr * (1 + noise / size - weight)
        state.with_suffix(".new").write_text(json.dumps([epoch, weight]))
        state.with_suffix(".new").rename(state)
        print(f"epoch={epoch} val_score={-((weight - 1) ** 2)}")
