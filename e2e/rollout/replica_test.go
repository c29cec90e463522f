package rollout_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/fleet-hub/fleet/internal/cmd/controller"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/names"
)

// program is the name under which the test binary plays fleetcontroller.
const program = "fleetcontroller"

// beController is what cmd/controller does.
func beController() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := controller.New(env.OS, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fleetcontroller:", err)
		return 1
	}
	return 0
}

// replica is one process of the controllers.
type replica struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	// done is closed when it has ended.
	done chan struct{}
}

// startReplica starts a process with this kubeconfig. Its name is what it calls itself in leases, which it never loses
// while it lives, however busy the machine is.
func startReplica(folder, name, kubeconfig string) (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	link := filepath.Join(folder, program)
	if err := os.Symlink(self, link); err != nil && !os.IsExist(err) {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		return nil, err
	}
	r := &replica{name: name, cmd: exec.Command(link, "--disable-bootstrap", "--debug"), log: log, done: make(chan struct{})}
	r.cmd.Env = []string{
		"KUBECONFIG=" + kubeconfig, "NAMESPACE=" + names.SystemNamespace, "POD_NAME=" + name,
		"CATTLE_ELECTION_LEASE_DURATION=5m", "CATTLE_ELECTION_RENEW_DEADLINE=4m", "CATTLE_ELECTION_RETRY_PERIOD=2s",
		"FLEET_HEALTHPROBE_BIND_ADDRESS=127.0.0.1:0", "FLEET_METRICS_BIND_ADDRESS=127.0.0.1:0",
	}
	r.cmd.Stderr = log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is in its state
		_ = log.Close()  // it was written by the process
		close(r.done)
	}()
	return r, nil
}

// kill ends the process as kill -9 does, and returns when it has ended.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // one that has ended already is what was wanted
	<-r.done
}
