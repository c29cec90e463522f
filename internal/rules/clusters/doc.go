// Package clusters computes where a Cluster belongs: its namespace, its owner, and whether it is the cluster of the hub.
// The results are computed from names. Statuses and labels of Clusters are not trusted.
package clusters
