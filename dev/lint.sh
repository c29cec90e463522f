#!/usr/bin/env bash
# Runs the linters on a copy of the checkout, at a path that does not change. golangci-lint finds results of earlier runs by the
# path and the content of each file, so that a clone elsewhere has them, too. Its findings have paths relative to the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=${XDG_CACHE_HOME:-$HOME/.cache}/fleet-hub/lint
if command -v flock >/dev/null; then
	mkdir -p "$copy"
	exec 9>"$copy.lock"
	flock 9
	rm -rf "$copy" && mkdir "$copy"
	git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' file; do
		[ ! -e "$file" ] || printf '%s\0' "$file" # files may be deleted, and not yet in the index
	done | tar --create --null --files-from=- | tar --extract --directory "$copy"
	cd "$copy"
fi
go tool -modfile=dev/tools/lint/go.mod golangci-lint run ./...
