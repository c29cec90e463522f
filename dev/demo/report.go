package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/fleet-hub/fleet/e2e/framework"
)

// reporter writes one line per step when the step ends. On a terminal it also shows the step while it runs.
type reporter struct {
	mu       sync.Mutex
	to       io.Writer
	terminal bool
	started  time.Time
	step     string
	since    time.Time
}

func newReporter(to io.Writer) *reporter {
	file, ok := to.(*os.File)
	return &reporter{to: to, terminal: ok && term.IsTerminal(int(file.Fd())), started: now()}
}

func (r *reporter) begin(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step, r.since = step, now()
	if r.terminal {
		fmt.Fprintf(r.to, "  %s …", step)
	}
}

func (r *reporter) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	r.clear()
	fmt.Fprintf(r.to, "%s %-48s %6.2fs  (%.1fs total)\n", mark, r.step, now().Sub(r.since).Seconds(), now().Sub(r.started).Seconds())
	r.step = ""
}

// note writes a line between steps or during a step.
func (r *reporter) note(format string, args ...any) { r.write("· " + fmt.Sprintf(format, args...)) }

// say writes what a user types or sees, indented.
func (r *reporter) say(text string) { r.write("    " + strings.ReplaceAll(text, "\n", "\n    ")) }

func (r *reporter) write(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
	fmt.Fprintln(r.to, text)
	if r.terminal && r.step != "" {
		fmt.Fprintf(r.to, "  %s …", r.step)
	}
}

func (r *reporter) clear() {
	if r.terminal {
		fmt.Fprint(r.to, "\r\x1b[K")
	}
}

// print writes the result as a table or as JSON.
func (d *demo) print(out io.Writer, form string) error {
	if form == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"clusters": d.rows, "logs": d.world.LogDir})
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tREGISTRATION\tSECONDS TO FIRST HEARTBEAT\tBUNDLES READY\tAGENT")
	for _, r := range d.rows {
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%s\t%s\n", r.Cluster, r.WayIn, r.Seconds, r.BundlesReady, r.Agent)
	}
	return table.Flush()
}

// printNext prints example commands for the running clusters.
func (d *demo) printNext(out io.Writer) {
	fmt.Fprintf(out, `
The demo runs until you press Ctrl-C. In another terminal:
  export KUBECONFIG=%[1]s   # contexts hub, east and west
  export PATH=%[2]s:$PATH
  fleet status
  fleet doctor -A
  kubectl fleet clusters -A
  fleet clusters describe east
  fleet token list
  kubectl --context east get all,configmaps -n demo-manifests
  kubectl patch bundles.fleet.cattle.io chart -n %[3]s --type merge -p '{"spec":{"helm":{"values":{"greeting":"good morning"}}}}'
Logs: %[4]s
`, d.commands.kubeconfig, d.commands.folder, framework.Workspace, d.world.LogDir)
}
