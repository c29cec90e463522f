// Package contentreaders decides which agents may read Contents.
//
//	accounts, their requests and Clusters ─► MayRead ─► Binding, Desired ─► shared ClusterRoleBindings
//
// Contents are cluster-scoped, so only a ClusterRoleBinding lets an agent read them. An API server goes through all
// ClusterRoleBindings to authorize any request. So the agents share a fixed number of them.
package contentreaders
