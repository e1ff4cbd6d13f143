#!/bin/sh
# The header from Python: demos/python/mamba_mix.py and its tour.   [PYTHON=...] [CC=...] sh tests/python.sh
# Needs numpy and a C compiler; without them it says so and passes. The library is made in build/cache.
set -u
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    echo "skipped: mamba_mix.py ($python is not there; PYTHON=... names another)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
mkdir -p build
XDG_CACHE_HOME=$PWD/build/cache exec "$python" tests/python.py "$@"
