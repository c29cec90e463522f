// Package fleet holds nothing but the directives that generate code, CRDs and docs/api.md from the API types, and docs/cli.md
// from the command line. Run `go generate ./...` after a change of a type or a command.
package fleet

//go:generate go tool -modfile=dev/tools/go.mod controller-gen object paths=./pkg/apis/...
//go:generate go tool -modfile=dev/tools/go.mod controller-gen crd paths=./pkg/apis/... output:crd:dir=charts/fleet-crd/crd-bases
//go:generate go tool -modfile=dev/tools/go.mod controller-gen object paths=./dev/machines/api
//go:generate go tool -modfile=dev/tools/go.mod controller-gen crd paths=./dev/machines/api output:crd:dir=dev/machines/api/crds
//go:generate go run -C dev/tools ./apidocs ../../charts/fleet-crd ../../docs/api.md
//go:generate go run ./dev/reference docs/cli.md
