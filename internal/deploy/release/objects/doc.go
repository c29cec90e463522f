// Package objects is the client with which Helm reads and writes the objects of a release.
//
//	manifest ─► Build ─► Create, Update, Delete ─► Wait
//
// It reads each object once and keeps the answers of the API server. It deletes only objects that carry the marks of
// the release, and, with a confining namespace, changes none outside of it.
package objects
