// Package inventory tracks which Helm releases each BundleDeployment has in the cluster.
package inventory
