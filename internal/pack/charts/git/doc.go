// Package git reads the files of git repositories at a revision.
//
//	Repository ─► clone without work tree ─► packs, checked ─► tree ─► unpack.Sink
//
// Each server is hostile: packs, objects and trees are limited before the library reads them into memory, and credentials
// are sent only to the server of the repository.
package git
