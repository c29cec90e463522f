package deploy

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

// report writes a status over the one of base and returns what the hub made of it: base itself, and no
// request, when there is nothing to write. The whole status is cheaper for the hub than what is new in it, and only
// good for what base is still; for anything else, and on a hub that lets agents only patch, it is the patch.
func (h *hub) report(ctx context.Context, base *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) (*fleet.BundleDeployment, error) {
	patch, err := statusPatch(base, status)
	if err != nil || patch == nil {
		return base, err
	}
	update, err := statusUpdate(base, status)
	if err != nil {
		return nil, err
	}
	refused := false
	if update != nil && !h.onlyPatch.Load() {
		put := h.fleet.Put().SetHeader("Content-Type", runtime.ContentTypeJSON)
		written, err := h.writeStatus(ctx, put, base.Name, update)
		refused = apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
		if !refused && !apierrors.IsConflict(err) {
			return written, err
		}
	}
	written, err := h.writeStatus(ctx, h.fleet.Patch(types.MergePatchType), base.Name, patch)
	if refused && err == nil {
		h.onlyPatch.Store(true) // which it says of every report
	}
	return written, err
}

func (h *hub) writeStatus(ctx context.Context, request *rest.Request, name string, body []byte) (*fleet.BundleDeployment, error) {
	var written fleet.BundleDeployment
	err := request.Namespace(h.namespace).Resource(bundleDeployments).Name(name).SubResource("status").Body(body).Do(ctx).Into(&written)
	if err != nil {
		return nil, fmt.Errorf("reporting the status: %w", err)
	}
	return &written, nil
}

// statusUpdate is the BundleDeployment with another status, as far as the API server looks at it when the status alone
// is written. It is refused if somebody has written the BundleDeployment since base, and nil where base does not say
// when that was.
func statusUpdate(base *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) ([]byte, error) {
	if base.ResourceVersion == "" {
		return nil, nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": fleet.SchemeGroupVersion.String(), "kind": "BundleDeployment",
		"metadata": map[string]any{"name": base.Name, "namespace": base.Namespace, "uid": base.UID, "resourceVersion": base.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return body, nil
}

// statusPatch is the merge patch that brings a BundleDeployment's status to another one, nil if there is nothing to
// tell. The printer columns go along with what is told, and are no reason to tell it: the hub has the last word on
// them, and two writers with different rules would not end. A patch is taken for a BundleDeployment that was made anew,
// too: such a status is believed no more than one of before a restart.
func statusPatch(base *fleet.BundleDeployment, status *fleet.BundleDeploymentStatus) ([]byte, error) {
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

// mergePatch is nil for two statuses that are the same.
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
