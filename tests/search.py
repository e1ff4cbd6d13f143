"""Tries demos/search.c on small pictures with the towers of tests/golden: order and scores beside sums of products, what is kept
between runs, and bad input.

    python3 tests/search.py build/demos-test/search

From the repository's root; it needs nothing but Python. Ends with N passed, N failed, N skipped.
"""
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

PROGRAM = sys.argv[1]
FOLDER = "build/search-test"
CLIP, OLD, OPEN = ("tests/golden/towers/" + name for name in ("clip", "clip-old", "openclip"))
passed = failed = 0


def check(good, what, more=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("FAILED %s\n%s" % (what, str(more)[:1500]))


def run(*arguments, status=0):
    got = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    check(got.returncode == status, "status %d of %s" % (got.returncode, " ".join(arguments)), got.stderr + got.stdout)
    return got


def refused(words, *arguments):
    got = run(*arguments, status=1)
    last = got.stderr.strip().splitlines()[-1] if got.stderr.strip() else ""
    check(re.search(words, last), "expected %r" % words, got.stderr)


def picture(path, seed, width=48, height=40):
    r = random.Random(seed)
    colours = [bytes(r.randint(0, 255) for _ in range(3)) for _ in range(4)]
    rows = b"".join(colours[(x * (1 + seed % 5) // width + y * (1 + seed % 3) // height) % 4] for y in range(height)
                    for x in range(width))
    with open(path, "wb") as f:
        f.write(b"P6\n%d %d\n255\n" % (width, height) + rows)


def model(name, golden, end=39, tokens=40):
    """A golden model with a tokenizer of CLIP's kind."""
    folder = FOLDER + "/" + name
    shutil.copytree(golden, folder)
    letters = "abcdefghijklmnop"
    vocab = {c: i for i, c in enumerate(letters)}
    vocab.update({c + "</w>": len(letters) + i for i, c in enumerate(letters)})
    vocab.update({"<b>": end - 1, "<e>": end})
    if tokens > 40:
        vocab["zz"] = tokens - 1
    merges = []
    with open(folder + "/tokenizer.json", "w", encoding="utf-8") as f:
        json.dump({"normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"[\p{L}]+"}, "behavior": "Removed", "invert": True},
            {"type": "ByteLevel", "add_prefix_space": False}]}, "decoder": {"type": "ByteLevel"},
            "post_processor": {"type": "RobertaProcessing", "cls": ["<b>", end - 1], "sep": ["<e>", end]},
            "model": {"type": "BPE", "end_of_word_suffix": "</w>", "unk_token": "<e>", "vocab": vocab, "merges": merges}}, f)
    return folder


def npy(path):
    with open(path, "rb") as f:
        data = f.read()
    size, = struct.unpack_from("<H", data, 8)
    rows, columns = map(int, re.search(rb"\((\d+), (\d+)\)", data[10:10 + size]).groups())
    values = struct.unpack_from("<%df" % (rows * columns), data, 10 + size)
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def found(text):
    """The questions of an output, each with (score, name) in order."""
    out = {}
    for line in text.splitlines():
        hit = re.match(r" *(-?[0-9]+\.[0-9]{4})  (.*)", line)
        if hit:
            out[asked].append((float(hit[1]), hit[2]))
        else:
            asked = line
            out[asked] = []
    return out


def beside_products(folder, clip):
    """Every picture is asked for: cosines are sums of products of the vectors, falling."""
    run(folder, "--model", clip, "--npy", FOLDER + "/v.npy")
    vectors = npy(FOLDER + "/v.npy")
    with open(FOLDER + "/v.npy.txt", encoding="utf-8") as f:
        names = f.read().splitlines()
    check(len(names) == len(vectors) and names == sorted(names), "names and vectors", names)
    for name, row in list(zip(names, vectors))[::7]:
        check(abs(sum(x * x for x in row) - 1) < 1e-5, "length 1")
        got = found(run(folder, "--model", clip, "--like", folder + "/" + name, "--count", "1000").stdout)[folder + "/" + name]
        scores = {n: sum(a * b for a, b in zip(row, v)) for n, v in zip(names, vectors)}
        check(len(got) == len(names) and sorted(n for _, n in got) == names, "all pictures once", got)
        check(all(abs(s - scores[n]) < 1e-4 for s, n in got), "scores beside products", got[:3])
        order = [scores[n] for _, n in got]
        check(all(a > b - 1e-6 for a, b in zip(order, order[1:])), "their order", got[:5])
        check(got[0][1] == name or scores[got[0][1]] > 1 - 1e-6, "a picture finds itself", got[:3])
    words = found(run(folder, "Ab c", "ab  C", "dog", "--model", clip, "--count", "1000").stdout)
    check(words["Ab c"] == words["ab  C"] and words["Ab c"] != words["dog"], "words by their tokens")
    for got in words.values():
        check([s for s, _ in got] == sorted((s for s, _ in got), reverse=True) and len(got) == len(names), "words in order", got[:3])
    return len(names)


def kept(folder, clip, count):
    """What a run says that it kept and computed."""
    def said(*more):
        err = run(folder, "--model", clip, *more).stderr
        return tuple(map(int, re.search(r"(\d+) pictures: (\d+) kept, (\d+) computed", err).groups()))
    check(said() == (count, count, 0), "nothing is computed twice")
    picture(folder + "/new.ppm", 99)
    check(said() == (count + 1, count, 1), "a new picture")
    os.utime(folder + "/new.ppm", (1, 1))
    check(said() == (count + 1, count, 1), "a picture that changed")
    os.remove(folder + "/new.ppm")
    check(said() == (count, count, 0), "a picture that is gone")
    run(folder, "--model", clip, "--npy", FOLDER + "/a.npy", "--index", FOLDER + "/own.safetensors", "--threads", "1")
    run(folder, "--model", clip, "--npy", FOLDER + "/b.npy", "--batch", "1")
    a, b = npy(FOLDER + "/a.npy"), npy(FOLDER + "/b.npy")
    check(max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p, q)) < 1e-6, "vectors of any batch and threads")
    got = run(folder, "--model", FOLDER + "/old")
    check("another model's vectors" in got.stderr and "%d pictures: 0 kept, %d computed" % (count, count) in got.stderr,
          "another model", got.stderr)
    got = run(folder, "--model", clip, "--type", "bf16")
    check("another model's vectors" in got.stderr, "another type", got.stderr)
    check(not [f for f in os.listdir(folder) if f.endswith(".tmp")], "no draft is left")
    run(folder, "--model", clip)


