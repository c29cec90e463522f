// Package watch observes the objects of a release after the deployment.
//
//	metadata of labelled objects ─► Watches ─► changed objects ─► Observer ─► observations ─► Report
//	                                                                 │
//	                                deployed manifest, diff rules ───┘
//
// Only objects whose resource version changed are fetched, and only those whose content changed are compared with the
// deployed manifest.
package watch
