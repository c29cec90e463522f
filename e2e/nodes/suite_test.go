//go:build linux

package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/onnodes"
)

var (
	wanted   = flag.Bool("on-nodes", false, "start nodes and tell the stories; without it there is nothing to do")
	required = flag.Bool("required", false, "fail where this machine cannot run nodes, instead of skipping")
	logs     = flag.String("logs", "", "folder for the logs of all components; empty makes one, and removes it after success")
	bench    = flag.Int("first-heartbeats", 0, "tell no story, but measure so often how long helm install fleet takes to the first heartbeat")
)

// The clusters of the stories, beside the hub.
const (
	east  = "east"  // is imported
	west  = "west"  // comes by itself
	south = "south" // joins with the command line
)

// world is what all stories share.
var world *onnodes.World

// failed keeps the logs.
var failed bool

// firstHeartbeat is how long it took from `helm install fleet` to the first heartbeat of the hub's own cluster.
var firstHeartbeat time.Duration

// doomed is the name by which the test binary is a program that starts a lab and is killed.
const doomed = "doomed-caller"

func TestMain(m *testing.M) {
	if code, played := nodes.Role(os.Args, os.Stderr); played {
		os.Exit(code)
	}
	if filepath.Base(os.Args[0]) == doomed {
		beDoomed()
	}
	os.Exit(m.Run())
}

func TestOnNodes(t *testing.T) {
	if !*wanted {
		t.Skip("real nodes: make e2e-nodes tells these stories")
	}
	say := func(format string, args ...any) { t.Logf(format, args...) }
	if _, err := nodes.Prerequisites(t.Context(), say); err != nil {
		skip(t, err)
	}
	if *bench > 0 {
		measure(t, *bench)
		return
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "stories on real nodes")
}

// notTold says why, where it cannot be overlooked.
const notTold = "\n\n*** The stories on real nodes were NOT told: %v\n\n"

// skip says loudly what is missing.
func skip(t *testing.T, err error) {
	t.Helper()
	message := fmt.Sprintf(notTold, err)
	if *required {
		t.Fatal(message + "They are required here: set E2E_NODES_REQUIRED to nothing where a machine cannot run them.")
	}
	t.Skip(message)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	root, err := filepath.Abs("../..")
	Expect(err).NotTo(HaveOccurred())
	began := time.Now()
	world, err = onnodes.Start(ctx, onnodes.Options{
		Root: root, Downstreams: []string{east, west, south}, LogDir: *logs,
		Progress: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if errors.Is(err, nodes.ErrMissing) && !*required {
		fmt.Fprintf(os.Stderr, notTold, err)
		Skip("this machine cannot run nodes")
	}
	Expect(err).NotTo(HaveOccurred())
	fmt.Fprintf(os.Stderr, "images and nodes are ready after %s; logs: %s\n", time.Since(began).Round(time.Second), world.LogDir)
}, NodeTimeout(15*time.Minute))

var _ = AfterSuite(func() {
	if world == nil {
		return
	}
	mark := world.Mark()
	Expect(world.Stop()).To(Succeed())
	Expect(mark.Traces()).To(BeEmpty(), "the machine is not as it was")
	if !failed {
		Expect(world.RemoveLogs()).To(Succeed())
	}
})

var _ = ReportAfterEach(func(ctx SpecContext, report SpecReport) {
	if report.Failed() && world != nil {
		failed = true
		AddReportEntry("state of the hub", world.Describe(ctx))
		for _, n := range world.Nodes {
			AddReportEntry("pods of "+n.Name, pods(ctx, n.Name))
		}
	}
})

var _ = ReportAfterSuite("what was told", func(report Report) {
	stories, bad := map[string]bool{}, 0
	for _, spec := range report.SpecReports {
		if len(spec.ContainerHierarchyTexts) == 0 || spec.NumAttempts == 0 {
			continue
		}
		stories[spec.ContainerHierarchyTexts[len(spec.ContainerHierarchyTexts)-1]] = true
		if spec.Failed() {
			bad++
		}
	}
	fmt.Fprintf(os.Stderr, "\nstories on real nodes: %d told, %d steps failed, in %s; first heartbeat %s after helm install fleet\n",
		len(stories), bad, report.RunTime.Round(time.Second), firstHeartbeat.Round(10*time.Millisecond))
})

// beDoomed starts a lab of one node, says by what its traces are known, and waits to be killed.
func beDoomed() {
	lab, err := nodes.Start(context.Background(), nodes.Options{Names: []string{"doomed"}})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(lab.Mark())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// patience is how long a story waits for what takes some seconds: the machine may be doing other things.
const patience = framework.Patience