def interrupted(clip):
    folder = FOLDER + "/many"
    os.makedirs(folder)
    picture(folder + "/0000.ppm", 1, 600, 600)
    for i in range(1, 400):
        os.link(folder + "/0000.ppm", folder + "/%04d.ppm" % i)
    with subprocess.Popen([PROGRAM, folder, "--model", clip, "--batch", "1"], stderr=subprocess.PIPE, text=True) as p:
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        err = p.communicate()[1]
    stopped = re.search(r"interrupted: (\d+) of 400 pictures are kept", err)
    if stopped:
        check(p.returncode == 1, "Ctrl-C is no success")
    err = run(folder, "--model", clip).stderr
    _, had, did = map(int, re.search(r"(\d+) pictures: (\d+) kept, (\d+) computed", err).groups())
    check(had + did == 400 and (not stopped or had == int(stopped[1])), "it goes on after Ctrl-C", err)


def page(folder, clip):
    path = FOLDER + "/pages/found.html"
    run(folder, "a <b> & \"c\"", "--model", clip, "--count", "5", "--page", path, "--like", folder + "/deep/er/17.ppm",
        "--classes", "a, b")
    with open(path, encoding="utf-8") as f:
        html = f.read()
    check(html.count("data:image/png;base64,") >= 10 and "a &lt;b&gt; &amp; &quot;c&quot;" in html, "the page", html[:300])
    check("http" not in html.replace("http://www.w3.org", "") and html.endswith("</html>\n"), "the page stands alone")


def classes(folder, clip, count):
    got = run(folder, "--model", clip, "--classes", "a, b c ,d", "--template", "a {} b").stdout
    each = re.findall(r"^(a|b c|d): (\d+) of (\d+) pictures$", got, re.M)
    check([x[0] for x in each] == ["a", "b c", "d"] and sum(int(x[1]) for x in each) == count, "classes", got)
    check(all(1 / 3 - 1e-3 < float(p) <= 1 for p in re.findall(r"^ *(\d\.\d{4})  ", got, re.M)), "their probabilities")


