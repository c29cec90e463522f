// Package manifest answers which objects a text in YAML contains.
//
//	text ─► Parse ─► objects ─► SortForInstall ─► Format ─► text
//
// A Ref identifies an object, and a Revision lists the objects of one revision of a release. The package is pure. YAML
// is checked for its expanded size before it is parsed.
package manifest
