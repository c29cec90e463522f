// Package reconcile contains what all controllers share: it keeps the children of an owner as one set, writes the
// fields that a controller owns, and enqueues objects of other controllers.
//
//	rule's Children ─► Set.Apply ─► create · patch what differs · delete what left the set
//	rule's Status   ─► WriteStatus ─► update; after a conflict the rule decides again
//	an object changed ─► Watch, WatchChanges ─► Enqueue ─► the handler of another object
//
// An object without the mark of exactly its owner is never changed, bound or deleted. An object that is as desired costs
// no request. What this process has written counts before the cache has it (MutationCache).
package reconcile
