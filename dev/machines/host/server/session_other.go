//go:build !unix

package server

import "syscall"

func ownSession() *syscall.SysProcAttr { return nil }
