// Package clustersecrets writes and reads the Secrets in which Cluster API expects the keys of a cluster, and
// checks whether a Secret may be used or replaced. It is pure, except for random keys.
//
//	<cluster>-ca          tls.crt, tls.key   the CA
//	<cluster>-sa          tls.crt, tls.key   the key of ServiceAccount tokens; tls.crt is the public key
//	<cluster>-kubeconfig  value              an administrator's kubeconfig with a client certificate of one hour
//
// Invariants:
//   - A Secret of another control plane is neither used nor changed. A Secret without a controller may hold a CA of the
//     user, as in other providers.
//   - Every Secret has the type and the label of Cluster API. Other Secrets are rejected.
//   - Messages never contain the content of a Secret.
package clustersecrets
