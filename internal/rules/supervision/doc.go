// Package supervision decides about agents that do not report: what keeps them from running, which repair they get, and
// from when on a silent agent is not ready.
//
//	Input (pods, deployment, token, waiting time) ─► Decide ─► Outcome (reason, message, repair)
//	ReportingInput (heartbeats, interval)         ─► DecideReporting ─► ReportingOutcome
package supervision
