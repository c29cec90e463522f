package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/transcript"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Names of the command line: for users, as a plugin of kubectl, and as the completion of this plugin.
const (
	fleetProgram      = "fleet"
	pluginProgram     = "kubectl-fleet"
	completionProgram = "kubectl_complete-fleet"
)

// kubeconfigFile is the name of the file with a context for each cluster. It is in the directory of the hub's kubeconfig,
// which is removed at the end.
const kubeconfigFile = "all-clusters.kubeconfig"

// endTimeout limits how long a program takes to remove what it has created when the demo is interrupted.
const endTimeout = 10 * time.Second

// commandLine runs the programs in a directory as a user does, and prints each command with its output.
type commandLine struct {
	folder     string
	kubeconfig string
	report     *reporter
}

// newCommandLine writes the kubeconfig.
func newCommandLine(folder string, world *framework.World, report *reporter) (*commandLine, error) {
	document, err := world.Kubeconfig()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(filepath.Dir(world.Plane.Hub.KubeconfigPath), kubeconfigFile)
	if err := os.WriteFile(path, document, 0o600); err != nil {
		return nil, err
	}
	return &commandLine{folder: folder, kubeconfig: path, report: report}, nil
}

// run runs a program with this standard input, and returns its standard output. An exit code other than 0 is an error. It
// prints progress at once, and the result at the end, both without join texts.
func (c *commandLine) run(ctx context.Context, stdin, program string, args ...string) (string, error) {
	line := shell(program, args, "")
	c.report.say("$ " + transcript.Redact(shell(program, args, stdin)))
	command := exec.CommandContext(ctx, filepath.Join(c.folder, program), args...)
	command.Env = append(command.Environ(), "KUBECONFIG="+c.kubeconfig)
	command.Cancel, command.WaitDelay = func() error { return command.Process.Signal(os.Interrupt) }, endTimeout
	var stdout bytes.Buffer
	progress := &lineWriter{print: c.report.say}
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &stdout, progress
	err := command.Run()
	progress.end()
	for printed := range strings.Lines(stdout.String()) {
		c.report.say(transcript.Redact(strings.TrimSuffix(printed, "\n")))
	}
	if err != nil {
		return "", fmt.Errorf("running %s: %w (its output is above)", line, err)
	}
	return stdout.String(), nil
}

// shell returns a command as it is typed.
func shell(program string, args []string, stdin string) string {
	words := []string{program}
	for _, arg := range args {
		if arg == "" {
			arg = "''"
		}
		words = append(words, arg)
	}
	line := strings.Join(words, " ")
	if stdin == "" {
		return line
	}
	return line + " <<'JOIN'\n" + stdin + "\nJOIN"
}

// lineWriter prints complete lines without their join texts.
type lineWriter struct {
	print   func(string)
	partial []byte
}

func (w *lineWriter) Write(written []byte) (int, error) {
	w.partial = append(w.partial, written...)
	for {
		line, rest, found := bytes.Cut(w.partial, []byte("\n"))
		if !found {
			return len(written), nil
		}
		w.print(transcript.Redact(string(line)))
		w.partial = rest
	}
}

// end prints the last line if it has no line break.
func (w *lineWriter) end() {
	if len(w.partial) > 0 {
		w.print(transcript.Redact(string(w.partial)))
		w.partial = nil
	}
}

// list lists the clusters as kubectl's plugin, and completes their names.
func (d *demo) list(ctx context.Context) error {
	listed, err := d.commands.run(ctx, "", pluginProgram, "clusters", "-A")
	if err != nil {
		return err
	}
	if lacking := missing(listed, names.LocalCluster, east, west); len(lacking) > 0 {
		return fmt.Errorf("the list of clusters lacks %s", strings.Join(lacking, ", "))
	}
	completed, err := d.commands.run(ctx, "", completionProgram, "clusters", "describe", "")
	if err != nil {
		return err
	}
	if lacking := missing(completed, east, west); len(lacking) > 0 {
		return fmt.Errorf("the completion of cluster names lacks %s", strings.Join(lacking, ", "))
	}
	return nil
}

// missing returns the words that an output does not contain.
func missing(output string, words ...string) []string {
	found := strings.Fields(output)
	return slices.DeleteFunc(words, func(word string) bool { return slices.Contains(found, word) })
}
