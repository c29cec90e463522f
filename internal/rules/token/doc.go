// Package token decides what a ClusterRegistrationToken needs: an account with the right to create
// ClusterRegistrations, a token of that account, and a Secret with the values for the agent chart; and when it ends.
//
//	Input (token, account, Secret, time) ─► Decide ─► Outcome (objects, values, expiry)
package token
