package clusters

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Gone is the state that `fleet clusters watch` prints for a Cluster that no longer exists.
const Gone State = "Gone"

func watchCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "watch",
		Short: "List clusters, then print each change until interrupted",
		Long: `List the clusters, then print a row for each Cluster whose state, reason, versions or Bundles change, until interrupted
with Ctrl-C. A deleted Cluster is printed with the state Gone. With -o json and -o yaml, each change is one document.`,
		Example: "  fleet clusters watch -A",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return o.watch(command.Context()) },
	}
	o.flags.Bind(command.Flags())
	o.flags.BindAll(command.Flags())
	o.format.Bind(command.Flags())
	return command
}

// watcher prints the rows that change.
type watcher struct {
	client *access.Client[*fleet.Cluster, *fleet.ClusterList]
	print  func(Row) error
	rows   map[types.NamespacedName]Row
}

func (o *options) watch(ctx context.Context) error {
	hub, err := o.flags.Open()
	if err != nil {
		return err
	}
	print, flush := o.printer()
	w := &watcher{client: hub.Clusters(hub.Namespace), print: print, rows: map[types.NamespacedName]Row{}}
	for ctx.Err() == nil {
		version, err := w.list(ctx)
		if err == nil {
			err = flush()
		}
		if err == nil {
			err = w.follow(ctx, version, flush)
		}
		if err != nil && ctx.Err() == nil {
			return access.Explain("watching Clusters", err)
		}
	}
	return nil
}

// list prints the Clusters that have changed since the last list, and those that are gone.
func (w *watcher) list(ctx context.Context) (version string, err error) {
	found := map[types.NamespacedName]bool{}
	version, err = access.Each(ctx, w.client, metav1.ListOptions{}, func(cluster *fleet.Cluster) error {
		found[types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}] = true
		return w.changed(rowOf(cluster))
	})
	if err != nil {
		return "", err
	}
	for key, row := range w.rows {
		if !found[key] {
			if err := w.gone(row); err != nil {
				return "", err
			}
		}
	}
	return version, nil
}

// follow prints changes after a version. It returns without an error when the server no longer has that version: the
// caller lists again.
func (w *watcher) follow(ctx context.Context, version string, flush func() error) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard())) // client-go logs that a watch was interrupted
	defer cancel()
	events, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: w.client.Watch})
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if err := w.handle(event); err != nil {
			if expired(err) {
				return nil
			}
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) handle(event watch.Event) error {
	cluster, isCluster := event.Object.(*fleet.Cluster)
	switch {
	case event.Type == watch.Error:
		return apierrors.FromObject(event.Object)
	case !isCluster:
		return nil
	case event.Type == watch.Deleted:
		return w.gone(rowOf(cluster))
	}
	return w.changed(rowOf(cluster))
}

func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// changed prints a row, unless only the time of the last heartbeat has changed.
func (w *watcher) changed(row Row) error {
	key := types.NamespacedName{Namespace: row.Namespace, Name: row.Name}
	old, known := w.rows[key]
	w.rows[key] = row
	old.LastSeen = row.LastSeen
	if known && old == row {
		return nil
	}
	return w.print(row)
}

func (w *watcher) gone(row Row) error {
	delete(w.rows, types.NamespacedName{Namespace: row.Namespace, Name: row.Name})
	row.State, row.Reason, row.Message = Gone, "", ""
	return w.print(row)
}

// printer returns a function that prints one row, and one that writes what was printed.
func (o *options) printer() (print func(Row) error, flush func() error) {
	nothing := func() error { return nil }
	switch o.format {
	case output.Name:
		return func(row Row) error { return printNames(o.streams.Out, []Row{row}) }, nothing
	case output.Table:
		writer := printers.GetNewTabWriter(o.streams.Out)
		line := func(cells []string) error {
			for i := range cells {
				cells[i] = output.Line(cells[i])
			}
			_, err := fmt.Fprintln(writer, strings.Join(cells, "\t"))
			return err
		}
		failed := line(header(o.flags.All))
		return func(row Row) error { return errors.Join(failed, line(row.cells(o.flags.All, o.clock()))) }, writer.Flush
	}
	return func(row Row) error {
		if o.format == output.YAML {
			if _, err := fmt.Fprintln(o.streams.Out, "---"); err != nil {
				return err
			}
		}
		return output.Print(o.streams.Out, o.format, row)
	}, nothing
}
