// Package source builds the chart of a bundle from its files, merges its values, and changes the rendered objects.
//
//	Content ─► files ─► style: chart, kustomization or plain YAML ─► overlays ─► chart
//	rendered objects ─► PostRenderer: kustomization, plain YAML, marks of the set ─► objects to install
//	values of the options, Secrets and ConfigMaps ─► values
//
// Bundles are hostile input: no name leads out of the bundle, nothing is written to disk, and the size of files, packed
// charts and YAML is bounded.
package source
