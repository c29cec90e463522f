// Package targetingtest builds the clusters, groups and Bundles that tests of targeting, delivery and rollout share.
package targetingtest
