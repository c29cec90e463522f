// Package fleet holds nothing but the directives that generate code, CRDs and docs/api.md
// from the API types; run `go generate ./...` after changing one.
package fleet

//go:generate go tool -modfile=dev/tools/go.mod controller-gen object paths=./pkg/apis/...
//go:generate go tool -modfile=dev/tools/go.mod controller-gen crd paths=./pkg/apis/... output:crd:dir=charts/fleet-crd/crd-bases
//go:generate go run -C dev/tools ./apidocs ../../charts/fleet-crd ../../docs/api.md
