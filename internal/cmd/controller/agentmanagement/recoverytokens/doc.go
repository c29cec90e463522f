// Package recoverytokens replaces the recovery tokens of workspaces that the API server rejects, as after a change of the
// key that signs tokens. An agent that lost its credential could not return with such a token.
//
//	start, every hour ─► token of each recovery account ─ TokenReview ─► rejected twice: token and account deleted
//	                                                     ─ no Secret ──► account deleted
//	                                                     ─ failed, rejected once, or no Secret yet ─► again after a minute
//
// The recovery controller then creates another account, and the hub document contains its token.
package recoverytokens
