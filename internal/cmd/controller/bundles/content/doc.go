// Package content counts the references to each Content, and deletes Contents that are not used.
//
//	BundleDeployment ─► its Contents ─► status.referenceCount ─► deleted when 0 and old enough
package content
