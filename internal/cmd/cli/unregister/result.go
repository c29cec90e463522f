package unregister

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

// Unregistered is the result.
type Unregistered struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// DryRun means that nothing was deleted.
	DryRun bool `json:"dryRun,omitempty"`
	// Refused means that the command would delete nothing, because the Cluster has workloads. Changes are those of
	// --keep-workloads.
	Refused bool `json:"refused,omitempty"`
	// Workloads is the number of workloads that stay on the cluster, or nil if the user may not list them.
	Workloads *int     `json:"workloads,omitempty"`
	Changes   []Change `json:"changes"`
	// Next are the commands that remove the agent, if it was not removed.
	Next []string `json:"next,omitempty"`
}

// Change is what happened to an object.
type Change struct {
	// On is hub, or the context of the cluster.
	On string `json:"on"`
	// Result is deleted, planned or kept.
	Result    string `json:"result"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Cause is why the object is kept.
	Cause string `json:"cause,omitempty"`
}

const onHub = "hub"

// The results of a Change.
const (
	resultDeleted = "deleted"
	resultPlanned = "planned"
	resultKept    = "kept"
)

// object returns kind, namespace and name.
func (c Change) object() string {
	if c.Namespace == "" {
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

// line returns the change as a line of the progress.
func (c Change) line() string {
	text := c.Result + " on " + c.On + ": " + c.object()
	if c.Cause != "" {
		text += " (" + c.Cause + ")"
	}
	return text
}

func (u Unregistered) write(out io.Writer, format output.Format) error {
	switch format {
	case output.JSON, output.YAML:
		return output.Print(out, format, u)
	case output.Name:
		for _, change := range u.Changes {
			if change.Result != resultKept {
				fmt.Fprintln(out, strings.ToLower(change.Kind)+"/"+output.Line(change.Name))
			}
		}
		return nil
	}
	if err := u.table(out); err != nil {
		return err
	}
	if u.Refused {
		_, err := fmt.Fprintln(out, "Only with --keep-workloads would these objects be deleted. Without it, the command deletes nothing:")
		return err
	}
	if stay := u.stay(); stay != "" {
		fmt.Fprintf(out, "%s on the cluster. When it joins again, Bundles of the same names continue with the releases, and those that no Bundle asks for are uninstalled.\n", stay)
	}
	if len(u.Next) > 0 {
		fmt.Fprintf(out, "The agent stays and waits for another registration. To remove it, and the account of an import:\n  %s\n", strings.Join(u.Next, "\n  "))
	}
	return nil
}

// stay returns which workloads stay, or an empty text if the Cluster has no workloads.
func (u Unregistered) stay() string {
	switch {
	case u.Workloads == nil:
		return "Its workloads, if it has any, stay"
	case *u.Workloads == 0:
		return ""
	case *u.Workloads == 1:
		return "1 workload stays"
	}
	return output.Count(*u.Workloads, "workload") + " stay"
}

// table prints what a dry run would do. Otherwise each change was printed when it happened.
func (u Unregistered) table(out io.Writer) error {
	if !u.DryRun {
		return nil
	}
	rows := make([][]string, 0, len(u.Changes))
	for _, change := range u.Changes {
		rows = append(rows, []string{change.On, change.Result, change.object(), cmp.Or(change.Cause, "-")})
	}
	return output.Rows(out, []string{"ON", "RESULT", "OBJECT", "CAUSE"}, rows)
}
