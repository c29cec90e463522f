// Package bundles makes the Bundles that benchmarks deliver.
//
//	TenObjects: plain YAML, for many releases      LargeChart: ten megabytes of CRDs, the same each time
//	IsReadyOn: does a Bundle report that it is ready everywhere?
package bundles
