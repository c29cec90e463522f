// Package rollout decides when each target of a Bundle gets its newest state: partitions, limits of unavailable
// clusters, pauses.
//
//	Layout (partitions, limits), Steps (how each target stands) ─► Decide ─► Decision (a Verdict for each), Progress
//
// No limit is ever exceeded, and every rollout ends. A simulation in the tests searches for counterexamples.
package rollout
