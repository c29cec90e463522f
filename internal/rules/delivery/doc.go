// Package delivery builds the BundleDeployment of a target and the Secret with its values.
//
//	Bundle, Target, Action, what exists ─► Decide ─► BundleDeployment, Values
package delivery
