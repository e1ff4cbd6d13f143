"""Do the links of the documents lead somewhere? A link to a file needs the file, one with #anchor a heading there.
A linked .svg has to be XML, and neither it nor a document may hold a merge's marks.

    python3 tests/links.py DOCUMENT...     prints what leads nowhere or is broken, and fails if something is
"""
import os
import re
import sys
import xml.dom.minidom
import xml.parsers.expat


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


def links(path):
    """Each link of a document to a file, the file and the anchor."""
    for link in re.findall(r"\]\(([^)\s]+)\)", "".join(prose(path))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        yield link, os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path, anchor


def broken(path):
    """The links of a document that lead nowhere."""
    for link, target, anchor in links(path):
        if not os.path.exists(target):
            yield link
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            yield link


def merge_marks(path):
    """The numbers of the lines that a merge has left between two versions."""
    with open(path, encoding="utf-8") as text:
        return [number for number, line in enumerate(text, 1) if line.startswith(("<" * 7, ">" * 7))]


def not_xml(path):
    """Why a file does not parse as XML, or None."""
    try:
        xml.dom.minidom.parse(path)
    except xml.parsers.expat.ExpatError as why:
        return why
    return None


failed = 0
drawings = set()
for document in sys.argv[1:]:
    drawings.update(target for _, target, _ in links(document) if target.endswith(".svg") and os.path.exists(target))
    for link in broken(document):
        print(f"{document}: {link} leads nowhere")
        failed = 1
for drawing in sorted(drawings):
    why = not_xml(drawing)
    if why:
        print(f"{drawing}: is not XML: {why}")
        failed = 1
for path in sys.argv[1:] + sorted(drawings):
    for number in merge_marks(path):
        print(f"{path}:{number}: a merge's mark")
        failed = 1
sys.exit(failed)
