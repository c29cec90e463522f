package facts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// requestTimeout limits one request. A watch may exceed its own timeout by this much: then the connection counts
	// as broken.
	requestTimeout = 30 * time.Second
	// asTable asks the API server for the table that kubectl prints.
	asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	// watchesPerVersion is the number of watches between two requests for the version: about an hour.
	watchesPerVersion = 8
)

// pauses contains the durations of watches and of the pauses between them.
type pauses struct {
	// watch is the minimum duration of a watch. The maximum is twice that.
	watch time.Duration
	// reopen is the pause between two watches. first and last limit the growing pause after failures. refused is the
	// pause after the API server denied access.
	reopen, first, last, refused time.Duration
}

func usualPauses() pauses {
	return pauses{watch: 5 * time.Minute, reopen: time.Second, first: time.Second, last: 5 * time.Minute, refused: time.Hour}
}

// Run keeps the facts up to date until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	pause := w.pauses.first
	for {
		w.askVersion(ctx)
		began, err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if began {
			pause = w.pauses.first
		}
		wait := pause
		if apierrors.IsForbidden(err) {
			w.note(func(f *fleet.ClusterFacts) { f.Nodes, f.ReadyNodes = nil, nil })
			wait = w.pauses.refused
		}
		w.asked()
		w.Log.Debug("following the cluster's nodes", "error", err)
		pause = min(2*pause, w.pauses.last)
		if !w.wait(ctx, wait) {
			return
		}
	}
}

// follow lists the nodes and watches them until a watch fails. It reports whether the list succeeded.
func (w *Watcher) follow(ctx context.Context) (began bool, err error) {
	found, version, err := w.list(ctx)
	if err != nil {
		return false, err
	}
	w.count(found)
	w.asked()
	for watches := 1; ; watches++ {
		if version, err = w.watch(ctx, found, version); err != nil {
			return true, err
		}
		if !w.wait(ctx, w.pauses.reopen) {
			return true, ctx.Err()
		}
		if watches%watchesPerVersion == 0 {
			w.askVersion(ctx)
		}
	}
}

// asked lets Await return.
func (w *Watcher) asked() {
	select {
	case <-w.known:
	default:
		close(w.known) // only Run closes it
	}
}

// list returns all nodes and the resource version to watch from.
func (w *Watcher) list(ctx context.Context) (*nodes, string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, err := w.nodes().Param("resourceVersion", "0").Do(ctx).Raw()
	if err != nil {
		return nil, "", fmt.Errorf("listing nodes: %w", err)
	}
	var listed metav1.Table
	if err := decode(text, &listed); err != nil {
		return nil, "", fmt.Errorf("listing nodes: %w", err)
	}
	found := &nodes{ready: map[string]bool{}}
	if err := found.put(listed, false); err != nil {
		return nil, "", fmt.Errorf("listing nodes: %w", err)
	}
	return found, listed.ResourceVersion, nil
}

// watch follows the nodes until the server ends the watch on time. It returns the resource version for the next
// watch.
func (w *Watcher) watch(ctx context.Context, found *nodes, version string) (string, error) {
	asked := w.pauses.watch + rand.N(w.pauses.watch)
	ctx, cancel := context.WithTimeout(ctx, asked+requestTimeout)
	defer cancel()
	stream, err := w.nodes().Param("watch", "true").Param("resourceVersion", version).
		Param("timeoutSeconds", strconv.Itoa(max(1, int(asked/time.Second)))).Stream(ctx)
	if err != nil {
		return version, fmt.Errorf("watching nodes: %w", err)
	}
	defer func() { _ = stream.Close() }() // closing after the end of the stream, or after an error
	events := json.NewDecoder(stream)
	for {
		var event metav1.WatchEvent
		if err := events.Decode(&event); errors.Is(err, io.EOF) {
			return version, nil
		} else if err != nil {
			return version, fmt.Errorf("watching nodes: %w", err)
		}
		var changed metav1.Table
		if err := decode(event.Object.Raw, &changed); err != nil || event.Type == string(watch.Error) {
			return version, fmt.Errorf("watching nodes: %w", errOf(event.Object.Raw, err))
		}
		if err := found.put(changed, event.Type == string(watch.Deleted)); err != nil {
			return version, fmt.Errorf("watching nodes: %w", err)
		}
		version = changed.ResourceVersion
		w.count(found)
	}
}

func (w *Watcher) nodes() *rest.Request {
	return w.client.Get().Resource("nodes").SetHeader("Accept", asTable).Param("includeObject", "None")
}

// count records the numbers of nodes.
func (w *Watcher) count(found *nodes) {
	all, ready := found.counts()
	w.note(func(f *fleet.ClusterFacts) { f.Nodes, f.ReadyNodes = &all, &ready })
}

// wait waits for d, or up to 50 % longer, and reports whether that time has passed. It returns false when ctx
// has ended.
func (w *Watcher) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errOf returns the error in an error event, or err if the event cannot be decoded.
func errOf(object []byte, err error) error {
	var status metav1.Status
	if decodeErr := decode(object, &status); decodeErr == nil && status.Message != "" {
		return apierrors.FromObject(&status)
	}
	if err == nil {
		err = errNoTable
	}
	return err
}

func decode(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decoding the response: %w", err)
	}
	return nil
}

// isReady reports whether a node is ready, from the status that kubectl prints: "Ready" or
// "Ready,SchedulingDisabled".
func isReady(status string) bool {
	condition, _, _ := strings.Cut(status, ",")
	return condition == "Ready"
}
