// Package figures computes and prints what a benchmark measures.
//
//	durations ─► Spread      counts of requests ─► Costs      figure, limits ─► Budget ─► Summarize
package figures
