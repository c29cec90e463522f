// Package wakeups answers what has to continue after an event: operations that wait, and BundleDeployments that wait
// for an object or for another BundleDeployment.
package wakeups
