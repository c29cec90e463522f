// Package unpack writes downloads to a directory.
//
//	archive, file, folder ─► entries ─► Sink ─► directory ─► Verify
//
// Each archive is hostile: every file stays inside the directory, links do not lead out of it, and the number of files,
// their size and the length of their names are limited.
package unpack
