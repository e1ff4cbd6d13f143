#!/bin/sh
# A run in shards: two and three processes write the bytes that one process writes; one that is killed leaves a file to
# go on with, and the end is the same.   sh tests/mpi.sh build/dino_mpi
set -u
demo=$1 t=build/mpi-test
rm -rf $t; mkdir -p $t
passed=0 failed=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
small="--set dim=32 --set depth=1 --set batch=6 --set prototypes=64"
ok() { passed=$((passed + 1)); }
no() { failed=$((failed + 1)); echo "FAILED $1"; tail -n 3 $t/err; }
for mixer in softmax linear "ssd --set patches=1"; do            # Mamba-2 with iBOT
    for n in 2 3; do
        mpirun -n $n "$demo" $small --mixer $mixer --steps 20 --out $t/many >$t/out 2>$t/err || no "$mixer, $n processes"
        "$demo" $small --mixer $mixer --steps 20 --shards $n --threads 2 --out $t/one >$t/out 2>$t/err || no "$mixer, $n shards"
        cmp -s $t/many $t/one && ok || no "$mixer: $n processes and one with $n shards differ"
    done
done
"$demo" $small --shards 2 --steps 200 --out $t/whole 2>$t/err || no "a whole run"
mpirun -n 2 "$demo" $small --steps 200 --every 0.2 --out $t/part >$t/out 2>$t/err &
for i in $(seq 600); do [ -s $t/part ] && break; sleep 0.1; done; pkill -KILL -n -f "$demo .*$t/part" 2>/dev/null; wait $! 2>/dev/null && no "the killed run went on to its end" || ok
[ -s $t/part ] && mpirun -n 2 "$demo" --load $t/part --out $t/part >$t/out 2>$t/err && cmp -s $t/part $t/whole && ok ||
    no "a run of which a process was killed does not go on to the same end"
for option in "--steps 800" "--seed 2" "--mixer ssd" "--set dim=64" "--shards 2"; do
    "$demo" --load $t/part $option --out $t/again >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q "^dino_mpi: ${option% *}: a loaded run keeps" $t/err && ok || no "--load with $option"
done
mkdir -p $t/p; for i in 1 2 3 4 5 6; do cp docs/tiny/scene.ppm $t/p/$i.ppm; done
"$demo" --load $t/part --images $t/p --out $t/again >$t/out 2>$t/err; [ $? -eq 2 ] && grep -q 'other pictures' $t/err && ok || no "--load with other pictures"
"$demo" $small --shards 2 --seed 5 --steps 20 --out $t/five >$t/out 2>$t/err && "$demo" --load $t/five --out $t/again >$t/out 2>$t/err && cmp -s $t/five $t/again && ok || no "--load of another seed"
: >$t/file
"$demo" $small --steps 20 --out $t/file/run >$t/out 2>$t/err; [ $? -eq 2 ] && [ "$(wc -l <$t/err)" -eq 1 ] && grep -q 'cannot write .*file/run' $t/err && ok || no "--out is not tried first"
"$demo" --load $t/part --set x=1 >$t/out 2>$t/err; [ $? -eq 2 ] && ok || no "a number that no recipe has"
mpirun -n 3 "$demo" --load $t/part >$t/out 2>$t/err && no "three processes on two shards" || ok
grep -q 'dino_mpi: ' $t/err && ok || no "without a word"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
