// Package token creates the objects of a ClusterRegistrationToken: an account that may request a registration, and
// the Secret with the values for installing an agent. It tries the tokens in these Secrets.
//
//	ClusterRegistrationToken ─► ServiceAccount ─► right to register ─► bearer token ─► values Secret
//	                                                                        ▲               │
//	                                                            mint again ─┴── rejected ◄── try
package token
