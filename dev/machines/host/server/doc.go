// Package server implements the machine host: it keeps machines and endpoints, serves requests for them, and starts the
// machines that must run.
//
//	DIR/
//	├─ host.lock, host.sock    one host per folder
//	├─ bin/                    links to the host's executable: machine, service, await
//	├─ endpoints/ID.json       reserved ports
//	├─ machines/ID/            package machine
//	└─ deleted/ID              the machine's deletion has begun
//
//	requests ─► folders ─► reconcile: read folders and locks ─► decide ─► start machine, finish deletion, hold ports
//
// Folders and file locks are the only memory that counts. A folder appears complete, by one rename, so a machine exists
// or does not; a killed host's successor reads the folders and continues. Machines that live stay as they are.
package server
