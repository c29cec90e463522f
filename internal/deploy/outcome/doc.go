// Package outcome classifies how an attempt to deploy a bundle ended, and writes the result into the status.
//
//	error ─► ReasonOf, IsFailure, AwaitedBy ─► condition, retry
//
// Errors carry the reason of their condition (Because), the object that may resolve them (Until), and no confidential
// values (Redaction). The package is pure: the functions that write a status change only the given status.
package outcome
