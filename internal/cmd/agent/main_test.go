package agent

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/env"
)

// binary is the name pods call the agent by; the test binary called by it is the agent.
const binary = "fleetagent"

const east = "east"

// control is a hub and one downstream cluster for all tests of the package.
var control *plane.Shared

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == binary {
		os.Exit(beAgent())
	}
	dir, err := os.MkdirTemp("", "agent-test-")
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	agent := filepath.Join(dir, binary)
	if err := os.Symlink(self, agent); err != nil {
		panic(err)
	}
	control = plane.Share(plane.Options{
		Downstreams:       []string{east},
		Binaries:          map[string]string{binary: agent},
		BeforeControllers: helm.HubCRDs,
	})
	code := control.Main(m)
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// beAgent is cmd/agent.
func beAgent() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := New(env.OS, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fleetagent:", err)
		return 1
	}
	return 0
}
