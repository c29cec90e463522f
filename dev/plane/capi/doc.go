// Package capi installs the core of Cluster API (CAPI) on a cluster whose API server runs on this machine, and
// describes the process that serves it. It provides what elsewhere a Deployment and cert-manager provide.
//
//	kustomizations of the module ─► render ─► adapt: webhook URLs and CA ─► apply
//	ServiceAccount capi-manager ──► token ──► kubeconfig
//	certificate of a new CA ──────► webhook server
//
// The core runs with the rights of its ServiceAccount, never as admin. It is built from source (package build),
// because its code cannot be imported. Package plane starts and ends the process.
package capi
