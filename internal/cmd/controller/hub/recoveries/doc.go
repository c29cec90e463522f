// Package recoveries keeps what the hub needs so that agents can return after a loss: its own key, the tokens of the
// recovery accounts, and the deleted Clusters whose tickets no longer count.
//
//	Secret fleet-hub-key ─► Key ─► Data of a Cluster ─► credential Secret, or Secret fleet-recovery
//	deleted Cluster ─► Block, deleted workspace ─► BlockAll ─► ConfigMap fleet-deleted-clusters-… ─► IsBlocked ─► a ticket that counts no more
//	every few hours ─► Prune ─► those ConfigMaps whose tickets have expired are deleted
package recoveries
