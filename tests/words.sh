#!/bin/sh
# How long the course is: words of prose in README.md and in each chapter, outside of code blocks, tables,
# figures and comments, before the answers.
#   tests/words.sh              fails if a limit is passed
#   tests/words.sh --report     prints the same table and does not fail
#   tests/words.sh --others     prints the other documents' words beside it, without limits
# Ends with N passed, N failed, N skipped.
set -u
chapter_limit=2500
readme_limit=750
course_limit=30000

# prose DOCUMENT: its words outside of all that is no prose. A link counts as its text.
prose()
{
    awk '
        /^```/ { fenced = !fenced; next }
        fenced || /^    / || /^\|/ || /^!\[/ { next }
        /^## Answers/ || /^<summary>Answers/ || /<details><summary>Answers/ { exit }
        /^<!--/ { if (!/-->/) comment = 1; next }
        comment { if (/-->/) comment = 0; next }
        /^<\/?(details|summary|p|img|picture|source|br)/ { next }
        {
            gsub(/\]\([^)]*\)/, "]")
            gsub(/\[|\]/, "")
            n = split($0, word, /[ \t]+/)
            for (i = 1; i <= n; i++) if (word[i] ~ /[A-Za-z0-9]/) words++
        }
        END { print words + 0 }' "$1"
}

passed=0 failed=0 sum=0 report=0 others=0
for argument; do
    case $argument in
        --report) report=1 ;;
        --others) others=1; report=1 ;;
        *) echo "usage: tests/words.sh [--report] [--others]"; exit 2 ;;
    esac
done

# line DOCUMENT WORDS LIMIT
line()
{
    note=
    if [ "$3" != - ] && [ "$2" -gt "$3" ]; then
        note="  $(($2 - $3)) too many"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
    printf '%-32s %7s %7s%s\n' "$1" "$2" "$3" "$note"
}

printf '%-32s %7s %7s\n' document words limit
line README.md "$(prose README.md)" $readme_limit
for document in docs/[0-9]*.md; do
    words=$(prose "$document")
    sum=$((sum + words))
    line "$document" "$words" $chapter_limit
done
line "the course" $sum $course_limit
if [ $others = 1 ]; then
    for document in docs/[!0-9]*.md; do line "$document" "$(prose "$document")" -; done
fi
# and prose is told from what is none
example=$(mktemp)
printf 'One two, [three](four.md).\n\n    five\n\n| six |\n\n```c\nseven\n```\n\n![eight](nine.svg)\n\n## Answers\n\nten\n' >"$example"
if [ "$(prose "$example")" = 3 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "words are counted that are no prose"; fi
rm -f "$example"

if [ $report = 1 ]; then echo "a report: nothing fails here"; exit 0; fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
