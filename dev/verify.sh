#!/usr/bin/env bash
# Fails if generating again changes a file, if go.mod is not tidy, or if code is not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0

unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
	printf 'not formatted (run gofmt -w):\n%s\n' "$unformatted" >&2
	exit 1
fi

before=$(git status --porcelain; git diff | sha256sum)
go generate ./...
after=$(git status --porcelain; git diff | sha256sum)
if [ "$before" != "$after" ]; then
	echo 'generated files are not up to date: run make generate and commit' >&2
	git status --short >&2
	exit 1
fi

go mod tidy -diff
