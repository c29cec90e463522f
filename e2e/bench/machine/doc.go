// Package machine describes the machine on which a benchmark runs, and measures how fast it is at the moment.
//
//	/proc ─► Here ─► Description      a process of its own ─► Speed ─► Speeds, before and after a run
package machine
