"""Compares demos/tokenizer.h with Hugging Face's tokenizers and with sentencepiece.

    python3 tests/tokenizer.py build/tokenizer [--lines 10000] [--only WORD] [FILE...]

It needs the packages tokenizers 0.22, sentencepiece 0.2 and jinja2. Lines of many scripts are made,
and tokenizers trained on them, one for each pattern and kind of model; both sides encode the lines
and decode the ids, and all must be equal. Conversations are made, too, and what chat templates of
each kind make of them is compared with jinja2 as transformers runs it: with and without a system
message, one to three questions, odd white space, the words that switch thinking on and off. FILEs
are compared, too: a tokenizer.json, a tokenizer.model, a GGUF of kind gpt2, whose tokens and merges
become a tokenizer of Hugging Face's, or a chat template, NAME.jinja, which is skipped where it is
not done. It writes into build/tokenizers_test and ends with N passed, N failed, N skipped: a check
for each line and each conversation.
"""
import argparse
import datetime
import gzip
import importlib.util
import json
import os
import random
import re
import shutil
import string
import struct
import subprocess
import sys
import time
import unicodedata

sys.path.pop(0)                                     # this file has the package's name
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)
import jinja2.exceptions
import jinja2.ext
import jinja2.sandbox
import sentencepiece

FOLDER = "build/tokenizers_test"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BAR = "\u2581"

# ---- lines ----

SCRIPTS = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF),
           (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF),
           (0xB80, 0xBFF), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x3040, 0x30FF),
           (0x4E00, 0x4FFF), (0xAC00, 0xADFF), (0xF900, 0xFAFF), (0x10400, 0x1044F),
           (0x1D400, 0x1D7FF), (0x20000, 0x200FF), (0x2460, 0x24FF), (0x2000, 0x206F)]
EMOJI = ["\U0001F600", "\U0001F469\u200D\U0001F469\u200D\U0001F467", "\U0001F44D\U0001F3FD",
         "\U0001F1E9\U0001F1EA", "\u2764\uFE0F", "\U0001F3F4\u200D\u2620\uFE0F", "1\uFE0F\u20E3"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n ", "\u00A0", "\u3000", "\u2003",
          "\u200B", "\x0b", "\x0c", "\x85", "\u2028", "        ", " \t \t"]
WORDS = ("the of and a to in is it you that he was for on are with as his they be at one have "
         "this from or had by word but what some we can out other were all there when use your "
         "how said an each she which their time will way about many then them write would like so "
         "these her long make thing see him two has look more day could go come did number sound "
         "no most people my over know water than call first who may down side been now find "
         "Straße naïve café привет мир это как дела שלום مرحبا नमस्ते สวัสดี "
         "こんにちは 世界 東京 한국어").split()
CODE = ["for (int i = 0; i < n; i++) {", "def f(x):\n    return x**2", "#include <stdio.h>",
        "SELECT * FROM t WHERE a != 'b';", "<div class=\"a\">&nbsp;</div>", "x->y[3] |= 0xFF;",
        "https://example.org/a?b=c&d=%20e", "a_b.c-d/e\\f", "\t\tif x == y: pass", "{{ '}' }}"]
BITS = ["it's", "IT'S", "we'LL", "you've", "I'm", "'d", "he\u017F", "'\u017F", "don't", "''s",
        "o'clock"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<x>", "<y>",
           "<0x41>", "[INST]", BAR]


def word(r):
    kind = r.random()
    if kind < 0.45:
        w = r.choice(WORDS)
        return r.choice([w, w, w.upper(), w.capitalize()])
    if kind < 0.55:
        low, high = r.choice(SCRIPTS)
        return "".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 12)))
    if kind < 0.62:
        return str(r.randint(0, 10 ** r.randint(1, 20)))
    if kind < 0.67:
        return r.choice(EMOJI) * r.randint(1, 3)
    if kind < 0.72:
        return r.choice(CODE)
    if kind < 0.77:
        return r.choice(BITS)
    if kind < 0.82:
        return "".join(r.choice("!?.,;:-_+*/=()[]{}<>|&^%$#@~`\"'") for _ in range(r.randint(1, 6)))
    if kind < 0.85:
        return r.choice(SPECIAL)
    if kind < 0.88:
        return r.choice("aeiouAEIOUcnszAK") + "".join(
            chr(r.choice([0x300, 0x301, 0x302, 0x303, 0x308, 0x30A, 0x327, 0x323, 0x338]))
            for _ in range(r.randint(1, 4)))
    if kind < 0.90:
        return "".join(chr(c) for c in (r.randint(0x1100, 0x1112), r.randint(0x1161, 0x1175),
                                        r.randint(0x11A7, 0x11C2)))
    if kind < 0.93:
        return "".join(point(r) for _ in range(r.randint(1, 4)))
    if kind < 0.95:
        return r.choice("ab1 .\u00e9") * r.randint(1, 200)
    return r.choice(WORDS) + r.choice(WORDS)


def point(r):
    while True:
        c = r.randint(1, r.choice([0x3000, 0x10FFFF]))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def line(r):
    text = ""
    for _ in range(r.randint(0, 14)):
        text += word(r) + r.choice([" "] * 8 + SPACES + [""])
    data = text.encode("utf-8")
    if r.random() < 0.15:                           # broken
        data = bytearray(data)
        for _ in range(r.randint(1, 4)):
            at = r.randint(0, len(data))
            wrong = bytes(r.randint(0x80, 255) for _ in range(r.randint(1, 3)))
            data[at:at + r.randint(0, 1)] = wrong
        data = bytes(data)
    return data


# ---- comparing ----

