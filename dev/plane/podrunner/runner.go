// Package podrunner plays scheduler and kubelet for a control plane that has no nodes: every Pod
// turns Running and Ready at once, a Pod of a Job turns Succeeded, and containers with a command the
// runner has an executable for are run as local processes.
//
//	watch ─► sync ─┬─ nothing to run ─► status Running, Ready
//	               ├─ a process ──────► workload: environment, account's token, start, probe, restart
//	               └─ gone, leaving ──► SIGTERM, grace, SIGKILL, the object deleted for good
//
// It leaves spec.nodeName empty: a Pod bound to a node that does not exist is collected.
package podrunner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// ErrNoProcess means that no process runs for the pod.
var ErrNoProcess = errors.New("no process runs for this pod")

// Options are what New needs; all but Binaries, Hold, Env and Say must be set.
type Options struct {
	// Client is an admin's.
	Client kubernetes.Interface
	// Launch starts a process that cannot outlive the caller.
	Launch func(supervise.Command) (*supervise.Process, error)
	// Ports returns this many free ports of 127.0.0.1.
	Ports func(n int) ([]int, error)
	// Kubeconfig is a kubeconfig that takes its token from a file.
	Kubeconfig func(tokenFile, namespace string) ([]byte, error)
	// Binaries has the executable for a container's command: its first word, without folders.
	Binaries map[string]string
	// Hold says of a pod whether it is to stay as it is; it is asked whenever the pod changes. Nil
	// holds none.
	Hold func(*corev1.Pod) bool
	// Env is added to every process's environment, KEY=value; the container's own wins.
	Env []string
	// LogDir is where processes' outputs go, see LogFile.
	LogDir string
	// DataDir gets a folder for every process, removed with it.
	DataDir string
	Clock   func() time.Time
	// Say receives one line when something is wrong that no status can tell.
	Say func(format string, args ...any)
}

// Runner runs the pods of one cluster.
type Runner struct {
	options Options

	mu        sync.Mutex           // guards what follows
	workloads map[string]*workload // by namespace/name
	addresses int                  // how many pod addresses were given out
}

// New makes a runner that does nothing until Run.
func New(o Options) (*Runner, error) {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the pods' folder: %w", err)
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return &Runner{options: o, workloads: map[string]*workload{}}, nil
}

// LogFile is the name of a pod's log in Options.LogDir.
func LogFile(namespace, pod string) string { return namespace + "_" + pod + ".log" }

func (r *Runner) sync(ctx context.Context, key string, store cache.Store) error {
	obj, found, err := store.GetByKey(key)
	if err != nil {
		return err
	}
	pod, isPod := obj.(*corev1.Pod)
	if !found || !isPod {
		r.end(key, nil)
		return nil
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return r.finish(ctx, key, pod)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil // over
	case r.options.Hold != nil && r.options.Hold(pod):
		return nil // until it changes
	case r.hasProcess(pod):
		r.ensure(key, pod)
		return nil
	}
	return r.play(ctx, pod)
}

// play gives a pod that nothing runs for the status a node would report.
func (r *Runner) play(ctx context.Context, pod *corev1.Pod) error {
	status := runningStatus(pod, r.address(pod), metav1.NewTime(r.options.Clock()))
	if isBatch(pod) {
		status = succeededStatus(pod, status)
	}
	if sameStatus(pod.Status, status) {
		return nil
	}
	return r.writeStatus(ctx, pod, status)
}

// address is the pod's own, once it has one.
func (r *Runner) address(pod *corev1.Pod) string {
	if pod.Status.PodIP != "" {
		return pod.Status.PodIP
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses++
	n := r.addresses
	return fmt.Sprintf("10.42.%d.%d", n/250%250, n%250+1)
}

// hasProcess reports whether a container of the pod has a command the runner has an executable for.
func (r *Runner) hasProcess(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		if _, found := r.executable(&pod.Spec.Containers[i]); found {
			return true
		}
	}
	return false
}

func (r *Runner) executable(c *corev1.Container) (string, bool) {
	if len(c.Command) == 0 {
		return "", false
	}
	file, found := r.options.Binaries[path.Base(c.Command[0])]
	return file, found
}

// ensure starts the pod's workload unless it runs. One of the same name but of an earlier pod is
// ended first (a StatefulSet's pods keep their names).
func (r *Runner) ensure(key string, pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.workloads[key]
	if before != nil && before.pod.UID == pod.UID {
		return
	}
	w := newWorkload(r, pod, filepath.Join(r.options.DataDir, string(pod.UID)))
	r.workloads[key] = w
	go w.run(before)
}

// end has the workload of a pod ended, if there is one, and returns it. With a pod given, only that
// pod's.
func (r *Runner) end(key string, pod *corev1.Pod) *workload {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workloads[key]
	if w == nil || pod != nil && w.pod.UID != pod.UID {
		return nil
	}
	w.stop()
	go func() {
		<-w.done
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.workloads[key] == w {
			delete(r.workloads, key)
		}
	}()
	return w
}

// finish deletes a pod for good that is on its way out, as a node does when its containers have
// ended. Waiting for a process here holds up one worker; the rest go on.
func (r *Runner) finish(ctx context.Context, key string, pod *corev1.Pod) error {
	if w := r.end(key, pod); w != nil {
		select {
		case <-w.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	now := int64(0)
	err := r.options.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	return ignoreGone(err)
}

// Kill kills the processes of a pod and returns when they have ended. They are started again.
func (r *Runner) Kill(ctx context.Context, namespace, pod string) error {
	w := r.workload(types.NamespacedName{Namespace: namespace, Name: pod})
	if w == nil {
		return fmt.Errorf("%w: %s/%s", ErrNoProcess, namespace, pod)
	}
	return w.kill(ctx)
}

// PIDs are the IDs of the processes of a pod that run now, for measurements; none is no error. A process that ends is
// replaced by another one, and its ID may be somebody else's then.
func (r *Runner) PIDs(namespace, pod string) []int {
	w := r.workload(types.NamespacedName{Namespace: namespace, Name: pod})
	if w == nil {
		return nil
	}
	return w.pids()
}

func (r *Runner) workload(key types.NamespacedName) *workload {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workloads[key.String()]
}

// Close gives up all processes, for the end of the cluster: nothing is started again. The func it
// returns waits until all of them have ended; whoever wants that soon kills them.
func (r *Runner) Close() (wait func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []*workload
	for _, w := range r.workloads {
		w.stop()
		left = append(left, w)
	}
	return func() {
		for _, w := range left {
			<-w.done
		}
	}
}
