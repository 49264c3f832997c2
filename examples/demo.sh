#!/usr/bin/env bash
# What `make demo` shows: look into two small knowledge bases, fill a few gaps, write them back.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

show() {
    printf '\n\033[1m$ %s\033[0m\n' "${*//$work\//}"
    "$@"
}

show kbdisk inspect phones.jsonl
show kbdisk inspect elements.ttl
show kbdisk schema infer phones.jsonl
show kbdisk schema check phones.yaml phones.jsonl
show cat new-values.jsonl
show kbdisk write elements.ttl --values new-values.jsonl --insert --out "$work/completed.ttl"
show diff elements.ttl "$work/completed.ttl" || test $? = 1
show kbdisk write elements.ttl --out "$work/same.ttl"
show cmp elements.ttl "$work/same.ttl"
show kbdisk write elements.ttl --out "$work/elements.jsonl"
show head -c 600 "$work/elements.jsonl"
printf '\n\nNothing that was there has changed: diff shows only what is new.\n'
