package names

// ShardLease returns the name of the Lease of a shard's controllers in the system namespace. Rancher Fleet's
// controllers of the same shard use the same Lease, so that only one of the two is active.
func ShardLease(shard string) string { return DeliveryLease + "-" + shard }