class Check:
    def __init__(self, program, lines, only):
        self.program, self.lines, self.only = program, lines, only
        self.passed = self.failed = self.skipped = self.ids = 0
        self.texts = [l.decode("utf-8", errors="replace") for l in lines]

    def of(self, lines):
        """A check of other lines; add() counts what came of it."""
        return Check(self.program, lines, self.only)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.ids += other.ids

    def ours(self, path, flags, length=0):
        lines, out = FOLDER + "/lines", FOLDER + "/ids"
        with open(lines, "wb") as f:
            for l in self.lines:
                f.write(struct.pack("<I", len(l)) + l)
        got = subprocess.run([self.program, "--encode", path, lines, out, str(flags), str(length)],
                             capture_output=True, text=True, check=False)
        if got.returncode:
            return None, (got.stdout + got.stderr).strip()
        with open(out, "rb") as f:
            data = f.read()
        at, result = 0, []
        for _ in self.lines:
            n, = struct.unpack_from("<I", data, at)
            ids = list(struct.unpack_from("<%di" % n, data, at + 4))
            at += 4 + 4 * n
            n, = struct.unpack_from("<I", data, at)
            result.append((ids, data[at + 4:at + 4 + n]))
            at += 4 + n
        return result, got.stdout.strip()

    def compare(self, name, path, encode, decode, flags=0, ties=0, length=0):
        if self.only and self.only not in name:
            return
        result, said = self.ours(path, flags, length)
        if result is None:
            self.failed += 1
            print("FAILED %s: %s" % (name, said))
            return
        begin = time.time()
        theirs = encode(self.texts)
        seconds = time.time() - begin
        wrong = shown = ids = 0
        for text, (got, back), want in zip(self.texts, result, theirs):
            ids += len(want)
            good = got == want
            again = decode(want) if decode and good else None
            if good and again is not None and back.decode("utf-8", errors="replace") != again:
                good = False
            wrong += not good
            if good or shown == 3:
                continue
            shown += 1
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), -1)
            print("  %s: %r\n    found    %r %r\n    expected %r %r" %
                  (name, text[:200], got[max(at - 2, 0):at + 6], back[:80],
                   want[max(at - 2, 0):at + 6], again))
        wrong = max(wrong - ties, 0)
        self.passed += len(theirs) - wrong
        self.failed += wrong
        self.ids += ids
        print("%s %-44s %6d lines, %8d ids; %s, theirs %.2f s" %
              ("FAILED" if wrong else "ok    ", name, len(theirs), ids, said, seconds))
        sys.stdout.flush()

    def hugging_face(self, name, tokenizer, path=None, begin=False, broken="\0"):
        """broken: what the package decodes wrongly; such texts are compared by their ids alone."""
        if self.only and self.only not in name:
            return
        if path is None:
            path = FOLDER + "/" + name.replace(" ", "_").replace("/", "_") + ".json"
            tokenizer.save(path)

        def readable(text):
            return None if broken in text else text

        self.compare(
            name, path,
            lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=begin)],
            lambda ids: readable(tokenizer.decode(ids, skip_special_tokens=False)), 1 if begin else 0)


# ---- tokenizers of Hugging Face's ----

def byte_level(normalizer, pre, texts, ignore_merges=False, special=("<|endoftext|>",)):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=4000, special_tokens=list(special), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def sequence(*parts):
    return pre_tokenizers.Sequence(list(parts))


def metaspace_bpe(texts, fallback, normalizer=None, pre=None, decoder=None, fuse=True):
    bytes_ = ["<0x%02X>" % i for i in range(256)] if fallback else []
    t = Tokenizer(models.BPE(byte_fallback=fallback, unk_token="<unk>", fuse_unk=fuse))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=4000, special_tokens=["<unk>", "<s>", "</s>"] + bytes_, show_progress=False,
        limit_alphabet=900, max_token_length=16))
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]         # bytes are words, not added tokens
    return Tokenizer.from_str(json.dumps(data))


def unigram(texts, fallback):
    bytes_ = ["<0x%02X>" % i for i in range(256)] if fallback else []
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    texts = ["".join(c for c in t if ord(c) < 0x600) for t in texts]
    t.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=3000, special_tokens=["<unk>", "<s>"] + bytes_, unk_token="<unk>",
        show_progress=False))
    data = json.loads(t.to_str())
    data["model"]["byte_fallback"] = fallback
    data["added_tokens"] = data["added_tokens"][:2]
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": BAR}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return Tokenizer.from_str(json.dumps(data))


def white_space(check, texts, configurations=36):
    """Added tokens, drawn, that take white space which others took, too.

    Where one of white space alone has lstrip it has rstrip as well: without it Hugging Face's
    tokenizers end in a panic ("AddedVocabulary bad split") behind a token that took more."""
    r = random.Random(7)
    contents = [" ", "  ", "\t", " \t", "\u3000", "\n", "<x>", " <x>", "<x> ", "a", " a ", "<y>"]
    plain = byte_level(None, pre_tokenizers.ByteLevel(add_prefix_space=False), texts[:300]).to_str()
    for i in range(configurations):
        t = Tokenizer.from_str(plain)
        for content in r.sample(contents, r.randint(1, 6)):
            left, right = r.random() < 0.6, r.random() < 0.6
            t.add_tokens([AddedToken(content, lstrip=left, normalized=r.random() < 0.3,
                                     rstrip=right or (left and content.isspace()))])
        few = check.of(["".join(r.choice(contents + [" ", " ", "b"]) for _ in range(
            r.randint(1, 12))).encode() for _ in range(200)])
        few.hugging_face("white space of added tokens, %d" % i, t)
        check.add(few)


