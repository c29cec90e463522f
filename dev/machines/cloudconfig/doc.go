// Package cloudconfig parses the part of cloud-init's format that machines of dev/machines understand. Errors
// name the line. The package is pure.
//
//	#cloud-config
//	write_files:
//	- path: etc/kubernetes/ca.crt      relative to the machine's folder; a leading slash means the same
//	  permissions: "0640"              octal in quotes; default 0644
//	  encoding: base64                 optional; also b64
//	  content: LS0t…
//	runcmd:
//	- echo $MACHINE_PORT               a string: run by sh -c
//	- [service, etcd, etcd, --data-dir=etcd]   a list: run without a shell
//
// The parser is strict: unknown and repeated fields, other types, aliases, paths that leave the folder, and texts over
// the limits are errors.
package cloudconfig
