// Package protocol defines what the hub and its agents exchange: the documents in Secrets, the tokens of
// accounts, the field manager of heartbeats, and the form of a hub URL. Both sides must agree on it, also across
// releases and with Rancher Fleet. It makes no decisions.
//
// Input from the other side is parsed here but not trusted: parsers return errors and never panic.
package protocol
