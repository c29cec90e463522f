//go:build !linux

package machine

import "errors"

// EndProcesses returns an error, because finding the processes of a machine requires Linux.
func EndProcesses(Folder) error { return errors.New("machines require Linux") }

// EndAll returns an error, because finding the processes of machines requires Linux.
func EndAll(string) error { return errors.New("machines require Linux") }

func endOthers(Folder) error { return errors.New("machines require Linux") }
