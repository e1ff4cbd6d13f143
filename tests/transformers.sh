#!/bin/sh
# Random networks of the shapes of ViT, DINOv2 and DINOv3 that transformers and timm write, and what these compute with them,
# beside the library.   [PYTHON=...] sh tests/transformers.sh build/transformers
set -u
t=build/transformers-cases
rm -rf $t
"${PYTHON:-python3}" tests/transformers_cases.py $t || exit 1
"${PYTHON:-python3}" tests/timm_cases.py $t || exit 1
[ -d $t ] || exit 0                              # it has said what is missing
"$1" $t; status=$?
rm -rf $t                                        # 1.4 GB
exit $status
