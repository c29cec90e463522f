// Package pack makes Bundles from folders.
//
//	paths ─► Find, Split ─► folders ─► fleet.yaml ─► options, warnings
//	                               └─► files, charts, values files ─► resources, values
//	                                                      options + resources ─► Bundle, ImageScans
//
// The names, contents and limits of Bundles are those of Rancher Fleet: the same folder gives the same bytes, because
// their hash decides whether clusters deploy again. The package reads files and fetches charts. It knows no cluster.
package pack
