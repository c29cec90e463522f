// Package rules holds the decisions of the hub and of the agent, one package for each question. A rule is a pure
// function: the caller gathers an Input, the rule returns an Outcome with everything to write, and the caller writes
// it. Rules use no client, no clock and no random numbers. The time is part of the Input.
//
//	token        what a ClusterRegistrationToken needs: rights, a token, its values Secret
//	grant        whether a ClusterRegistration is granted, and with which objects
//	importing    what an imported Cluster needs downstream
//	supervision  what keeps an agent from reporting, and how to repair it
//	registering  what an agent does next to join, or to stay joined
//
// The tests of this package run the rules against each other, in transcripts of the whole registration.
package rules
