// Package kubetest has what tests of the packages around kube share: API servers that record requests, and kubeconfigs.
package kubetest
