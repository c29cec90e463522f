// Package fleet holds nothing but the directives that generate code and CRDs
// from the API types; run `go generate ./...` after changing one.
package fleet

//go:generate go tool -modfile=dev/tools/go.mod controller-gen object paths=./pkg/apis/...
//go:generate go tool -modfile=dev/tools/go.mod controller-gen crd paths=./pkg/apis/... output:crd:dir=charts/fleet-crd/crd-bases
