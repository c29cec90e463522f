// Package kubeconfig reads and rewrites kubeconfigs. Those of users are not trusted: Safe accepts only what leads to an
// https address with inline credentials, and refuses plugins, files and impersonation.
package kubeconfig
