//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/onnodes"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// measure starts a hub several times, and prints the time from `helm install fleet` to the first heartbeat of its
// own cluster. The images are on the node.
func measure(t *testing.T, times int) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	archives := t.TempDir()
	if err := onnodes.Build(t.Context(), root, archives, t.Logf); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for range times {
		took = append(took, once(t, archives))
		fmt.Fprintf(os.Stderr, "first heartbeat after %s\n", took[len(took)-1].Round(time.Millisecond))
	}
	slices.Sort(took)
	fmt.Fprintf(os.Stderr, "median of %d: %s\n", times, took[times/2].Round(time.Millisecond))
}

func once(t *testing.T, archives string) time.Duration {
	t.Helper()
	w, err := onnodes.Start(t.Context(), onnodes.Options{Archives: archives, LogDir: *logs, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		err := w.Stop()
		if !t.Failed() {
			err = errors.Join(err, w.RemoveLogs())
		}
		if err != nil {
			t.Error(err)
		}
	}()
	world = w
	if err := release(framework.HubName, "fleet-crd", nil).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(t.Context())
	began := time.Now()
	if err := release(framework.HubName, "fleet", hubValues(nil)).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Joined(t.Context(), framework.LocalWorkspace, names.LocalCluster, framework.Named(names.LocalCluster)); err != nil {
		t.Error(w.Describe(t.Context()), pods(t.Context(), framework.HubName))
		t.Fatal(err)
	}
	took := time.Since(began)
	return took
}
