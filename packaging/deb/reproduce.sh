#!/usr/bin/env bash
# Makes the packages of the last commit twice, in two clones with different paths, and compares
# them byte by byte.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for clone in "$work/one" "$work/another/place"; do
	if [[ -e .git ]]; then
		git clone --quiet --no-local . "$clone"
	else
		mkdir -p "$clone"
		tar --exclude=./bin -c . | tar -x -C "$clone"
	fi
	make --no-print-directory -C "$clone" deb >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
done
for package in "$work"/one/bin/deb/*.deb; do
	cmp "$package" "$work/another/place/bin/deb/$(basename "$package")"
	echo "the same bytes twice: $(basename "$package") $(sha256sum "$package" | cut -c1-16)"
done
