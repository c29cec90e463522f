#!/usr/bin/env bash
# Prints packages of this module: "unit" those whose tests start no control planes, "golden" those with golden files.
set -euo pipefail
cd "$(dirname "$0")/.."
list() { go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' "$@"; }
case "${1:-}" in
unit) list ./charts ./dev/reference ./docs ./internal/... ./pkg/... | grep -vE ' github.com/fleet-hub/fleet/(dev/plane|e2e/framework/(replica|suite))( |$)' ;;
golden) list ./... | grep -E ' github.com/fleet-hub/fleet/(e2e/framework/golden|internal/rules/rulestest)( |$)' ;;
*) echo "usage: dev/packages.sh unit|golden" >&2; exit 2 ;;
esac | cut -d' ' -f1
