"""The library beside PyTorch: the cases of demos/studies/bench.c, in turns, in one run.

    python3 tests/compare.py [options] build/bench       `make compare` does it

For each case the library first saves inputs, weights and outputs, and PyTorch computes the same from them
(tests/pytorch_bench.py, which is one process for the whole run). Then they take turns: the library, PyTorch, the
library, …, so that both see the same hours of a busy machine. A ratio is PyTorch's time over the library's in one
round: above 1 the library is faster. The table has the median of the rounds, and the least and the largest as their
spread.

    --only REGEX    the cases whose name matches
    --rounds N      3; times of each case on each side
    --seconds S     1; of each side in each round
    --threads N     2, on both sides
    --compile       torch.compile, too, where it ends within minutes
    --check         compares results only, and counts as a test does; without --only of the cases that are quick
    --peak          memory in place of time
    --json FILE     every round, for other programs

What stands for SSD, linear attention, M-MATE, DINO and the backbones, of which PyTorch has none, is
tests/pytorch_modules.py: eager PyTorch, chunks of whichever size is fastest.
"""
import argparse, datetime, json, math, os, platform, re, statistics, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = os.path.join(HERE, "pytorch_bench.py")
TOLERANCE = 1e-4                                 # of float32, relative to the largest number; most are near 1e-6
# what is checked if nothing else is asked for: of each kind of case the quick ones
QUICK = ("gemm_64|gemm_197x384x384|attn_8x|attn3d|linattn_8x|linattn_1x4096|ssd_8x|ssdstep|selective_8x|"
         "selectivestep|conv1d|gated|layernorm|gelu|softmax_|xent|vit_s16_b1|linearvit|dinovim_t16_b1|"
         "dinov2_s14_224_b1|dino_train|prefill_4096")


def environment(threads):
    """Each thread of PyTorch on a core of its own; freed memory is kept, as the library keeps it."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), MALLOC_MMAP_MAX_="0",
               MALLOC_TRIM_THRESHOLD_=str(1 << 40))
    if threads > 1:
        env.update(OMP_PROC_BIND="true", OMP_PLACES="cores")
    return env


def bench(program, name, *more):
    """What the library's benchmark prints for one case."""
    command = [program, "--only", f"^{re.escape(name)}$", *map(str, more)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"compare.py: {' '.join(command)}: {run.stderr.strip()}")
    return json.loads(run.stdout) if run.stdout else None


class PyTorch:
    """tests/pytorch_bench.py, which keeps running."""

    def __init__(self, a, env):
        command = [sys.executable, TORCH, "--threads", str(a.threads)] + ["--compile"] * a.compile
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version = self.answer()["torch"]

    def answer(self):
        line = self.process.stdout.readline()
        while line and not line.startswith("{"):
            line = self.process.stdout.readline()
        if not line:
            sys.exit("compare.py: PyTorch's process ended")
        return json.loads(line)

    def ask(self, name, path, seconds):
        request = {"case": name, "file": path, "seconds": seconds}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def names(program, only):
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    return [n for n in listed.stdout.split() if re.search(only, n)]


def saved(a, name, folder):
    path = os.path.join(folder, "case.safetensors")
    bench(a.program, name, "--save", path, "--threads", a.threads)
    return path


# ---- the table ----

def ratios(rounds):
    """PyTorch's time over the library's: median, least, largest of [(library's ms, PyTorch's ms)]."""
    r = sorted(theirs / ours for ours, theirs in rounds)
    return statistics.median(r), r[0], r[-1]


def mean(values):
    """The geometric one."""
    return math.exp(statistics.fmean(map(math.log, values)))


def side_of(name):
    return {"fwd": ", forward", "bwd": ", backward"}.get(name.rpartition(".")[2], "")


def row(name, rounds, last):
    ours, theirs = (statistics.median(side) for side in zip(*rounds))
    ratio, least, most = ratios(rounds)
    return (name, f"{ours:.4g}", f"{theirs:.4g}", f"{ratio:.2f}", f"{least:.2f} to {most:.2f}",
            last["way"], f"{last['difference']:.0e}")


HEAD = "case", "library, ms", "PyTorch, ms", "ratio", "its spread", "PyTorch's way", "difference"


def print_table(rows):
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


