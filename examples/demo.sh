#!/usr/bin/env bash
# What `make demo` shows: a small knowledge base completed by a model of itself, in a minute. What is said behind
# demo.sh is said to `kbdisk complete`: demo.sh --budget 10s.
set -euo pipefail
examples=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$examples"/{elements.ttl,surest.py} .

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() {
    printf '\n\033[1m$ %s\033[0m\n' "$1"
    bash -c "$1"
}

say 'The chemical elements, with gaps:'
show "kbdisk inspect elements.ttl | sed '/^Chemist/,\$d'"
say 'What is missing, and more likely right than wrong, is filled in by a model that learns from the rest:'
show "kbdisk complete elements.ttl --out completed.ttl${*:+ $*}"
say 'The surest of the new values:'
show 'python surest.py completed.ttl.provenance.jsonl 2'
say 'They stand in one block at the end, each in the form that its property has there. What was given is as it was:'
show 'diff elements.ttl completed.ttl | head -n 12'
show 'head -c $(wc -c < elements.ttl) completed.ttl | cmp - elements.ttl && echo the same bytes'
say "What is believed of a known value that is hidden, iron's electronegativity:"
show 'kbdisk belief elements.ttl.kbdisk elements.ttl --id https://example.org/elements/Fe --path electronegativity'
say 'Yours: kbdisk complete YOUR.ttl --out completed.ttl (JSON, CSV and others, too: see README.md)'
