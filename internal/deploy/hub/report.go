package hub

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Report writes a status and returns the BundleDeployment as the hub returned it. If nothing has changed, it sends
// no request and returns base. An update of the whole status is cheaper for the hub than a patch, but it only
// succeeds if base is current. After a conflict, and on a hub that only allows agents to patch, report sends a
// patch.
func (h *Hub) Report(ctx context.Context, base *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) (*fleet.BundleDeployment, error) {
	patch, err := StatusPatch(base, status)
	if err != nil || patch == nil {
		return base, err
	}
	update, err := statusUpdate(base, status)
	if err != nil {
		return nil, err
	}
	refused := false
	if update != nil && !h.onlyPatch.Load() {
		put := h.Fleet.Put().SetHeader("Content-Type", runtime.ContentTypeJSON)
		written, err := h.writeStatus(ctx, put, base.Name, update)
		refused = apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
		if !refused && !apierrors.IsConflict(err) {
			return written, err
		}
	}
	written, err := h.writeStatus(ctx, h.Fleet.Patch(types.MergePatchType), base.Name, patch)
	if refused && err == nil {
		h.onlyPatch.Store(true) // the hub refuses every update: do not try it again
	}
	return written, err
}

func (h *Hub) writeStatus(ctx context.Context, request *rest.Request, name string, body []byte) (*fleet.BundleDeployment, error) {
	var written fleet.BundleDeployment
	err := request.Namespace(h.namespace).Resource(BundleDeployments).Name(name).SubResource("status").Body(body).Do(ctx).Into(&written)
	if err != nil {
		return nil, fmt.Errorf("reporting the status: %w", err)
	}
	return &written, nil
}

// statusUpdate returns the body of a status update. The API server ignores the omitted fields. It refuses the
// update if the BundleDeployment was written since base. statusUpdate returns nil if base has no resource version.
// It sends the metadata, because Kubernetes 1.31 forgets who manages omitted labels.
func statusUpdate(base *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) ([]byte, error) {
	if base.ResourceVersion == "" {
		return nil, nil
	}
	metadata := base.ObjectMeta
	metadata.ManagedFields = nil // the API server keeps its own
	body, err := json.Marshal(map[string]any{
		"apiVersion": fleet.SchemeGroupVersion.String(), "kind": "BundleDeployment", "metadata": metadata, "status": status,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return body, nil
}

// StatusPatch returns the merge patch from the status of base to another one, nil if nothing has changed. A
// difference only in the printer columns is no reason for a patch: the hub has the final say on them, and two
// writers with different rules would overwrite each other forever. The API server also applies the patch to a
// BundleDeployment that was recreated. That is harmless: such a status is trusted no more than one from before a
// restart.
func StatusPatch(base *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) ([]byte, error) {
	undisplayed := *status
	undisplayed.Display = base.Status.Display
	if patch, err := mergePatch(&base.Status, &undisplayed); err != nil || patch == nil {
		return nil, err
	}
	patch, err := mergePatch(&base.Status, status)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"status": patch})
}

// mergePatch returns nil if the two statuses are equal.
func mergePatch(from, to *fleet.BundleDeploymentStatus) (json.RawMessage, error) {
	var texts [2][]byte
	for i, side := range []*fleet.BundleDeploymentStatus{from, to} {
		text, err := json.Marshal(side)
		if err != nil {
			return nil, fmt.Errorf("encoding the status: %w", err)
		}
		texts[i] = text
	}
	patch, err := jsonpatch.CreateMergePatch(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("comparing the status: %w", err)
	}
	if string(patch) == "{}" {
		return nil, nil
	}
	return patch, nil
}
