package podrunner

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

const (
	// firstPause is the pause before the first restart. It doubles at each restart, up to longestPause. A process
	// that has run for steady resets it.
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
	steady       = 10 * time.Second
)

// containerProcess runs one container as a local process and restarts it.
type containerProcess struct {
	workload   *workload
	index      int // of the container in the spec
	container  *corev1.Container
	executable string

	mu      sync.Mutex // guards the fields below
	current *supervise.Process
}

func newContainerProcess(w *workload, index int, c *corev1.Container, executable string) *containerProcess {
	return &containerProcess{workload: w, index: index, container: c, executable: executable}
}

// run starts the process, and restarts it when it ends, until the pod is deleted or its restart policy forbids
// another start.
func (p *containerProcess) run() {
	ctx := p.workload.ctx
	select {
	case <-p.workload.hasToken:
	case <-ctx.Done():
		return
	}
	pause := firstPause
	for {
		began := p.workload.runner.options.Clock()
		if over := p.once(ctx); over {
			return
		}
		if p.workload.runner.options.Clock().Sub(began) >= steady {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// once runs one process until it ends, and reports whether it was the last one.
func (p *containerProcess) once(ctx context.Context) (over bool) {
	command, health, err := p.command(ctx)
	if err != nil {
		p.set(func(s *containerState) {
			s.phase, s.ready, s.reason, s.message = waiting, false, "CreateContainerConfigError", err.Error()
		})
		return false
	}
	process, err := p.workload.runner.options.Launch(command)
	if err != nil {
		p.set(func(s *containerState) {
			s.phase, s.ready, s.reason, s.message = waiting, false, "RunContainerError", err.Error()
		})
		return false
	}
	p.setCurrent(process)
	defer p.setCurrent(nil)
	started := p.now()
	p.set(func(s *containerState) {
		s.phase, s.ready, s.reason, s.message, s.started, s.pid = running, false, "", "", started, process.PID
	})
	probing, stopProbing := context.WithCancel(ctx)
	var probe sync.WaitGroup
	probe.Go(func() {
		watchReadiness(probing, health, askTimeout, func(ready bool) { p.set(func(s *containerState) { s.ready = ready }) })
	})
	select {
	case <-process.Done():
	case <-ctx.Done():
		p.terminate(process)
	}
	stopProbing()
	probe.Wait()
	return p.ended(ctx, process.Status(), started)
}

func (p *containerProcess) now() metav1.Time {
	return metav1.NewTime(p.workload.runner.options.Clock())
}

func (p *containerProcess) set(change func(*containerState)) { p.workload.set(p.index, change) }

func (p *containerProcess) setCurrent(process *supervise.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = process
}

// terminate sends SIGTERM to the process, and SIGKILL when the pod's grace period is over.
func (p *containerProcess) terminate(process *supervise.Process) {
	grace := 30 * time.Second
	if s := p.workload.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if err := process.Signal(syscall.SIGTERM); err != nil {
		grace = 0 // the supervisor has ended, and the process with it
	}
	select {
	case <-process.Done():
		return
	case <-time.After(grace):
	}
	_ = process.Signal(syscall.SIGKILL) // fails only if the supervisor has ended, and then the process has too
	<-process.Done()
}

// ended records how the process ended, and reports whether the container is finished.
func (p *containerProcess) ended(ctx context.Context, status supervise.Status, started metav1.Time) (over bool) {
	code := status.Code
	if status.Signal != 0 {
		code = 128 + status.Signal
	}
	if ctx.Err() != nil {
		return true // the pod is being deleted, so its status is not needed
	}
	policy := p.workload.pod.Spec.RestartPolicy
	if policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && code == 0 {
		p.set(func(s *containerState) { s.phase, s.ready, s.code = ended, false, code })
		return true
	}
	last := &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Signal: int32(status.Signal), Reason: endReason(code), Message: status.Text, StartedAt: started, FinishedAt: p.now(),
	}
	p.set(func(s *containerState) {
		s.phase, s.ready, s.reason, s.message, s.last = waiting, false, "CrashLoopBackOff", status.Text, last
		s.restarts++
	})
	return false
}

// kill kills the running process. It returns false if no process is running.
func (p *containerProcess) kill(ctx context.Context) (found bool, err error) {
	p.mu.Lock()
	process := p.current
	p.mu.Unlock()
	if process == nil {
		return false, nil
	}
	if err := process.Signal(syscall.SIGKILL); err != nil {
		return false, fmt.Errorf("killing process %d: %w", process.PID, err)
	}
	select {
	case <-process.Done():
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// command returns the command to start and the address of its health endpoint.
func (p *containerProcess) command(ctx context.Context) (c supervise.Command, health string, err error) {
	w := p.workload
	own, err := environment(ctx, w.runner.options.Client.CoreV1(), w.pod, p.container)
	if err != nil {
		return c, "", err
	}
	ports, err := w.runner.options.Ports(2)
	if err != nil {
		return c, "", err
	}
	health = fmt.Sprintf("%s:%d", processAddress, ports[0])
	env := p.given(own, health, fmt.Sprintf("%s:%d", processAddress, ports[1]))
	var args []string
	for _, arg := range append(append([]string{}, p.container.Command[1:]...), p.container.Args...) {
		args = append(args, expand(arg, env))
	}
	return supervise.Command{
		Path: p.executable, Args: args, Env: append(append([]string{}, w.runner.options.Env...), lines(env)...), Dir: w.scratch(),
		Log: filepath.Join(w.runner.options.LogDir, p.logFile()),
	}, health, nil
}

// given returns the environment of the process: the container's own, and what a cluster would provide: a
// ServiceAccount, a host name, and free addresses to listen on.
func (p *containerProcess) given(own map[string]string, health, metrics string) map[string]string {
	w := p.workload
	env := map[string]string{
		"PATH":      "/usr/local/bin:/usr/bin:/bin",
		"HOME":      w.scratch(),
		"NAMESPACE": w.pod.Namespace,
	}
	maps.Copy(env, own)
	maps.Copy(env, map[string]string{
		"KUBECONFIG":                       w.kubeconfigFile(),
		"HOSTNAME":                         w.pod.Name,
		"POD_NAME":                         w.pod.Name,
		"TMPDIR":                           w.scratch(),
		"FLEET_HEALTHPROBE_BIND_ADDRESS":   health,
		"FLEET_AGENT_PROBE_BIND_ADDRESS":   health,
		"FLEET_METRICS_BIND_ADDRESS":       metrics,
		"FLEET_AGENT_METRICS_BIND_ADDRESS": metrics,
		"FLEET_AGENT_PPROF_DISABLED":       "true",
	})
	return env
}

// logFile returns LogFile for the first process of a pod. The names of further logs contain the container's name.
func (p *containerProcess) logFile() string {
	for _, other := range p.workload.processes[:p.index] {
		if other != nil {
			return LogFile(p.workload.pod.Namespace, p.workload.pod.Name+"_"+p.container.Name)
		}
	}
	return LogFile(p.workload.pod.Namespace, p.workload.pod.Name)
}
