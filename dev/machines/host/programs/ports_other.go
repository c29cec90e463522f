//go:build !unix

package programs

func inheritedPorts() {}
