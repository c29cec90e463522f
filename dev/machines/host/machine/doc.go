// Package machine runs one machine of a machine host: its process executes the bootstrap data exactly once and supervises
// what it starts.
//
//	FOLDER/
//	├─ machine.json     Spec, written by the host before the machine starts
//	├─ bootstrap.yaml   the bootstrap data
//	├─ state.json       Record, written by the machine's process; the host only reads it
//	├─ lock             locked by the machine's process while it lives; the kernel knows the process
//	├─ log/             machine, bootstrap, one file per service
//	└─ root/            MACHINE_ROOT: the files and the working directory of all commands
//	   ├─ etc/services/NAME.json                         services, written by the command service
//	   └─ run/cluster-api/bootstrap-success.complete     written by the last command
//
// Run takes the lock, reads the record, and decides what to do with it:
//
//	no record       ─► bootstrap: files, commands in order, success file ─► serve, or Failed
//	Bootstrapping   ─► Failed: an earlier process ended meanwhile; nothing is executed twice
//	Bootstrapped    ─► serve: start the services, restart each with a backoff when it ends
//
// Commands find these variables: MACHINE_ROOT, MACHINE_ID, MACHINE_ADDRESS, MACHINE_PORT, MACHINE_PORT_1 and so on,
// HOME, TMPDIR and PATH. On the PATH are the control-plane programs and two commands of this package:
//
//	service NAME COMMAND ARGUMENT…         starts a supervised process
//	await [-ca FILE] [-timeout 2m] URL     waits until a URL answers with status 200
package machine
