// Package growth computes how the cost of a registration changes with the number of registered clusters.
//
//	Steps ─► after each: Reading ─► Curve.Add ─► Point ─► JSON ─► dev/tools/growth draws it
//
// Every step registers some clusters and waits until there are no more writes. A hub whose costs do not grow has the
// same figures at every point.
package growth
