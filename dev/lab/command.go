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

// tool is the command with its flags.
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
		Use: "lab", Short: "One-node Kubernetes clusters with real pods on this machine, without a container engine",
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if t.output != "table" && t.output != "json" {
				return fmt.Errorf("--output is %q: use table or json", t.output)
			}
			var err error
			t.dir, err = filepath.Abs(t.dir)
			return err
		},
	}
	root.PersistentFlags().StringVar(&t.dir, "dir", filepath.Join(os.TempDir(), "fleet-lab"), "the lab's folder, one for each lab: control socket and logs")
	root.PersistentFlags().StringVarP(&t.output, "output", "o", "table", "form of the result: table or json")
	up := &cobra.Command{Use: "up NODE...", Short: "Start a lab, and return when pods can run", Args: cobra.MinimumNArgs(1), RunE: t.up}
	serve := &cobra.Command{Use: "serve NODE...", Short: "Hold a lab (started by up)", Hidden: true, Args: cobra.MinimumNArgs(1), RunE: t.serve}
	for _, c := range []*cobra.Command{up, serve} {
		c.Flags().StringArrayVar(&t.archives, "image", nil, "an image archive to have on all nodes; may be repeated")
	}
	root.AddCommand(up, serve,
		&cobra.Command{Use: "down", Short: "End the lab, and remove all of it", Args: cobra.NoArgs, RunE: t.down},
		&cobra.Command{Use: "status", Short: "Say how the lab is", Args: cobra.NoArgs, RunE: t.told(func(ctx context.Context, c control.Client, _ []string) (control.Status, error) {
			return c.Status(ctx)
		})},
		&cobra.Command{Use: "kubeconfig NODE", Short: "Print an admin's kubeconfig of a node's cluster", Args: cobra.ExactArgs(1), RunE: t.kubeconfig},
		&cobra.Command{Use: "import ARCHIVE [NODE...]", Short: "Put the images of an archive on nodes, or on all", Args: cobra.MinimumNArgs(1), RunE: t.told(importArchive)},
		&cobra.Command{Use: "restart NODE", Short: "Turn a node off as a power failure does, and on again", Args: cobra.ExactArgs(1), RunE: t.told(func(ctx context.Context, c control.Client, args []string) (control.Status, error) {
			return c.Restart(ctx, args[0])
		})},
		&cobra.Command{Use: "cut NODE NODE", Short: "Cut the network between two nodes", Args: cobra.ExactArgs(2), RunE: t.told(func(ctx context.Context, c control.Client, args []string) (control.Status, error) {
			return c.Cut(ctx, args[0], args[1])
		})},
		&cobra.Command{Use: "heal NODE NODE", Short: "Mend the network between two nodes", Args: cobra.ExactArgs(2), RunE: t.told(func(ctx context.Context, c control.Client, args []string) (control.Status, error) {
			return c.Heal(ctx, args[0], args[1])
		})},
	)
	return root
}

// told is a command that asks the lab something and prints how it is then.
func (t *tool) told(ask func(context.Context, control.Client, []string) (control.Status, error)) func(*cobra.Command, []string) error {
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
			return status, fmt.Errorf("on %s: %w", name, err)
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

// down ends the lab. Where nobody answers, what a killed one has left is removed.
func (t *tool) down(cmd *cobra.Command, _ []string) error {
	err := control.Of(t.dir).Down(cmd.Context())
	if err != nil && !errors.Is(err, control.ErrNone) {
		return err
	}
	swept, err := nodes.Sweep()
	for _, bridge := range swept {
		_, _ = fmt.Fprintf(t.progress, "removed what a killed lab had left at %s\n", bridge) // nowhere to say that nothing can be said
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
