// Package namespaces checks whether a release may use its namespace, and sets the labels that a bundle gives it.
//
// The agent reads namespaces; the identity that deploys creates and changes them. A bundle removes only labels that it
// set before, and never sets labels for pod security.
package namespaces
