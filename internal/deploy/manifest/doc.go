// Package manifest parses YAML into objects, sorts them for an installation and formats them.
//
//	text ─► Parse ─► objects ─► SortForInstall ─► Format ─► text
//
// A Ref identifies an object, and a Revision lists the objects of one revision of a release. The package is pure. YAML
// is checked for its expanded size before it is parsed.
package manifest
