package podrunner

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// processAddress is the address of every pod that runs as a process.
const processAddress = "127.0.0.1"

// retryStatus is the pause before a failed status update is repeated.
const retryStatus = 100 * time.Millisecond

// workload is a pod with at least one container that runs as a process.
type workload struct {
	runner *Runner
	pod    *corev1.Pod // as first seen
	dir    string
	stop   context.CancelFunc
	ctx    context.Context //nolint:containedctx // the life of the pod, which no call spans
	done   chan struct{}   // closed when all processes have ended and dir is removed
	// hasToken is closed when the ServiceAccount's first token has been written.
	hasToken chan struct{}
	reported corev1.PodStatus // as last written; used only by report

	mu        sync.Mutex // guards the fields below
	states    []containerState
	processes []*containerProcess // nil for containers without a process
	changed   chan struct{}       // has capacity one: states have changed
}

func newWorkload(r *Runner, pod *corev1.Pod, dir string) *workload {
	ctx, stop := context.WithCancel(context.Background())
	w := &workload{runner: r, pod: pod, dir: dir, ctx: ctx, stop: stop, reported: pod.Status,
		done: make(chan struct{}), hasToken: make(chan struct{}), changed: make(chan struct{}, 1),
		states: make([]containerState, len(pod.Spec.Containers)), processes: make([]*containerProcess, len(pod.Spec.Containers))}
	now := metav1.NewTime(r.options.Clock())
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if executable, found := r.executable(c); found {
			w.states[i] = containerState{phase: waiting, reason: "ContainerCreating"}
			w.processes[i] = newContainerProcess(w, i, c, executable)
			continue
		}
		w.states[i] = containerState{phase: running, ready: true, started: now}
	}
	return w
}

// run starts the processes after the previous workload has ended, and runs them until the pod is deleted.
func (w *workload) run(before *workload) {
	defer close(w.done)
	if before != nil {
		before.stop()
		<-before.done
	}
	defer func() { _ = os.RemoveAll(w.dir) }() // if this fails, the directory is removed with the plane's data
	if err := w.prepare(); err != nil {
		w.runner.options.Say("pod %s/%s: %v", w.pod.Namespace, w.pod.Name, err)
		<-w.ctx.Done()
		return
	}
	var running sync.WaitGroup
	running.Go(w.report)
	running.Go(w.refreshToken)
	for _, p := range w.processes {
		if p != nil {
			running.Go(p.run)
		}
	}
	running.Wait()
}

// set changes a container's state, and requests a status update if the state is different.
func (w *workload) set(container int, change func(*containerState)) {
	w.mu.Lock()
	before := w.states[container]
	change(&w.states[container])
	news := before != w.states[container]
	w.mu.Unlock()
	if !news {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default: // an update is requested already
	}
}

// report writes the pod's status at each change, and retries while the API server is unavailable.
func (w *workload) report() {
	for {
		if err := w.write(); err != nil {
			select {
			case <-time.After(retryStatus):
				continue
			case <-w.ctx.Done():
				return
			}
		}
		select {
		case <-w.changed:
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *workload) write() error {
	w.mu.Lock()
	states := append([]containerState(nil), w.states...)
	w.mu.Unlock()
	now := metav1.NewTime(w.runner.options.Clock())
	pod := w.pod.DeepCopy()
	pod.Status = w.reported // unchanged conditions keep their times
	status := statusOf(pod, processAddress, now, states)
	if err := w.runner.writeStatus(w.ctx, pod, status); err != nil {
		return err
	}
	w.reported = status
	return nil
}

// kill kills the running processes and waits until they have ended.
func (w *workload) kill(ctx context.Context) error {
	killed := false
	for _, p := range w.processes {
		if p == nil {
			continue
		}
		found, err := p.kill(ctx)
		if err != nil {
			return err
		}
		killed = killed || found
	}
	if !killed {
		return errors.Join(ErrNoProcess, context.Cause(ctx))
	}
	return nil
}

// pids returns the IDs of the running processes.
func (w *workload) pids() (running []int) {
	for _, p := range w.processes {
		if p == nil {
			continue
		}
		p.mu.Lock()
		if p.current != nil {
			running = append(running, p.current.PID)
		}
		p.mu.Unlock()
	}
	return running
}
