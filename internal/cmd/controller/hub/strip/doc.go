// Package strip removes from the objects in the hub's caches what no controller reads. Texts and metadata that many objects
// have in common are in memory once.
//
//	API server ─► object ─► strip: drop, cut ─► share ─► cache
//
// Invariants: a cache never holds more of an agent's report than a status may. What is shared outlives its objects, so
// its number and its size are limited.
package strip
