#!/usr/bin/env bash
# Prove the program on this PC's GPU: deploy/gpu-check.sh [--wheels BUNDLE] [--folder FOLDER] [--tests | --bench] [PART ...]
#
# Runs the tests marked `gpu`, then `python -m benchmarks.gpu` (all parts, or those that are named), and leaves logs, tables and
# pictures in one folder (default: gpu-check). No network is used: what is missing comes from a bundle of
# deploy/gpu-wheels.sh. Without --wheels the packages of .venv or of python3 ($PYTHON) are used.
# Fashion-MNIST, where it is not installed: its four .gz files in a folder, named by SWEEPS_DATA_DIR.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=gpu-check wheels="" does="tests bench" parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --wheels | --folder) [ $# -gt 1 ] || { echo "error: $1: name a file or a folder" >&2; exit 2; } ;;&
    --wheels) wheels=$2; shift ;;
    --folder) folder=$2; shift ;;
    --tests) does=tests ;;
    --bench) does=bench ;;
    -h | --help) sed -n '2,7s/^# \?//p' "$0"; exit ;;
    -*) echo "error: $1: --wheels BUNDLE, --folder FOLDER, --tests or --bench" >&2; exit 2 ;;
    *) parts+=("$1") ;;
  esac
  shift
done
python=${PYTHON:-$([ -z "$wheels" ] && [ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
known=$("$python" -c 'from benchmarks._gpu import PARTS; print(*PARTS)') || exit 1
for part in ${parts[@]+"${parts[@]}"}; do
  [[ " $known " == *" $part "* ]] || { echo "error: $part: there is no such part: $known" >&2; exit 2; }
done
[ -z "$wheels" ] || [ -f "$wheels" ] || { echo "error: --wheels $wheels: there is no such file" >&2; exit 2; }
mkdir -p "$folder" && folder=$(realpath "$folder") || exit 1
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1

if [ -n "$wheels" ]; then
  site=$(mktemp -d) && mkdir "$site/packages" || exit 1
  trap 'rm -rf "$site"' EXIT
  echo "Installing $wheels into $site/packages"
  tar -xf "$wheels" -C "$site" && "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir \
    --disable-pip-version-check --target "$site/packages" "$site"/*.whl || exit 1
  export PYTHONPATH="$site/packages:$PYTHONPATH"
fi

{
  date -u +%FT%TZ
  command -v nvidia-smi > /dev/null && nvidia-smi | head -20
  "$python" - <<'END'
import platform
from importlib import metadata

print(f"Python {platform.python_version()}")
for name in ("torch", "lightning", "ray", "deepspeed", "optuna", "pyarrow", "numpy"):
    try:
        print(f"{name} {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        print(f"{name} is not installed: what needs it is skipped")
import torch

print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no CUDA GPU: everything that needs one is skipped")
END
} | tee "$folder/machine.txt"

status=0
if [[ $does == *tests* ]]; then
  "$python" -m pytest -m gpu -v -rs --durations 15 --timeout 240 -p no:cacheprovider tests/gpu tests/sweeps 2>&1 \
    | tee "$folder/tests.txt" || status=1
fi
if [[ $does == *bench* ]]; then
  "$python" -m benchmarks.gpu --results-dir "$folder" ${parts[@]+--part "${parts[@]}"} 2>&1 \
    | tee "$folder/benchmarks.txt" || status=1
fi
echo "Logs, tables and pictures: $folder"
exit $status
