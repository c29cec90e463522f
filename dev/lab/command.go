//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/dev/lab/control"
	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

// tool holds the command's flags and outputs.
type tool struct {
	dir      string
	output   string
	archives []string
	out      io.Writer
	progress io.Writer
}

func command(out, progress io.Writer) *cobra.Command {
	t := &tool{out: out, progress: progress}
	root := &cobra.Command{
		Use: "lab", Short: "Run one-node Kubernetes clusters with real pods on this machine, without a container engine",
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if t.output != "table" && t.output != "json" {
				return fmt.Errorf("unknown --output %q: use table or json", t.output)
			}
			var err error
			t.dir, err = filepath.Abs(t.dir)
			return err
		},
	}
	root.PersistentFlags().StringVar(&t.dir, "dir", filepath.Join(os.TempDir(), "fleet-lab"), "directory of the lab's control socket and logs; each lab needs its own")
	root.PersistentFlags().StringVarP(&t.output, "output", "o", "table", "output format: table or json")
	up := &cobra.Command{Use: "up NODE...", Short: "Start a lab and wait until its nodes are ready for pods", Args: cobra.MinimumNArgs(1), RunE: t.up}
	serve := &cobra.Command{Use: "serve NODE...", Short: "Run a lab in the foreground (started by up)", Hidden: true, Args: cobra.MinimumNArgs(1), RunE: t.serve}
	for _, c := range []*cobra.Command{up, serve} {
		c.Flags().StringArrayVar(&t.archives, "image", nil, "image archive to import on all nodes; may be repeated")
	}
	root.AddCommand(up, serve,
		&cobra.Command{Use: "down", Short: "Stop the lab and remove its files", Args: cobra.NoArgs, RunE: t.down},
		&cobra.Command{Use: "status", Short: "Print the state of the lab", Args: cobra.NoArgs, RunE: t.request(func(ctx context.Context, c control.Client, _ []string) (control.Status, error) {
			return c.Status(ctx)
		})},
		&cobra.Command{Use: "kubeconfig NODE", Short: "Print an admin's kubeconfig of a node's cluster", Args: cobra.ExactArgs(1), RunE: t.kubeconfig},
		&cobra.Command{Use: "import ARCHIVE [NODE...]", Short: "Import the images of an archive on the nodes; default: on all nodes", Args: cobra.MinimumNArgs(1), RunE: t.request(importArchive)},
		&cobra.Command{Use: "restart NODE", Short: "Kill a node as a power failure does, and start it again", Args: cobra.ExactArgs(1), RunE: t.request(func(ctx context.Context, c control.Client, args []string) (control.Status, error) {
			return c.Restart(ctx, args[0])
		})},
		&cobra.Command{Use: "cut NODE NODE", Short: "Cut the network between two nodes", Args: cobra.ExactArgs(2), RunE: t.request(func(ctx context.Context, c control.Client, args []string) (control.Status, error) {
			return c.Cut(ctx, args[0], args[1])
		})},
		&cobra.Command{Use: "heal NODE NODE", Short: "Restore the network between two nodes", Args: cobra.ExactArgs(2), RunE: t.request(func(ctx context.Context, c control.Client, args []string) (control.Status, error) {
			return c.Heal(ctx, args[0], args[1])
		})},
	)
	return root
}

// request returns a command that sends a request to the lab and prints the lab's status.
func (t *tool) request(ask func(context.Context, control.Client, []string) (control.Status, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		status, err := ask(cmd.Context(), control.Of(t.dir), args)
		if err != nil {
			return err
		}
		return t.print(status)
	}
}

func importArchive(ctx context.Context, c control.Client, args []string) (control.Status, error) {
	archive, err := filepath.Abs(args[0])
	if err != nil {
		return control.Status{}, err
	}
	status, err := c.Status(ctx)
	if err != nil {
		return status, err
	}
	names := args[1:]
	if len(names) == 0 {
		for _, n := range status.Nodes {
			names = append(names, n.Name)
		}
	}
	for _, name := range names {
		if status, err = c.Import(ctx, name, archive); err != nil {
			return status, fmt.Errorf("importing on node %s: %w", name, err)
		}
	}
	return status, nil
}

func (t *tool) kubeconfig(cmd *cobra.Command, args []string) error {
	status, err := control.Of(t.dir).Status(cmd.Context())
	if err != nil {
		return err
	}
	for _, n := range status.Nodes {
		if n.Name == args[0] {
			content, err := os.ReadFile(n.Kubeconfig)
			if err != nil {
				return err
			}
			_, err = t.out.Write(content)
			return err
		}
	}
	return fmt.Errorf("the lab has no node %q", args[0])
}

// down stops the lab. If no lab is running, it removes what a killed lab left on the machine.
func (t *tool) down(cmd *cobra.Command, _ []string) error {
	err := control.Of(t.dir).Down(cmd.Context())
	if err != nil && !errors.Is(err, control.ErrNone) {
		return err
	}
	swept, err := nodes.Sweep()
	for _, bridge := range swept {
		_, _ = fmt.Fprintf(t.progress, "removed the leftovers of a killed lab with bridge %s\n", bridge) // a failed write cannot be reported
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}

func (t *tool) print(status control.Status) error {
	if t.output == "json" {
		encoder := json.NewEncoder(t.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(status)
	}
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "NODE\tSTATE\tAPI SERVER\tKUBECONFIG"); err != nil {
		return err
	}
	for _, n := range status.Nodes {
		state := "off"
		if n.Up {
			state = "up"
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", n.Name, state, n.URL, n.Kubeconfig); err != nil {
			return err
		}
	}
	return table.Flush()
}
