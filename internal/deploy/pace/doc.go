// Package pace computes how long to wait before the next try: after failures (Backoff, Retry), between corrections of objects
// that other writers change again (Correction), and between comparisons of such objects (Rewrites).
//
// The package is pure: the time and chance are arguments.
package pace
