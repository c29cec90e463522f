// Package manager contains what the controllers of the machine provider share: clients, caches and the clock.
//
//	New: clients, caches ─► Register of labcluster, labmachine, labconfig, labcontrolplane ─► Start
//
// All caches are synced before the first controller runs. Secrets are cached only if they have the label with the name of
// their cluster; read others with Kube.
package manager
