// Package podrunner replaces scheduler and kubelet for a control plane without nodes. Every Pod becomes Running
// and Ready at once, and the Pods of a Job become Succeeded. A container runs as a local process if the runner
// has an executable for its command.
//
//	watch ─► sync ─┬─ no process ──────────► status Running, Ready
//	               ├─ process ─────────────► workload: environment, token, start, probe, restart
//	               └─ deleted, terminating ─► SIGTERM, grace period, SIGKILL, object deleted
//
// The runner leaves spec.nodeName empty, because a Pod that is bound to a missing node is garbage collected. It ignores
// Pods that are bound to a node, because a kubelet runs them.
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

// ErrNoProcess means that no process is running for the pod.
var ErrNoProcess = errors.New("no process is running for the pod")

// Options configures a runner. All fields except Binaries, Hold, Env and Say are required.
type Options struct {
	// Client has the admin's rights.
	Client kubernetes.Interface
	// Launch starts a process that ends when its caller ends.
	Launch func(supervise.Command) (*supervise.Process, error)
	// Ports returns n free ports of 127.0.0.1.
	Ports func(n int) ([]int, error)
	// Kubeconfig returns a kubeconfig that reads its token from a file.
	Kubeconfig func(tokenFile, namespace string) ([]byte, error)
	// Binaries maps a container's command, without its directory, to an executable.
	Binaries map[string]string
	// Hold reports whether the runner leaves a pod Pending. It is called at each change of the pod. Nil holds no
	// pod.
	Hold func(*corev1.Pod) bool
	// Env is added to the environment of each process, as KEY=value. The container's own variables win.
	Env []string
	// LogDir is the directory of the processes' logs, see LogFile.
	LogDir string
	// DataDir gets one directory per pod with processes. It is removed with the pod.
	DataDir string
	Clock   func() time.Time
	// Say receives one line for each problem that no pod status can show.
	Say func(format string, args ...any)
}

// Runner runs the pods of one cluster.
type Runner struct {
	options Options

	mu        sync.Mutex           // guards the fields below
	workloads map[string]*workload // keyed by namespace/name
	addresses int                  // number of pod addresses in use or used
}

// New creates a runner. It does nothing before Run.
func New(o Options) (*Runner, error) {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the pods' directory: %w", err)
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return &Runner{options: o, workloads: map[string]*workload{}}, nil
}

// LogFile returns the name of a pod's log in Options.LogDir.
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
	case pod.Spec.NodeName != "":
		r.end(key, pod) // it was bound after the runner had started it
		return nil
	case pod.DeletionTimestamp != nil:
		return r.finish(ctx, key, pod)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil // the pod has finished
	case r.options.Hold != nil && r.options.Hold(pod):
		return nil // until the pod changes
	case r.hasProcess(pod):
		r.ensure(key, pod)
		return nil
	}
	return r.play(ctx, pod)
}

// play sets the status that a node would report for a pod without a process.
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

// address returns the pod's address, or a new one for a new pod.
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

// hasProcess reports whether the runner has an executable for the command of one of the pod's containers.
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

// ensure starts the pod's workload unless it is running. The workload of an earlier pod with the same name, as in
// a StatefulSet, is ended first.
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

// end starts to end a pod's workload and returns it, or nil. If pod is set, only the workload of
// that pod is ended.
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

// finish deletes a terminating pod from the API when its processes have ended, as kubelet does. The wait for a
// process blocks one worker; the others continue.
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

// Kill kills the processes of a pod and returns when they have ended. They are restarted.
func (r *Runner) Kill(ctx context.Context, namespace, pod string) error {
	w := r.workload(types.NamespacedName{Namespace: namespace, Name: pod})
	if w == nil {
		return fmt.Errorf("%w: %s/%s", ErrNoProcess, namespace, pod)
	}
	return w.kill(ctx)
}

// PIDs returns the IDs of a pod's running processes, for measurements. It returns none if no process is running.
// When a process ends, the runner starts another one, and the system may reuse the ID.
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

// Close cancels all workloads, so that no process is restarted. The returned function waits until all processes
// have ended. The caller has to kill them if they should end at once.
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
