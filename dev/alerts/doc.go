// Package alerts tests that the alert rules of docs/monitoring fire when they should, and only then.
//
//	scrapes of internal/metrics/testdata ─► two hours of samples ─► Prometheus' engine ─► which alerts fire
//
// It contains only tests.
package alerts