def trained(check, texts):
    level = pre_tokenizers.ByteLevel
    plain = level(add_prefix_space=False, use_regex=False)
    regex = level(add_prefix_space=False)
    check.hugging_face("GPT-2", byte_level(None, regex, texts))
    check.hugging_face("GPT-2 with a space before", byte_level(None, level(), texts))
    check.hugging_face("GPT-2 as a Split", byte_level(None, sequence(split(GPT2), plain), texts))
    t = byte_level(None, sequence(split(LLAMA3), plain), texts, ignore_merges=True)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|endoftext|> $A", pair="$A $B",
                                      special_tokens=[("<|endoftext|>", 0)])])
    check.hugging_face("Llama 3", t)
    check.hugging_face("Llama 3 with its template", t, begin=True)
    # a word that merges do not make, which ignore_merges finds
    data = json.loads(t.to_str())
    for w in ("\u0120zebra", "\u0120th\u0120", "abracadabra"):
        data["model"]["vocab"][w] = len(data["model"]["vocab"])
    check.hugging_face("Llama 3 with words of no merge", Tokenizer.from_str(json.dumps(data)))
    check.hugging_face("Qwen2", byte_level(normalizers.NFC(), sequence(split(QWEN2), plain), texts))
    digits = pre_tokenizers.Digits(individual_digits=True)
    check.hugging_face("SmolLM", byte_level(None, sequence(digits, regex), texts))
    check.hugging_face("digits together", byte_level(
        None, sequence(pre_tokenizers.Digits(individual_digits=False), regex), texts))
    check.hugging_face("o200k", byte_level(None, sequence(split(O200K), plain), texts))
    check.hugging_face("split, removed and inverted", byte_level(None, sequence(
        pre_tokenizers.Split(Regex(GPT2), "removed", invert=True), plain), texts))
    for behaviour in ("merged_with_previous", "merged_with_next", "contiguous", "removed"):
        check.hugging_face("split at spaces, " + behaviour, byte_level(None, sequence(
            pre_tokenizers.Split(" ", behaviour), pre_tokenizers.WhitespaceSplit(), plain), texts))
    t = byte_level(normalizers.NFC(), regex, texts)
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 24)])
    t.add_tokens([AddedToken("cafe\u0301", normalized=True), AddedToken("<x>", rstrip=True),
                  AddedToken("the", lstrip=True, normalized=False)])
    t.add_special_tokens([AddedToken("<y>", lstrip=True, rstrip=True),
                          AddedToken("<|im_start|>"), AddedToken("<|im_end|>")])
    # tokenizers 0.23 makes one letter of the last two of "cafe\u0301", and of that a byte
    check.hugging_face("GPT-NeoX, added tokens", t, broken="caf\ufffd")

    white_space(check, texts)

    llama = decoders.Sequence([decoders.Replace(BAR, " "), decoders.ByteFallback(),
                               decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    before = normalizers.Sequence([normalizers.Prepend(BAR), normalizers.Replace(" ", BAR)])
    for fallback in (True, False):
        for fuse in (True, False):
            check.hugging_face("Llama 2, bytes %d, fused %d" % (fallback, fuse), metaspace_bpe(
                texts, fallback, normalizer=before, decoder=llama, fuse=fuse))
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            check.hugging_face("Metaspace %s, split %d" % (scheme, cut), metaspace_bpe(
                texts, True, pre=pre_tokenizers.Metaspace(prepend_scheme=scheme, split=cut),
                decoder=decoders.Sequence([decoders.Replace(BAR, " "), decoders.ByteFallback(),
                                           decoders.Fuse()])))
    check.hugging_face("unigram with bytes", unigram(texts, True))
    check.hugging_face("unigram", unigram(texts, False))


# ---- networks of pictures and texts: CLIP, SigLIP, SigLIP 2 ----

CLIP = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d"
        r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
BEGIN, END = "<|startoftext|>", "<|endoftext|>"


def clip_of(vocab, merges):
    """CLIPTokenizer of transformers, as it makes itself of a vocabulary."""
    t = Tokenizer(models.BPE(vocab, merges, continuing_subword_prefix="",
                             end_of_word_suffix="</w>", fuse_unk=False, unk_token=END))
    t.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = sequence(pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
                               pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(BEGIN, special=True), AddedToken(END, special=True)])
    t.post_processor = processors.RobertaProcessing(
        (END, t.token_to_id(END)), (BEGIN, t.token_to_id(BEGIN)), False, False)
    return t


def clip_vocabulary(merges):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = letters + [c + "</w>" for c in letters] + [a + b for a, b in merges] + [BEGIN, END]
    return {w: i for i, w in enumerate(dict.fromkeys(words))}


def clip_trained(texts):
    """The merges of a small vocabulary."""
    empty = clip_of({END: 0, BEGIN: 1}, [])
    t = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    t.normalizer, t.pre_tokenizer = empty.normalizer, empty.pre_tokenizer
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=3000, end_of_word_suffix="</w>", show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return [tuple(m) for m in json.loads(t.to_str())["model"]["merges"]]


def clip_real():
    """Those of CLIP's own, where the package open_clip_torch is installed; else None."""
    for folder in sys.path:
        path = os.path.join(folder, "open_clip", "bpe_simple_vocab_16e6.txt.gz")
        if os.path.exists(path):
            with gzip.open(path, "rt", encoding="utf-8") as f:
                lines = f.read().split("\n")[1:49152 - 256 - 2 + 1]
            return [tuple(line.split()) for line in lines]
    return None


def clip(check, name, merges):
    """From tokenizer.json, from vocab.json and merges.txt, and cut and filled up to 77 tokens."""
    vocab = clip_vocabulary(merges)
    t = clip_of(vocab, merges)

    def said(ids):
        return t.decode(ids, skip_special_tokens=False).replace("</w>", " ")

    def encode(texts):
        return [e.ids for e in t.encode_batch(texts)]

    folder = FOLDER + "/clip"
    os.makedirs(folder, exist_ok=True)
    t.save(FOLDER + "/clip.json")
    with open(folder + "/vocab.json", "w", encoding="utf-8") as f:
        json.dump(vocab, f)
    with open(folder + "/merges.txt", "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(a + " " + b + "\n" for a, b in merges))
    check.compare(name, FOLDER + "/clip.json", encode, said, 1)
    check.compare(name + ", vocab.json and merges.txt", folder, encode, said, 1)
    t.enable_truncation(77)
    t.enable_padding(length=77, pad_id=t.token_to_id(END), pad_token=END)
    check.compare(name + ", 77 tokens", folder, encode, None, 1, length=77)


def siglip2(check, texts):
    """Gemma's steps and small letters; a file that is Gemma's own, and the flag."""
    small = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", BAR)])
    t = metaspace_bpe(texts, True, small, pre_tokenizers.Split(" ", "merged_with_previous"),
                      decoders.Sequence([decoders.Replace(BAR, " "), decoders.ByteFallback(),
                                         decoders.Fuse()]))
    t.post_processor = processors.TemplateProcessing(single="$A </s>",
                                                     special_tokens=[("</s>", 2)])
    check.hugging_face("SigLIP 2", t, begin=True)
    t.enable_truncation(64)
    t.enable_padding(length=64, pad_id=0, pad_token="<unk>")
    data = json.loads(t.to_str())
    data["normalizer"] = data["normalizer"]["normalizers"][1]
    with open(FOLDER + "/gemma.json", "w", encoding="utf-8") as f:
        json.dump(data, f)
    check.compare("SigLIP 2, Gemma's file, 64 tokens", FOLDER + "/gemma.json",
                  lambda texts: [e.ids for e in t.encode_batch(texts)], None, 1 + 8, length=64)


def towers(check, texts):
    clip(check, "CLIP", clip_trained(texts))
    real = clip_real()
    if real:
        clip(check, "CLIP's own", real)
    else:
        print("skipped: CLIP's own vocabulary (no package open_clip_torch)")
        check.skipped += 1
    letters = "".join(c for c in map(chr, range(0x110000))
                      if unicodedata.category(c) in ("Lu", "Lt", "Ll"))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    every = check.of([letters[i:i + 50].encode() for i in range(0, len(letters), 50)])
    every.hugging_face("every letter small", byte_level(normalizers.Lowercase(), level, ["a b"]))
    check.add(every)
    steps = normalizers.Sequence([
        normalizers.Lowercase(), normalizers.Strip(),
        normalizers.Replace(Regex(r"[!-/:-@]"), ""), normalizers.Replace(Regex(r"\s+"), " ")])
    check.hugging_face("Strip and Replace of a Regex", byte_level(steps, level, texts))
    siglip2(check, texts)


def siglip_text(text):
    """What SiglipTokenizer of transformers makes of a text before it asks SentencePiece."""
    no_marks = str.maketrans("", "", string.punctuation)
    text = (BAR + text.replace(BAR, " ")).lower().translate(no_marks)
    return re.sub(r"\s+", " ", text).strip()


def siglip(check, path):
    """SiglipTokenizer over a spiece.model: its steps, and, where transformers is, itself."""
    folder = FOLDER + "/siglip"
    os.makedirs(folder, exist_ok=True)
    shutil.copy(path, folder + "/spiece.model")
    with open(folder + "/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "SiglipTokenizer", "pad_token": "</s>",
                   "eos_token": "</s>"}, f)
    p = sentencepiece.SentencePieceProcessor(model_file=path)
    skip, end = len(p.encode("<unk>")), p.piece_to_id("</s>")
    plain = check.of([l for l in check.lines if b"</s>" not in l and b"<unk>" not in l])

    def encode(texts, most=10 ** 9):
        return [p.encode("<unk>" + siglip_text(t))[skip:][:most - 1] + [end] for t in texts]

    plain.compare("SigLIP", folder, encode, None, 1 + 2)
    plain.compare("SigLIP, 64 tokens", folder,
                  lambda texts: [x + [end] * (64 - len(x)) for x in encode(texts, 64)], None,
                  1 + 2, length=64)
    check.add(plain)
    if importlib.util.find_spec("transformers"):
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import SiglipTokenizer
        try:
            theirs = SiglipTokenizer(folder + "/spiece.model")
        except ImportError:                          # it asks for protobuf, which not every Python has
            print("skipped: SigLIP of transformers (no protobuf)")
            return
        few = check.of(plain.lines[:1000])
        few.compare("SigLIP, transformers", folder,
                    lambda texts: [theirs(t).input_ids for t in texts], None, 1)
        check.add(few)


# ---- SentencePiece's ----

def spm_compare(check, name, path):
    if check.only and check.only not in name:
        return
    p = sentencepiece.SentencePieceProcessor(model_file=path)
    control = {i for i in range(p.get_piece_size()) if p.is_control(i)}
    check.compare(name, path, lambda texts: p.encode(texts),
                  lambda ids: None if control & set(ids) else p.decode(ids), 2,
                  # behind a unigram model's user-defined symbol a few ties fall otherwise
                  ties=len(check.lines) // 2000 if "unigram user" in name else 0)


def varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return n, at


def field(data, number):
    """The first field of that number in a message, as bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        n = {1: 8, 5: 4}.get(key & 7, 0)
        if key & 7 in (0, 2):
            value, at = varint(data, at)
            n = value if key & 7 == 2 else 0
        if key >> 3 == number:
            return data[at:at + n]
        at += n
    return b""


def mapped(check, path):
    """A tokenizer.json with the map of characters of a model: field 2 of its field 3."""
    with open(path, "rb") as f:
        charsmap = normalizers.Precompiled(field(field(f.read(), 3), 2))
    t = unigram(check.texts[:3000], True)
    t.normalizer = charsmap
    check.hugging_face("unigram with a map of characters", t)
    t.normalizer = normalizers.Sequence([normalizers.Lowercase(), charsmap])
    marks = [chr(c) for c in range(0x300, 0x370)]
    marks += "\u200c\u200d\ufe0f\u0903\u093e\u0e33\uff9e\u0600\u06dd\r\n\u00ad"
    letters = "aeAE\u00e9\u0391\u0430\u05d0\u0627\uff71\u30cf\u00bd\u2460\ufb01 \u3000\u00a0"
    r = random.Random(5)
    lines = ["".join(r.choice(letters if r.random() < 0.5 else marks)
                     for _ in range(r.randint(1, 40))).encode() for _ in range(3000)]
    clusters = check.of(lines)
    clusters.hugging_face("map of characters, clusters", t)
    check.add(clusters)


def spm_gguf(path, out):
    """The pieces of a model as a GGUF of kind llama."""
    p = sentencepiece.SentencePieceProcessor(model_file=path)
    n = p.get_piece_size()

    def text(s):
        s = s.encode("utf-8") if isinstance(s, str) else s
        return struct.pack("<Q", len(s)) + s

    kinds = [2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 1
             for i in range(n)]
    values = [
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama"),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, n)
        + b"".join(text(p.id_to_piece(i)) for i in range(n)),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ%df" % n, 9, 6, n,
                                                    *[p.get_score(i) for i in range(n)]),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ%di" % n, 9, 5, n, *kinds),
        text("tokenizer.ggml.unknown_token_id") + struct.pack("<II", 4, 0),
        text("tokenizer.ggml.bos_token_id") + struct.pack("<II", 4, 1),
        text("tokenizer.ggml.eos_token_id") + struct.pack("<II", 4, 2)]
    with open(out, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(values))


def sentencepieces(check, texts):
    corpus = FOLDER + "/corpus.txt"
    with open(corpus, "w", encoding="utf-8") as f:
        for t in texts:
            f.write(" ".join(t.split()).replace("\0", "") + "\n")
    nfkc = {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True}
    cases = [("unigram", nfkc), ("bpe", nfkc), ("unigram", {}), ("bpe", {}),
             ("unigram", {"byte_fallback": False}),
             ("bpe", {"byte_fallback": False}), ("unigram", {"remove_extra_whitespaces": True}),
             ("bpe", {"remove_extra_whitespaces": True}), ("bpe", {"add_dummy_prefix": False}),
             ("unigram", {"user_defined_symbols": ["<x>", "<y>", "ab", "the of"]}),
             ("bpe", {"user_defined_symbols": ["<x>", "<y>", "ab", "the of"]}),
             ("bpe", {"treat_whitespace_as_suffix": True}),
             ("unigram", {"treat_whitespace_as_suffix": True})]
    for kind, options in cases:
        name = "SentencePiece %s %s" % (kind, " ".join("%s=%s" % o for o in options.items()))
        if check.only and check.only not in name:
            continue
        prefix = FOLDER + "/" + re.sub("[ /']", "_", name)[:80]
        all_options = {"byte_fallback": True, "normalization_rule_name": "identity",
                       "remove_extra_whitespaces": False, "character_coverage": 0.98,
                       "vocab_size": 5000, "hard_vocab_limit": False, "minloglevel": 2,
                       "split_digits": True}
        all_options.update(options)
        sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, model_type=kind,
                                                 **all_options)
        spm_compare(check, name.strip(), prefix + ".model")
        if kind == "unigram" and options == nfkc:
            siglip(check, prefix + ".model")
            mapped(check, prefix + ".model")
        if kind == "bpe" and not options:
            spm_gguf(prefix + ".model", prefix + ".gguf")
            p = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
            check.compare("the same as a GGUF", prefix + ".gguf", p.encode, None, 2)


# ---- chat templates ----

# What conversations of each kind consist of; a model's own template says the same, and more of
# tools. "@" stands for a line's end in a string.
ROLE = "{{ '<|im_start|>' + message.role + '@' + message.content + '<|im_end|>' + '@' }}"
CALL = "{% if add_generation_prompt %}{{ '<|im_start|>assistant@' }}{% endif %}"
LLAMA_ROLE = ("{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>@@' + "
              "message['content'] | trim + '<|eot_id|>' }}")
LLAMA_CALL = "{{ '<|start_header_id|>assistant<|end_header_id|>@@' }}"
EACH, OWN = "{% for message in messages %}", "{% if messages[0].role == 'system' %}"
OPENED = ("{%- set loop_messages = messages %}" + OWN + "{%- set system_message = "
          "messages[0]['content'] %}{%- set loop_messages = messages[1:] %}{% endif %}")
LOOP = "{%- for message in loop_messages %}"
MISTRALS = OPENED + ("{{- bos_token }}" + LOOP + "{%- if message['role'] == 'user' %}"
                     "{%- if loop.WHICH and system_message is defined %}"
                     "{{- 'OPEN' + system_message + '@@' + message['content'] + 'CLOSE' }}"
                     "{%- else %}{{- 'OPEN' + message['content'] + 'CLOSE' }}{%- endif %}"
                     "{%- else %}{{- ANSWER + eos_token }}{%- endif %}{%- endfor %}")


def mistral(which, opening, closing, answer):
    text = MISTRALS.replace("WHICH", which).replace("OPEN", opening).replace("CLOSE", closing)
    text = text.replace("ANSWER", answer)
    return text.replace("'[INST]' + message['content']", '"[INST]" + message["content"]')


QWEN3 = (EACH + "{% if message.role != 'assistant' %}" + ROLE + "{% else %}"
         "{% set content = message.content %}{% if '</think>' in content %}"
         "{% set content = content.split('</think>')[-1].lstrip('@') %}{% endif %}"
         "{% set ns = namespace(last_query_index=99) %}{% if loop.index0 > ns.last_query_index %}"
         "{% endif %}{{ '<|im_start|>assistant@' + content + '<|im_end|>@' }}{% endif %}"
         "{% endfor %}")
THINK = "{% if messages[0].role == 'system' %}{% set system_message = messages[0].content %}"
SMOLLM3 = (
    "{%- set reasoning_mode = '/no_think' if enable_thinking is false else '/think' %}"
    '{{- "<|im_start|>system@" }}' + THINK +
    "{% if '/no_think' in system_message %}{% set reasoning_mode = '/no_think' %}"
    "{% elif '/think' in system_message %}{% set reasoning_mode = '/think' %}{% endif %}"
    "{% set told = system_message.replace('/no_think', '').replace('/think', '').rstrip() %}"
    "{% endif %}{% if '/system_override' in system_message %}"
    "{{ told.replace('/system_override', '').rstrip() }}{% else %}"
    '{{- "## Metadata@@" }}{{- "Knowledge Cutoff Date: May 2020@" }}'
    '{% set today = strftime_now("%d %B %Y") %}{{- "Today Date: " ~ today ~ "@" -}}'
    '{{- "Reasoning Mode: " + reasoning_mode + "@@" }}{{- "## Custom Instructions@@" }}'
    '{%- if told -%}{{- told + "@@" -}}{%- elif reasoning_mode == "/think" -%}'
    '{{- "Think \\"a lot\\".@@" -}}{%- else -%}{{- "Be quick.@@" -}}{%- endif -%}{%- endif -%}'
    '{{- "<|im_end|>@" -}}' + EACH + "{% if message.role == 'user' %}" + ROLE +
    "{% elif message.role == 'assistant' %}{{ '<|im_start|>assistant@' + ('' if reasoning_mode == "
    "'/think' else '<think>@@</think>@') + message.content.lstrip('@') + '<|im_end|>@' "
    "}}{% endif %}"
    "{% endfor %}{{ '<|im_start|>assistant@' + ('' if reasoning_mode == '/think' else "
    "'<think>@@</think>@') }}")
GRANITE = (
    OPENED.replace("{% endif %}", '{%- else %}{%- set system_message = "Knowledge: '
    '2020.@Today: " + '
                   "strftime_now('%B %d, %Y') + '.' %}{%- if documents %}{%- elif thinking %}"
                   '{%- set system_message = system_message + " Think." %}{%- else %}'
                   "{%- set system_message = system_message + ' Help.' %}{%- endif %}{%- "
                   "endif %}") +
    "{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>@' }}" + LOOP +
    "{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + "
    "'<|end_of_text|>@' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|start_of_role|>assistant' }}{{- '<|end_of_role|>' }}{%- endif %}")
GRANITE4 = (
    "{%- set g4_default_system_message = 'Please help.' %}{%- set ns = "
    "namespace(system_message='') "
    "%}" + OWN + "{%- set ns.system_message = messages[0].content %}{%- endif %}"
    "{{- '<|start_of_role|>system<|end_of_role|>' + (ns.system_message or "
    "g4_default_system_message) + '<|end_of_text|>@' }}" + EACH + "{% if message.role != "
    "'system' %}"
    "{%- set content = namespace(val=message.content) %}"
    "{{- '<|start_of_role|>' + message.role + '<|end_of_role|>' + content.val + "
    "'<|end_of_text|>@' }}"
    "{% endif %}{%- endfor %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}")
NEMOTRON = (
    "{%- set ns = namespace(enable_thinking=THINKS) %}" + EACH +
    "{%- if message.role != 'assistant' %}{%- if '/think' in message.content %}"
    "{%- set ns.enable_thinking = true %}{%- elif '/no_think' in message.content %}"
    "{%- set ns.enable_thinking = false %}{%- endif %}{%- endif %}{%- endfor %}"
    "{{- '<SPECIAL_10>System@' }}" + OWN + "{{ messages[0].content.replace('/think', '')"
    ".replace('/no_think', '').strip() }}{% endif %}{{- '@@' -}}\n"
    "{%- set messages = messages[1:] if messages[0].role == 'system' else messages %}" + EACH +
    "{%- set content = message.content %}{%- if message.role == 'user' %}{{- '<SPECIAL_11>User@' + "
    "content.replace('/think', '').replace('/no_think', '').strip() + '@' }}{%- else %}"
    "{%- if '</think>' in content %}{%- set content = content.split('</think>')[1] %}{%- endif %}"
    "{{- '<SPECIAL_11>Assistant@' + content.strip() }}{{- '@<SPECIAL_12>@' }}{%- endif %}"
    "{%- endfor %}{{- '<SPECIAL_11>Assistant@' }}"
    "{{- '<think>@' if ns.enable_thinking else '<think></think>' }}")
NEMOTRON_H = (
    "{{ '<SPECIAL_10>System@' }}" + OWN + "{{ messages[0].content.strip() }}{% endif %}" + EACH +
    "{% if message.role == 'user' %}{{ '@<SPECIAL_11>User@' + message['content'].strip() + "
    "'@<SPECIAL_11>Assistant@' }}{% elif message.role == 'assistant' %}"
    "{{ message['content'].strip() }}{% endif %}{% endfor %}" + OWN +
    "{% if \"{'reasoning': True}\" in messages[0].content %}{{ '<think>@' }}"
    "{% elif \"{'reasoning': False}\" in messages[0].content %}{{ '<think></think>' }}{% endif %}"
    "{% endif %}")
FALCON = (
    OPENED + "{{ system_message.strip() if system_message is defined }}" + LOOP +
    "{% if message.role == 'user' %}{{ '@@User: ' + "
    "message['content'].strip().replace('@@', '@') }}"
    "{% else %}{{ '@@Assistant: ' + message['content'].strip().replace('@@', '@') }}{% endif %}"
    "{% endfor %}{{ '@@Assistant:' }}")
FALCON3 = (
    EACH + "{% if message.role == 'system' %}{{- '<|system|>@' + message['content'] + '@' }}"
    "{% elif message.role == 'user' %}{{- '<|user|>@' + message['content'] + '@' }}{% else %}"
    "{{- '<|assistant|>@' + message['content'] + eos_token + '@' }}{% endif %}{% endfor %}"
    "{{- '<|assistant|>@' }}")
ZEPHYR = (
    EACH + "{% if message.role == 'user' %}{{ '<|user|>@' + message['content'] + eos_token }}"
    "{% else %}{{ '<|' + message.role + '|>@' + message['content'] + eos_token }}{% endif %}"
    "{{ '@' }}{% endfor %}{{ '<|assistant|>@' }}")
LLAMA31 = (
    "{{- bos_token }}{%- set date_string = DATE %}" + OWN + "{%- set system_message = "
    "messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}"
    '{%- set system_message = "" %}{%- endif %}'
    '{{- "<|start_header_id|>system<|end_header_id|>@@" }}'
    '{{- "Cutting Knowledge Date: May 2020@" }}{{- "Today Date: " + date_string + "@@" }}'
    '{{- system_message }}{{- "<|eot_id|>" }}' + EACH + LLAMA_ROLE + "{% endfor %}" + LLAMA_CALL)
FIRST = ("{% if loop.first and message.role != 'system' %}{{ '<|im_start|>system@It\\'s SmolLM.'"
         " + '<|im_end|>@' }}{% endif %}")
GEMMA = (
    "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}"
    "{%- set first_user_prefix = messages[0]['content'] + '@@' -%}"
    "{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set first_user_prefix = '' -%}"
    "{%- set loop_messages = messages -%}{%- endif -%}{%- for message in loop_messages -%}"
    "{%- if message['role'] == 'assistant' -%}{%- set role = 'model' -%}{%- else -%}"
    "{%- set role = message['role'] -%}{%- endif -%}"
    "{{ '<start_of_turn>' + role + '@' + (first_user_prefix if loop.first else '') }}"
    "{{ message['content'] | trim }}{{ '<end_of_turn>@' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model@' }}{%- endif -%}")
TEMPLATES = {
    "ChatML": EACH + ROLE + "{% endfor %}" + CALL,
    "ChatML with a system message": EACH + FIRST + ROLE + "{% endfor %}" + CALL,
    "Llama 3": "{{ bos_token }}" + EACH + LLAMA_ROLE + "{% endfor %}" + LLAMA_CALL,
    "Llama 3.1": LLAMA31.replace("DATE", '"26 Jul 2024"'),
    "Llama 3.2": LLAMA31.replace("DATE", 'strftime_now("%d %b %Y")'),
    "Gemma 3": GEMMA, "Zephyr": ZEPHYR, "Falcon": FALCON, "Falcon 3": FALCON3,
    "Mistral 1": mistral("first", " [INST] ", " [/INST]", "' ' + message['content']"),
    "Mistral 3": mistral("last", "[INST] ", "[/INST]", "' ' + message['content']|trim"),
    "Mistral Nemo": mistral("last", "[INST]", "[/INST]", "message['content']"),
    "Qwen3": QWEN3 + CALL.replace("{% endif %}", (
        "{%- if enable_thinking is defined and enable_thinking is false %}"
        "{{- '<think>@@</think>@@' }}{% endif %}{% endif %}")),
    "Qwen3 that always thinks": QWEN3 + CALL.replace("assistant@", "assistant@<think>@"),
    "SmolLM3": SMOLLM3, "Granite 3": GRANITE, "Granite 4": GRANITE4, "Nemotron Nano 2": NEMOTRON,
    "Nemotron-H": NEMOTRON_H}
PIECES = ["Hi", " Hi ", "\n\nx\n", "", "a\u3000", "\x1cq\x1f", "\u00a0\u00fc\u2003", "/think go",
          "/no_think", "x /no_think y /think", "//thinkthink", "<think>\nhm\n</think>\n\nok",
          "<think>a</think>b</think>\nc", "</think>", "\n\n</think>\n\nq", "{'reasoning': True}",
          "{'reasoning': False} be short", "/system_override brief \n", "two\n\n\nlines\r\n\r\nx",
          "Who are you?", "  tail\t", "\xa0", "<|im_end|>"]
ROLES = ["system", "user", "assistant"]


def conversation(r):
    def text():
        return "".join(r.choice(PIECES) for _ in range(r.randint(1, 3)))
    first = [("system", text())] if r.random() < 0.5 else []
    return first + [(ROLES[1 + i % 2], text()) for i in range(r.choice([1, 1, 3, 5]))]


class Generation(jinja2.ext.Extension):
    """What transformers adds to the language: where the model's own words are."""
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def rendered(text, messages, think, day):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.globals.update(raise_exception=refuse, strftime_now=day.strftime)
    if "namespace(enable_thinking" in text:             # not a variable of Nemotron's
        on = "namespace(enable_thinking=" + ("false" if think < 0 else "true")
        for old in ("=true", " = true", "=THINKS"):
            text = text.replace("namespace(enable_thinking" + old, on)
    switch = dict(enable_thinking=think > 0, thinking=think > 0) if think else {}
    try:
        return env.from_string(text).render(
            messages=[dict(role=a, content=b) for a, b in messages], add_generation_prompt=True,
            bos_token="<s>", eos_token="</s>", **switch)
    except jinja2.exceptions.TemplateError:
        return None


def chats(check, name, path, text):
    """A conversation that is refused passes where the template refuses it or has no such switch."""
    if check.only and check.only not in name:
        return
    r = random.Random(3)
    day = datetime.date(2025, 3, 7)
    talks = [conversation(r) for _ in range(60)]
    data = b"".join(struct.pack("<I", len(m)) + b"".join(
        struct.pack("<II", ROLES.index(a), len(b.encode())) + b.encode() for a, b in m)
        for m in talks)
    into, out = FOLDER + "/conversations", FOLDER + "/chats"
    with open(into, "wb") as f:
        f.write(data)
    good = wrong = no = 0
    why = ""
    for think in (0, 1, -1):
        subprocess.run([check.program, "--chat", path, into, out, str(think),
                        day.strftime("%Y-%m-%d")], check=True)
        with open(out, "rb") as f:
            data = f.read()
        at = 0
        for messages in talks:
            bad, n = struct.unpack_from("<II", data, at)
            got = data[at + 8:at + 8 + n].decode("utf-8")
            at += 8 + n
            if bad:
                no += 1
                why = why or got
                continue
            want = rendered(text, messages, think, day)
            good += got == want
            wrong += got != want
            if got != want and wrong <= 2:
                print("  %s: think %d, %r\n    found    %r\n    expected %r" %
                      (name, think, messages, got, want))
    check.passed += good
    check.failed += wrong
    check.skipped += not good and not wrong
    print("%s %-44s %6d conversations; %d refused %s" %
          ("FAILED" if wrong else "ok    " if good else "skipped", name, good + wrong, no,
           "" if good + wrong > 60 else why))
    sys.stdout.flush()


def templates(check):
    for name, text in TEMPLATES.items():
        for end in ("\\n", "\n"):                      # as strings write it, and itself
            path = FOLDER + "/template.jinja"
            full = text.replace("@", end)
            with open(path, "w", encoding="utf-8") as f:
                f.write(full)
            before = check.skipped
            chats(check, name, path, full)
            if check.skipped > before:                  # these are done, all of them
                check.skipped, check.failed = before, check.failed + 1


# ---- files ----

def gguf_tokenizer(path):
    """Hugging Face's tokenizer of the tokens and merges in a GGUF of kind gpt2."""
    with open(path, "rb") as f:
        data = f.read(64 << 20)
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    at = 24

    def text():
        nonlocal at
        n, = struct.unpack_from("<Q", data, at)
        at += 8 + n
        return data[at - n:at].decode("utf-8")

    def value(kind):
        nonlocal at
        if kind == 8:
            return text()
        if kind == 9:
            kind, n = struct.unpack_from("<IQ", data, at)
            at += 12
            return [value(kind) for _ in range(n)]
        at += sizes[kind]
        return int.from_bytes(data[at - sizes[kind]:at], "little")

    found = {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        key = text()
        kind, = struct.unpack_from("<I", data, at)
        at += 4
        found[key] = value(kind)
    assert found["tokenizer.ggml.model"] == "gpt2"
    tokens = found["tokenizer.ggml.tokens"]
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)},
                             [tuple(m.split(" ")) for m in found["tokenizer.ggml.merges"]]))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pre = found["tokenizer.ggml.pre"]
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.pre_tokenizer = {
        "smollm": sequence(pre_tokenizers.Digits(individual_digits=True), level), "gpt-2": level,
        "qwen2": sequence(split(QWEN2), plain), "llama-bpe": sequence(split(LLAMA3), plain)}[pre]
    if pre == "qwen2":
        t.normalizer = normalizers.NFC()
    t.model.ignore_merges = pre == "llama-bpe"
    t.decoder = decoders.ByteLevel()
    kinds = found["tokenizer.ggml.token_type"]
    t.add_special_tokens([AddedToken(s, special=True) for s, k in zip(tokens, kinds) if k == 3])
    return t


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--lines", type=int, default=10000)
    parser.add_argument("--only")
    options = parser.parse_args()
    os.makedirs(FOLDER, exist_ok=True)
    r = random.Random(1)
    check = Check(options.program, [line(r) for _ in range(options.lines)], options.only)
    for path in options.files:
        name = os.path.basename(path)
        if path.endswith(".gguf"):
            check.hugging_face(name, gguf_tokenizer(path), path)
        elif path.endswith(".jinja"):
            with open(path, encoding="utf-8", newline="") as f:
                chats(check, name, path, f.read())
        elif path.endswith(".json"):
            check.hugging_face(name, Tokenizer.from_file(path), path)
        else:
            spm_compare(check, name, path)
    texts = check.texts[:3000]
    trained(check, texts)
    towers(check, texts)
    sentencepieces(check, texts)
    templates(check)
    print("%d ids" % check.ids)
    tables = subprocess.run([sys.executable, "tests/unicode.py", "demos/tokenizer.h"],
                            capture_output=True, text=True, check=False)
    print(tables.stdout.strip())
    skipped = tables.stdout.startswith("skipped")
    check.failed += tables.returncode != 0
    check.passed += tables.returncode == 0 and not skipped
    check.skipped += skipped
    print("%d passed, %d failed, %d skipped" % (check.passed, check.failed, check.skipped))
    return 1 if check.failed or not check.passed else 0


if __name__ == "__main__":
    sys.exit(main())
