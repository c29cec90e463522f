// Package protocol defines what the hub and its agents exchange: the documents in Secrets, the tokens of accounts, the
// field manager of heartbeats, and the form of a hub URL. Both sides must agree on it, also across releases and with
// Rancher Fleet. It decides nothing.
//
// What arrives from the other side is parsed here, and is not trusted: parsers return errors and never panic.
package protocol