def bad_input(folder, clip):
    for name in ("empty", "other", "broken"):
        os.makedirs(FOLDER + "/" + name)
    with open(FOLDER + "/other/a.webp", "wb") as f:
        f.write(b"RIFF")
    with open(FOLDER + "/broken/a.ppm", "wb") as f:
        f.write(b"P6\n40 40\n255\nshort")
    with open(FOLDER + "/wrong.safetensors", "wb") as f:
        f.write(b"\x08\0\0\0\0\0\0\0{\"a\":1}")
    refused("no folder; --help", "--model", clip)
    refused("no --model; --help", folder)
    refused("nowhere: there is no such folder", FOLDER + "/nowhere", "--model", clip)
    refused("empty has no pictures", FOLDER + "/empty", "--model", clip)
    refused("a.webp is of a kind that is not", FOLDER + "/other", "--model", clip)
    refused("no picture can be read", FOLDER + "/broken", "--model", clip)
    refused("nowhere: there is no such file or folder", folder, "--model", FOLDER + "/nowhere")
    refused("empty has no model.safetensors, ", folder, "--model", FOLDER + "/empty")
    refused("no file of this program's vectors", folder, "--model", clip, "--index", FOLDER + "/wrong.safetensors")
    refused("--template x: expected {} in it", folder, "--model", clip, "--template", "x")
    refused("expected 2 to 1000", folder, "--model", clip, "--classes", "a")
    refused("--count 0: give a whole number from 1", folder, "--model", clip, "--count", "0")
    refused("--type x: expected float", folder, "--model", clip, "--type", "x")
    refused("--npy x: expected a name that ends in .npy", folder, "--model", clip, "--npy", "x")
    refused("empty words", folder, "", "--model", clip)
    refused("--such: no such option", folder, "--such", "--model", clip)
    refused("--model without its value", folder, "--model")
    refused("a.ppm: expected 40 x 40 pixels", folder, "--model", clip, "--like", FOLDER + "/broken/a.ppm")
    refused("--template with a: expected at most 255 bytes", folder, "--model", clip, "--classes", "a,b", "--template", "{}" + 300 * "x")
    refused("no.ppm: missing", folder, "--model", clip, "--like", FOLDER + "/no.ppm")
    refused("cannot write .*wrong.safetensors/x", folder, "a", "--model", clip, "--page", FOLDER + "/wrong.safetensors/x")
    refused("has no tokenizer.json, vocab.json", folder, "a", "--model", CLIP)
    refused("another model's tokenizer: its texts end with token 21, the model's with 39", folder, "a", "--model",
            model("other-end", CLIP, end=21))
    refused("another model's tokenizer: it has 50 tokens, and the model 40", folder, "a", "--model",
            model("more", CLIP, tokens=50))
    shutil.copy(clip + "/model.safetensors", FOLDER + "/alone.safetensors")
    refused("config.json", folder, "a", "--model", FOLDER + "/alone.safetensors")
    backbone = "tests/golden/checkpoint/tiny_vit.pth"
    if os.path.exists(backbone):
        refused("has no tower of texts: ask it by a picture", folder, "a", "--model", backbone)
        got = run(folder, "--model", backbone, "--like", folder + "/3.ppm", "--index", FOLDER + "/vit.safetensors").stdout
        check(found(got)[folder + "/3.ppm"][0][0] > 0.9999, "a backbone alone", got)
        alone = FOLDER + "/backbone"
        os.makedirs(alone)
        shutil.copy(backbone, alone + "/pytorch_model.bin")
        for config, kept in (("", False), ("", True), ('{"num_heads": 2}', False)):
            if config:
                with open(alone + "/config.json", "w") as f:
                    f.write(config)
            err = run(folder, "--model", alone, "--index", FOLDER + "/backbone.safetensors").stderr
            check(("0 computed" in err) == kept, "a backbone with another config is another one", err)
    else:
        check(False, backbone + " is not there")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    folder = FOLDER + "/pictures"
    os.makedirs(folder + "/deep/er")
    os.makedirs(folder + "/.hidden")
    for i in range(40):
        picture(folder + ("/deep/er" if i % 4 == 1 else "/deep" if i % 4 == 2 else "") + "/%d.ppm" % i, i, 30 + i, 60 - i)
    picture(folder + "/one pixel.ppm", 5, 1, 1)
    picture(folder + "/.hidden/no.ppm", 5)
    with open(folder + "/broken.ppm", "wb") as f:
        f.write(b"P6\n40 40\n255\nshort")
    if hasattr(os, "symlink"):                       # links that lead back are not followed
        os.symlink(".", folder + "/back")
        os.symlink("..", folder + "/deep/up")
    with open(folder + "/other.gif", "wb") as f:
        f.write(b"GIF89a")
    clip = model("clip", CLIP)
    model("old", OLD)
    check("search FOLDER" in run("--help").stdout, "--help")
    got = run(folder, "--model", clip)
    check("41 kept" not in got.stderr and "left out: 1 of a kind" in got.stderr and "broken.ppm" in got.stderr and ", 1 left out" in
          got.stderr, "what is left out", got.stderr)
    count = beside_products(folder, clip)
    check(count == 41, "40 pictures and one of a pixel", count)
    os.remove(folder + "/broken.ppm")
    kept(folder, clip, count)
    interrupted(clip)
    page(folder, clip)
    classes(folder, clip, count)
    got = run(folder, "a b", "--model", model("open", OPEN), "--index", FOLDER + "/open.safetensors").stdout
    check(len(found(got)["a b"]) == 12, "OpenCLIP's folder", got)
    bad_input(folder, clip)
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
