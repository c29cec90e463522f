// Package strip answers what the caches of the hub keep of an object: only what controllers read, with the texts and the
// metadata that many objects have in common in memory once.
//
//	API server ─► object ─► strip: drop, cut ─► share ─► cache
//
// Invariants: a cache never holds more of an agent's report than a status may. What is shared outlives its objects, so
// its number and its size are limited.
package strip
