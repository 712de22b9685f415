#!/usr/bin/env bash
# Bundle the packages that a GPU machine without a network lacks: deploy/gpu-wheels.sh HAVE.txt [BUNDLE]
#
# On the GPU machine: python3 -m pip list --format=freeze > HAVE.txt. It must have PyTorch and Lightning.
# Here, after `make data`: this script; then copy the clone and the bundle (50 MiB) there, and run deploy/gpu-check.sh.
# PYTHON_VERSION: of that machine, default 3.12. Wheels are for x86-64 Linux.
set -euo pipefail
[ $# -ge 1 ] && [ -f "$1" ] || { sed -n '2,6s/^# \?//p' "$0" >&2; exit 2; }
have=$(realpath "$1") bundle=$(realpath "${2:-gpu-wheels.tar.xz}")
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin python_version=${PYTHON_VERSION:-3.12}
[ -x "$bin/python" ] || { echo "error: there is no .venv: run make data" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What `sweeps` and the tests need, by the packages installed here, without what that machine has.
# Left out: what Ray needs only to build environments for its tasks.
"$bin/python" - "$have" "$python_version" > "$work/names" <<'END'
import re
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

def normal(name):
    return re.sub(r"[-_.]+", "-", name.strip()).lower()

lines = Path(sys.argv[1]).read_text().splitlines()
have = {normal(re.split(r"[=@ ]", line)[0]) for line in lines}
have |= {"torch", "virtualenv", "py-spy", "netifaces"}
there = {"python_version": sys.argv[2], "python_full_version": f"{sys.argv[2]}.0"}
needed, seen = {}, set()

def add(name, extras=frozenset()):
    if normal(name) in have or (normal(name), extras) in seen:
        return
    seen.add((normal(name), extras))
    found = metadata.distribution(name)
    if normal(name) != "sweeps":
        needed[normal(name)] = found.version
    for text in found.requires or []:
        each = Requirement(text)
        if each.marker is None or any(each.marker.evaluate({**there, "extra": extra}) for extra in {*extras, ""}):
            add(each.name, frozenset(each.extras))

for name in ("sweeps", "pytest", "pytest-xdist", "pytest-timeout", "hypothesis"):
    add(name)
print("\n".join(f"{name}=={version}" for name, version in sorted(needed.items())))
END

platforms=$(for glibc in 39 35 34 31 28 27 26 24 17; do echo "--platform manylinux_2_${glibc}_x86_64"; done
  for name in manylinux2014 manylinux2010 manylinux1; do echo "--platform ${name}_x86_64"; done)
while read -r name; do
  echo "$name"
  # shellcheck disable=SC2086  # several words
  "$bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version "$python_version" --implementation cp $platforms -d "$work/wheels" "$name" 2>/dev/null ||
    DS_BUILD_OPS=0 "$bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
      -w "$work/wheels" "$name"  # of source only, in pure Python
done < "$work/names"

# Wheels without compression, so that xz finds more; Ray without Java and RLlib: 31 MiB in place of 76.
"$bin/python" - "$work/wheels" "$work/stored" <<'END'
import sys
import zipfile
from pathlib import Path

stored = Path(sys.argv[2])
stored.mkdir()
for wheel in sorted(Path(sys.argv[1]).glob("*.whl")):
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(stored / wheel.name, "w") as out:
        for each in whole.infolist():
            if not each.filename.startswith(("ray/jars/", "ray/rllib/")):
                info = zipfile.ZipInfo(each.filename, each.date_time)
                info.external_attr = each.external_attr
                out.writestr(info, whole.read(each))
END
tar -C "$work/stored" -cf - . | xz -T0 -6 > "$bundle"
echo "$bundle: $(wc -l < "$work/names") packages, $(( $(stat -c %s "$bundle") / 1048576 )) MiB"
