package swarm

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// bundleDeployment contains the fields of a BundleDeployment that an agent without a cluster needs.
type bundleDeployment struct {
	object
	Spec struct {
		DeploymentID string `json:"deploymentID"`
		ValuesHash   string `json:"valuesHash"`
		Paused       bool   `json:"paused"`
		OffSchedule  bool   `json:"offSchedule"`
		Options      struct {
			ForceSyncGeneration int64 `json:"forceSyncGeneration"`
		} `json:"options"`
	} `json:"spec"`
	Status struct {
		AppliedDeploymentID string `json:"appliedDeploymentID"`
		Ready               bool   `json:"ready"`
	} `json:"status"`
}

// settled reports whether a BundleDeployment needs no action.
func (b bundleDeployment) settled() bool {
	return b.Spec.DeploymentID == "" || b.Spec.Paused || b.Spec.OffSchedule || b.Metadata.DeletionTimestamp != nil ||
		b.Status.Ready && b.Status.AppliedDeploymentID == b.Spec.DeploymentID
}

// deploy reads what an agent reads to deploy a Bundle, and reports that all its objects exist and are ready.
// Because nothing has to start, it sends only one report.
func (a *Agent) deploy(ctx context.Context, c *protocol.Credential, bd bundleDeployment) error {
	if bd.settled() || a.reported.isOlder(bd.object) {
		return nil
	}
	id, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	reads := []call{{verb: "get", resource: "contents", path: fleetAPI + "contents/" + id}}
	if bd.Spec.ValuesHash != "" {
		reads = append(reads, call{verb: "get", resource: "secrets", path: "/api/v1/namespaces/" + c.DeploymentNamespace + "/secrets/" + bd.Metadata.Name})
	}
	for _, read := range reads {
		read.as, read.token = granted, c.Token
		if err := a.read(ctx, read); err != nil {
			return fmt.Errorf("reading what %s is made of: %w: %w", bd.Metadata.Name, err, errRelist)
		}
	}
	err := a.report(ctx, c, bd)
	if apierrors.IsNotFound(err) {
		return nil // deleted meanwhile; the watch reports it
	}
	if err != nil {
		return fmt.Errorf("reporting on %s: %w: %w", bd.Metadata.Name, err, errRelist)
	}
	a.update(func(s *State) { s.Reports++ })
	return nil
}

// read reads an object from the API server's cache, and from storage if it is not there. The object is not
// checked for staleness. Rancher Fleet's agent always reads from storage.
func (a *Agent) read(ctx context.Context, stored call) error {
	if a.settings.Poll {
		return a.hub.do(ctx, stored, nil)
	}
	inMemory := stored
	inMemory.path += "?resourceVersion=0"
	err := a.hub.do(ctx, inMemory, nil)
	if apierrors.IsNotFound(err) {
		return a.hub.do(ctx, stored, nil)
	}
	return err
}

// report writes the status: as an update of the version that was read or, after a conflict, as a patch. Rancher
// Fleet's agent always patches, and leaves the printer columns to the hub.
func (a *Agent) report(ctx context.Context, c *protocol.Credential, bd bundleDeployment) error {
	status := readyStatus(bd, a.now(), a.swarm.options.Resources)
	if a.settings.Poll {
		return a.write(ctx, c, bd, "patch", map[string]any{"metadata": map[string]any{"uid": bd.Metadata.UID}, "status": status})
	}
	status["display"] = fleet.BundleDeploymentDisplay{Deployed: "True", Monitored: "True", State: string(fleet.Ready)}
	err := a.write(ctx, c, bd, "update", map[string]any{
		"apiVersion": fleet.SchemeGroupVersion.String(), "kind": "BundleDeployment", "status": status,
		"metadata": map[string]any{
			"name": bd.Metadata.Name, "namespace": c.DeploymentNamespace, "uid": bd.Metadata.UID, "resourceVersion": bd.Metadata.ResourceVersion,
		},
	})
	if apierrors.IsConflict(err) {
		return a.write(ctx, c, bd, "patch", map[string]any{"status": status})
	}
	return err
}

func (a *Agent) write(ctx context.Context, c *protocol.Credential, bd bundleDeployment, verb string, what map[string]any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	var written object
	sent := call{
		as: granted, token: c.Token, verb: verb, resource: "bundledeployments/status", body: body,
		path: fleetAPI + "namespaces/" + c.DeploymentNamespace + "/bundledeployments/" + bd.Metadata.Name + "/status",
	}
	if verb == "patch" {
		sent.mediaType = "application/merge-patch+json"
	}
	if err := a.hub.do(ctx, sent, &written); err != nil {
		return err
	}
	a.reported.note(written)
	return nil
}

// versions maps UIDs to the resource versions that an agent has written. Watch events of earlier versions are
// ignored.
type versions map[types.UID]uint64

func (v versions) note(o object) { v[o.Metadata.UID] = o.version() }

func (v versions) isOlder(o object) bool { return o.version() < v[o.Metadata.UID] }

// readyStatus returns the part of a status that an agent writes when a release is installed and all its objects
// are ready.
func readyStatus(bd bundleDeployment, now time.Time, resources int) map[string]any {
	var list []genericcondition.GenericCondition
	for _, kind := range []string{conditions.Installed, conditions.Deployed, conditions.Ready, conditions.Monitored} {
		conditions.Set(&list, now, genericcondition.GenericCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	created := metav1.NewTime(now)
	var made []fleet.DeployedResource
	for i := range max(resources, 0) {
		made = append(made, fleet.DeployedResource{
			Kind: "ConfigMap", APIVersion: "v1", Namespace: names.SystemNamespace, Name: "made-" + strconv.Itoa(i), CreatedAt: created,
		})
	}
	return map[string]any{
		"appliedDeploymentID": bd.Spec.DeploymentID,
		"release":             names.SystemNamespace + "/" + bd.Metadata.Name + ":1",
		"conditions":          list,
		"ready":               true,
		"nonModified":         true,
		"syncGeneration":      bd.Spec.Options.ForceSyncGeneration,
		"resources":           made,
		"resourceCounts":      fleet.ResourceCounts{DesiredReady: len(made), Ready: len(made)},
	}
}
