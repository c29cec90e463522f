// Package kubetest provides helpers for the tests of kube and the packages below it: API servers that record
// requests, and kubeconfigs.
package kubetest
