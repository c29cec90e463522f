// Package placement answers where a BundleDeployment is deployed: to which release, in which namespace, and as which
// set of objects.
//
// The results are stored in clusters. If a rule here changes, agents no longer recognize what they have deployed.
package placement
