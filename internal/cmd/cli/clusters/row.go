package clusters

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Row is one Cluster of a list. Absent fields are not known.
type Row struct {
	Namespace         string       `json:"namespace"`
	Name              string       `json:"name"`
	State             State        `json:"state"`
	Reason            string       `json:"reason,omitempty"`
	Message           string       `json:"message,omitempty"`
	Created           metav1.Time  `json:"created"`
	LastSeen          *metav1.Time `json:"lastSeen,omitempty"`
	AgentVersion      string       `json:"agentVersion,omitempty"`
	KubernetesVersion string       `json:"kubernetesVersion,omitempty"`
	BundlesReady      int          `json:"bundlesReady"`
	Bundles           int          `json:"bundles"`
}

// rowOf returns the row of a Cluster. It keeps no memory of the Cluster but texts.
func rowOf(cluster *fleet.Cluster) Row {
	summary := Summarize(cluster)
	status := &cluster.Status
	row := Row{
		Namespace: cluster.Namespace, Name: cluster.Name, Created: cluster.CreationTimestamp,
		State: summary.State, Reason: summary.Reason, Message: summary.Message,
		AgentVersion: status.Agent.AgentVersion, KubernetesVersion: status.Agent.KubernetesVersion,
		BundlesReady: status.Summary.Ready, Bundles: status.Summary.DesiredReady,
	}
	if !status.Agent.LastSeen.IsZero() {
		row.LastSeen = status.Agent.LastSeen.DeepCopy()
	}
	return row
}

// header returns the header of the table.
func header(all bool) []string {
	columns := []string{"NAME", "STATE", "REASON", "AGE", "LAST-SEEN", "AGENT", "KUBERNETES", "BUNDLES"}
	if all {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	return columns
}

// cells returns the row of the table.
func (r Row) cells(all bool, now time.Time) []string {
	lastSeen := "-"
	if r.LastSeen != nil {
		lastSeen = since(*r.LastSeen, now) + " ago"
	}
	columns := []string{
		r.Name, string(r.State), cmp.Or(r.Reason, "-"), since(r.Created, now), lastSeen, cmp.Or(r.AgentVersion, "-"), cmp.Or(r.KubernetesVersion, "-"),
		strconv.Itoa(r.BundlesReady) + "/" + strconv.Itoa(r.Bundles),
	}
	if all {
		columns = append([]string{r.Namespace}, columns...)
	}
	return columns
}

// since returns the time since at, as kubectl prints it. Clocks differ: a time in the future is now.
func since(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(now.Sub(at.Time), 0))
}

func printTable(out io.Writer, rows []Row, all bool, now time.Time) error {
	lines := make([][]string, 0, len(rows))
	for _, row := range rows {
		lines = append(lines, row.cells(all, now))
	}
	return output.Rows(out, header(all), lines)
}

func printNames(out io.Writer, rows []Row) error {
	for _, row := range rows {
		if _, err := fmt.Fprintln(out, "cluster.fleet.cattle.io/"+row.Name); err != nil {
			return err
		}
	}
	return nil
}

// printNone reports that there are no Clusters.
func (o *options) printNone(namespace string) error {
	if namespace == "" {
		_, err := fmt.Fprintln(o.streams.ErrOut, "There are no Clusters.")
		return err
	}
	_, err := fmt.Fprintf(o.streams.ErrOut, "There are no Clusters in workspace %s.\n", namespace)
	return err
}

// Get reads a Cluster, or returns an error with the command that lists the existing ones.
func Get(ctx context.Context, hub *access.Cluster, name string) (*fleet.Cluster, error) {
	cluster, err := access.Find(ctx, hub.Clusters(hub.Namespace), "Cluster "+hub.Namespace+"/"+name, name)
	if err == nil && cluster == nil {
		return nil, exit.Errorf(exit.Failed, "Cluster %s/%s does not exist", hub.Namespace, name).With("fleet clusters -A")
	}
	return cluster, err
}
