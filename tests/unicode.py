"""Writes the tables of Unicode that demos/tokenizer.h holds, from Python's unicodedata.

    python3 tests/unicode.py                        prints them
    python3 tests/unicode.py demos/tokenizer.h      looks whether the file has them as they are

The header's tables are those of Unicode 16.0.0, as in Hugging Face's tokenizers 0.22: Python 3.14,
or an older one with the package unicodedata2 16.0.0. With another version it says that it can not
tell, and returns 0.
"""
import sys
try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
NAMES = ("Cc Cf Cn Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So "
         "Zl Zp Zs").split()
DIGITS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*/.,:;=<>_"
POINTS = 0x110000
HANGUL = range(0xAC00, 0xD7A4)                      # composed by arithmetic


def runs(values):
    """A digit for each run of equal values, and its length behind it if that is not 1."""
    text, begin = "", 0
    for i in range(1, len(values) + 1):
        if i < len(values) and values[i] == values[begin]:
            continue
        text += DIGITS[values[begin]] + (str(i - begin) if i - begin > 1 else "")
        begin = i
    return text


def number(n):
    return DIGITS[n >> 12] + DIGITS[n >> 6 & 63] + DIGITS[n & 63]


def entries(table):
    """Three digits for each number; before an entry that does not follow the last, ! and its
    code point."""
    text, last = "", -2
    for point, parts in table:
        if point != last + 1:
            text += "!" + number(point)
        text += "".join(number(p) for p in parts)
        last = point
    return text


def rows(name, text):
    out = ["static const char *const %s[] = {" % name]
    for i in range(0, len(text), 92):
        out.append('    "%s",' % text[i:i + 92])
    out.append("    NULL")
    out.append("};")
    return out


def tables():
    characters = [chr(i) for i in range(POINTS)]
    categories = [NAMES.index(unicodedata.category(c)) for c in characters]
    classes = [unicodedata.combining(c) for c in characters]
    values = sorted(set(classes))
    single, pair, apart = [], [], []
    for point, c in enumerate(characters):
        parts = unicodedata.decomposition(c)
        if not parts or parts.startswith("<") or point in HANGUL:
            continue
        parts = [int(p, 16) for p in parts.split()]
        if len(parts) == 1:
            single.append((point, parts))
        elif unicodedata.normalize("NFC", c) == c:
            pair.append((point, parts))
        else:
            apart.append((point, parts))
    out = rows("tk_unicode_categories", runs(categories))
    out += rows("tk_unicode_classes", runs([values.index(c) for c in classes]))
    out += ["static const unsigned char tk_unicode_class[] = {"]
    for i in range(0, len(values), 16):
        out.append("    " + ", ".join(str(v) for v in values[i:i + 16]) + ",")
    out[-1] = out[-1][:-1]
    out += ["};"]
    out += rows("tk_unicode_single", entries(single))
    out += rows("tk_unicode_pair", entries(pair))
    out += rows("tk_unicode_apart", entries(apart))
    return "\n".join(out) + "\n"


def main():
    if unicodedata.unidata_version != VERSION:
        print("skipped: this Python has Unicode %s, the header %s"
              % (unicodedata.unidata_version, VERSION))
        return 0
    text = tables()
    if len(sys.argv) < 2:
        print(text, end="")
        return 0
    with open(sys.argv[1], encoding="utf-8") as file:
        same = text in file.read()
    print("the tables of Unicode %s are %s" % (VERSION, "as they should be" if same else "others"))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
