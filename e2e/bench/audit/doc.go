// Package audit counts the requests in an API server's audit log by identity, verb and resource, and those that failed.
//
//	a line of the log ─► Event ─► Classifier: whose it is ─► Counts, by identity, verb and resource
package audit
