// Package usage reads the processor time and the memory of processes.
//
//	/proc/<pid>/stat ─► ProcessorTime ─► Meter: the time of a step      /proc/<pid>/status ─► Memory ─► Footprint
package usage
