// Package mapping sends Events about BundleNamespaceMappings that are invalid or refused. The controller of Bundles
// applies the mappings.
//
//	BundleNamespaceMapping ─► its selectors, namespaces that refuse it ─► Event
//
// A mapping has no status, so it can only get an Event. The Bundles it selects have a condition.
package mapping
