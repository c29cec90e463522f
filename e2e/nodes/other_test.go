//go:build !linux

package nodes

import "testing"

func TestOnNodes(t *testing.T) { t.Skip("nodes are for Linux only") }
