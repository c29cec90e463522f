// Package nodes contains user stories on real nodes. `helm install` runs the shipped images as pods, with their
// rights and in-cluster configuration. It needs root, Linux and some Debian packages. Run it with `make
// e2e-nodes`.
package nodes
