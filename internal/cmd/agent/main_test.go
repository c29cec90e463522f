package agent

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/plane"
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
		BeforeControllers: installCRDs,
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

// installCRDs makes the hub know Fleet's kinds.
func installCRDs(ctx context.Context, c *plane.Cluster) error {
	if c.Name != plane.HubName {
		return nil
	}
	client, err := apiextensions.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	files, err := fs.Glob(charts.FS, "fleet-crd/crd-bases/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := fs.ReadFile(charts.FS, file)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}
