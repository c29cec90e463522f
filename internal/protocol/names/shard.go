package names

// ShardLease is the lease of a shard's controllers in the system namespace: that of the other implementation's
// controllers of the same shard, so that only one of the two acts.
func ShardLease(shard string) string { return DeliveryLease + "-" + shard }
