#!/usr/bin/env bash
# What the control plane costs and keeps under load: watched pages beside a thousand open streams, reloads and revocations
# under streams, page times on a ledger of 100,000 rows, bounds, start and memory. Everything on loopback, in one sitting.
#
#   page.sh [CHECK...]       (default: page)
#
# CHECKs and flags: go run ./internal/loadcheck. Environment: HEARTH (the binary; built from this tree if unset), PORT
# (default 27000), FLAGS (more flags, for instance "--streams 100 --gap 1s"), KEEP (a folder for what is written; kept).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
if [ -z "${HEARTH:-}" ]; then
  HEARTH=$work/hearth
  CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$HEARTH" .
fi
go build -o "$work/loadcheck" ./internal/loadcheck
[ $# -gt 0 ] || set -- page
read -ra flags <<<"${FLAGS:-}"
"$work/loadcheck" --hearth "$HEARTH" --work "${KEEP:-$work/data}" --port "${PORT:-27000}" "${flags[@]}" "$@"
