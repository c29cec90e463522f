// Package wakeups resumes what waits for an event: operations, and BundleDeployments that wait for an object or for
// another BundleDeployment.
package wakeups
