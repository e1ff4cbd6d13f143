#!/bin/sh
# The runs on photographs that docs/results.md reports: seeds 1, 2 and 3 of about ten minutes a mixer (1,020 steps) and seed 1 of
# about forty (4,080), on two cores. Four hours in all; stopped and started again it goes on where it was.
#   demos/studies/first-light.sh PICTURES [OUT]      PICTURES has images/ and masks/, OUT takes a folder for each run
set -eu
pictures=${1:?give the folder that has images/ and masks/} out=${2:-build/first-light}
dino=${DINO:-build/dino}
for plan in 1020:1 1020:2 1020:3 4080:1; do
    steps=${plan%:*} seed=${plan#*:}
    for mixer in softmax linear ssd; do
        run=$out/$mixer-$steps-$seed
        [ -s "$run/result.json" ] && continue
        mkdir -p "$run"
        if [ -s "$run/run-$mixer.safetensors" ]; then set -- --load "$run/run"
        else set -- --images "$pictures/images" --masks "$pictures/masks" --mixer "$mixer" --steps "$steps" --seed "$seed"; fi
        echo "$run"
        "$dino" "$@" --out "$run" --threads 2 --json >"$run/result.tmp"
        mv "$run/result.tmp" "$run/result.json"
    done
done
