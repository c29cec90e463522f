// Package audit counts the requests in an API server's audit log: how many requests of which kind each identity
// sent, and how many failed.
//
//	a line of the log ─► Event ─► Classifier: whose it is ─► Counts, by identity, verb and resource
package audit
