"""Do the links of the documents lead somewhere? A link to a file needs the file, one with #anchor a heading there.

    python3 tests/links.py DOCUMENT...     prints what leads nowhere, and fails if something does
"""
import os
import re
import sys


def prose(path):
    """The lines of a document outside of code blocks."""
    fenced = False
    with open(path, encoding="utf-8") as document:
        for line in document:
            if line.startswith("```"):
                fenced = not fenced
            elif not fenced and not line.startswith("    "):
                yield line


def anchors(path):
    """The names that GitHub gives to a document's headings."""
    names = set()
    for line in prose(path):
        heading = re.match(r"#+ (.*)", line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        count = 1
        numbered = name
        while numbered in names:
            numbered = f"{name}-{count}"
            count += 1
        names.add(numbered)
    return names


def broken(path):
    """The links of a document that lead nowhere."""
    for link in re.findall(r"\]\(([^)\s]+)\)", "".join(prose(path))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(target):
            yield link
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            yield link


failed = 0
for document in sys.argv[1:]:
    for link in broken(document):
        print(f"{document}: {link} leads nowhere")
        failed = 1
sys.exit(failed)
