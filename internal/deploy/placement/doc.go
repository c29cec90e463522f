// Package placement computes the release, the namespace and the set of objects as which a BundleDeployment is
// deployed.
//
// The results are stored in clusters. If a rule here changes, agents no longer recognize what they have deployed.
package placement
