// Package content counts the references to each Content, and deletes Contents that are not used.
//
//	BundleDeployment ─► its Contents ─► status.referenceCount ─► deleted when 0 and old enough
//
// A Content is never deleted while a BundleDeployment needs it, even one that is being deleted. The count is only
// informative.
package content
