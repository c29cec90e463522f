// Package usage reads the processor time and the memory of processes.
//
//	/proc/<pid>/stat ─► ProcessorTime      /proc/<pid>/status ─► Memory ─► Footprint
package usage
