package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/bench/growth"
	"github.com/fleet-hub/fleet/e2e/bench/machine"
	"github.com/fleet-hub/fleet/e2e/bench/profiles"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// ErrNoController means that no pod of the controller has a process.
var ErrNoController = errors.New("the controller is not running")

// profilesAt matches the log line with the address of the controller's profiles.
var profilesAt = regexp.MustCompile(`(?m)^.*msg="serving profiles" .*\bprofiles=(\S+)$`)

// errNoProfiles means that the controller's log contains no address of its profiles.
var errNoProfiles = errors.New("the controller serves no profiles")

// Process is the controller's current process.
type Process struct {
	Pod string
	PID int
}

// Controller returns the controller's only process that is not terminating.
func (h *Hub) Controller(ctx context.Context) (Process, error) {
	pods, err := h.World.Hub.Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=fleet-controller"})
	if err != nil {
		return Process{}, fmt.Errorf("finding the controller: %w", err)
	}
	for _, pod := range pods.Items {
		pids, err := h.World.PodPIDs(framework.HubName, pod.Namespace, pod.Name)
		if err != nil {
			return Process{}, err
		}
		if pod.DeletionTimestamp == nil && len(pids) == 1 {
			return Process{Pod: pod.Name, PID: pids[0]}, nil
		}
	}
	return Process{}, ErrNoController
}

// Resident returns the memory of a controller's pod.
func (h *Hub) Resident(pod string) (float64, error) {
	pids, err := h.World.PodPIDs(framework.HubName, names.SystemNamespace, pod)
	if err != nil {
		return 0, err
	}
	if len(pids) != 1 {
		return 0, ErrNoController
	}
	f, err := usage.Of(pids[0])
	return f.Resident, err
}

// Reading reads what the controller and the API server have used so far.
func (h *Hub) Reading(ctx context.Context) (growth.Reading, error) {
	controller, err := h.Controller(ctx)
	if err != nil {
		return growth.Reading{}, err
	}
	var r growth.Reading
	server := h.World.Plane.Hub.APIServerPID()
	if r.Controller, err = usage.ProcessorTime(controller.PID); err != nil {
		return growth.Reading{}, err
	}
	if r.APIServer, err = usage.ProcessorTime(server); err != nil {
		return growth.Reading{}, err
	}
	controllerMemory, err := usage.MemoryOf(controller.PID)
	if err != nil {
		return growth.Reading{}, err
	}
	serverMemory, err := usage.MemoryOf(server)
	if err != nil {
		return growth.Reading{}, err
	}
	r.ControllerResident, r.APIServerResident = controllerMemory.Resident, serverMemory.Resident
	r.Speed, err = machine.Speed(ctx)
	return r, err
}

// Profiled returns the processes of the hub that serve profiles.
func (h *Hub) Profiled(ctx context.Context) ([]profiles.Process, error) {
	config := h.World.Plane.Hub.Config()
	admin, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	here, err := h.Controller(ctx)
	if err != nil {
		return nil, err
	}
	log, err := h.World.PodLog(framework.HubName, names.SystemNamespace, here.Pod)
	if err != nil {
		return nil, err
	}
	said := profilesAt.FindAllSubmatch(log, -1)
	if len(said) == 0 {
		return nil, errNoProfiles
	}
	return []profiles.Process{
		{Name: "apiserver", URL: config.Host, Client: admin},
		{Name: "controller", URL: "http://" + string(said[len(said)-1][1]), Client: http.DefaultClient},
	}, nil
}
