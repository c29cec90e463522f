// Package api defines the kinds of the machine provider: the API group lab.fleet-hub.io, version v1alpha1.
//
//	Cluster ─► LabCluster          infrastructure: reserves the endpoint
//	        └► LabControlPlane     control plane: creates certificates, the Machine and the kubeconfig
//	Machine ─► LabMachine          infrastructure: one machine at the machine host
//	        └► LabConfig           bootstrap: writes the bootstrap data
//
// Each kind has a Template, from which Cluster API copies it. The types are the only source of the CRDs in crds and of the
// deep copies; run `go generate ./...` after changing one. They follow version v1beta2 of Cluster API's contracts, which
// allows one group for all providers and requires the label on each CRD.
//
// +kubebuilder:object:generate=true
// +groupName=lab.fleet-hub.io
// +versionName=v1alpha1
package api
