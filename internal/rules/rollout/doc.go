// Package rollout decides when each target of a Bundle gets its newest state: partitions, limits of unavailable
// clusters, pauses.
//
//	Layout (partitions, limits), Steps (the state of each target) ─► Decide ─► Decision (an Action for each), Progress
//
// No limit is ever exceeded, and every rollout ends. A simulation in the tests searches for counterexamples.
package rollout
