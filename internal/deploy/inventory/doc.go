// Package inventory answers which Helm releases each BundleDeployment has in the cluster.
package inventory
