// Package kubeconfig parses and rewrites kubeconfigs. Kubeconfigs of users are not trusted: Safe accepts only an
// https address with inline credentials, and rejects plugins, files and impersonation.
package kubeconfig