def print_groups(groups):
    print("\n| group | geometric mean | least | cases |\n|---|---|---|---|")
    for group, values in groups.items():
        print(f"| {group} | {mean(values):.2f} | {min(values):.2f} | {len(values)} |")


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            found = re.search(r"model name\s*: (.*)", f.read())
        return found.group(1) if found else platform.machine()
    except OSError:
        return platform.processor() or platform.machine()


def print_machine(a, version, simd):
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    print(f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
          f"{datetime.date.today()}")
    print(f"{a.threads} thread{'s' * (a.threads > 1)} on both sides; library: {simd}; PyTorch {version}, "
          f"{'eager or compiled' if a.compile else 'eager'}; "
          f"{a.rounds} rounds of {a.seconds:g} s; {load:.1f} programs ran when this began")
    print("difference: the largest of |PyTorch - library| over the library's largest number, in results "
          "and gradients\n", flush=True)


# ---- what it does ----

def compare(a, torch, folder):
    """Times all cases in turns and prints the tables; the number of cases whose results differ."""
    rows, groups, all_rounds, wrong = [], {}, {}, 0
    for name in names(a.program, a.only):
        path, rounds = saved(a, name, folder), []
        for _ in range(a.rounds):
            ours = bench(a.program, name, "--threads", a.threads, "--seconds", a.seconds)
            theirs = torch.ask(name, path, a.seconds)
            if "error" in theirs:
                break
            rounds.append((ours["ms"], theirs["ms"]))
        if not all_rounds:
            print_machine(a, torch.version, ours["simd"])
        all_rounds[name] = {"rounds": rounds, **theirs}
        if "error" in theirs or theirs["difference"] > TOLERANCE:
            print(f"{name}: {theirs.get('error') or 'the results differ'}", flush=True)
            wrong += 1
        if rounds:
            rows.append(row(name, rounds, theirs))
            print(f"{name}: {rows[-1][3]}", file=sys.stderr, flush=True)
            groups.setdefault(theirs["group"] + side_of(name), []).append(ratios(rounds)[0])
    print_table(rows)
    print_groups(groups)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(all_rounds, f, indent=1)
    return wrong


def check(a, torch, folder):
    """Compares the results of the cases; the number that differ."""
    wrong = ratios([(2.0, 4.0), (2.0, 3.0), (1.0, 3.0)]) != (2.0, 1.5, 3.0)
    wrong += abs(mean([1.0, 4.0]) - 2) > 1e-12
    done = 2
    for name in names(a.program, a.only or QUICK):
        answer = torch.ask(name, saved(a, name, folder), 0)
        good = answer.get("difference", math.inf) <= TOLERANCE
        print(f"{'ok' if good else 'FAILED'} {name}: {answer.get('error') or format(answer['difference'], '.1e')}",
              flush=True)
        done, wrong = done + 1, wrong + (not good)
    print(f"{done - wrong} passed, {wrong} failed, 0 skipped")
    return wrong


def peaks(a, env, folder):
    """MiB above the process without the case, each case in a process of its own on both sides."""
    print("| case | library, MiB | PyTorch, MiB | ratio | before the case, MiB |\n|---|---|---|---|---|")
    for name in names(a.program, a.only):
        path = saved(a, name, folder)
        ours = bench(a.program, name, "--peak", "--threads", a.threads)
        command = [sys.executable, TORCH, "--threads", str(a.threads), "--peak", name, path]
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        theirs = json.loads(run.stdout.splitlines()[-1])
        print(f"| {name} | {ours['peak_mb']:.0f} | {theirs['peak_mb']:.0f} "
              f"| {ours['peak_mb'] / theirs['peak_mb']:.2f} "
              f"| {ours['idle_mb']:.1f}; {theirs['idle_mb']:.0f} |", flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    for flag in "--compile", "--check", "--peak":
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--json", default="")
    return parser.parse_args()


def main():
    a = arguments()
    a.program = os.path.abspath(a.program)
    probe = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True)
    if probe.returncode:
        print(f"skipped: beside PyTorch ({sys.executable} has no torch; PYTHON=... names another)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    env = environment(a.threads)
    with tempfile.TemporaryDirectory() as folder:
        if a.peak:
            peaks(a, env, folder)
            return 0
        torch = PyTorch(a, env)
        wrong = (check if a.check else compare)(a, torch, folder)
        torch.close()
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
