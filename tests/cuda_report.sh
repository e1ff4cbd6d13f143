#!/bin/sh
# What ptxas said of each kernel (its -v output on standard input): registers, stack, spilled bytes. Fails if one of the
# kernels that do the work spills, or if none was found.
awk '
/Compiling entry function/ {
    name = $0; sub(/.*Compiling entry function ./, "", name); sub(/. for .*/, "", name)
    arch = $0; sub(/.* for ./, "", arch); sub(/.$/, "", arch)
}
/bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
/Used [0-9]+ registers/ && name != "" {
    registers = $0; sub(/.*Used /, "", registers); sub(/ .*/, "", registers)
    printf "%s %s %d %d %d\n", name, arch, registers, stack, stores + loads
    name = ""
}' | { command -v c++filt >/dev/null && c++filt -p || cat; } | sed 's/<\(.*\)> sm_/<\1> sm_/; s/(int)//g; s/, /,/g' | sort | awk '
BEGIN { printf "%-52s %-6s %9s %6s %8s\n", "kernel", "", "registers", "stack", "spilled" }
{
    n = NF; kernels++
    printf "%-52s %-6s %9d %6d %8d\n", $1, $(n - 3), $(n - 2), $(n - 1), $n
    if ($n > 0 && $1 ~ /(ssd_forward|ssd_backward|ssd_leave|attention_forward|attention_dq|attention_dkv|attention_dbias)/) { bad++; list = list "\n  " $1 " " $(n - 3) }
}
END {
    print "<0: F32, 1: TF32, 2: BF16, ...>"
    if (bad) print bad " kernels spill:" list
    printf "%d passed, %d failed, 0 skipped\n", kernels - bad, bad + (kernels == 0)
    exit bad > 0 || kernels == 0
}'
