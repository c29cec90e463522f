// Package nodes tells the stories of users on real nodes: what they get from `helm install`, as pods, with the
// images, rights and in-cluster configuration that ship. It needs root, Linux and some Debian packages; run it with
// `make e2e-nodes`.
package nodes
