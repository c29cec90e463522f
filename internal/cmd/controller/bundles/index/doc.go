// Package index finds cached objects that belong together: a BundleDeployment and its Bundle, Cluster and Contents, a
// Bundle and the clusters it may go to. It adds cache indexes, so that no controller lists all objects.
//
//	labels, names, selectors ─► Add ─► indexes ─► the controllers of Bundles
//
// Labels of a BundleDeployment count only in the namespace of the Cluster that they name, because tenants can write
// labels elsewhere (BundleOf).
package index
