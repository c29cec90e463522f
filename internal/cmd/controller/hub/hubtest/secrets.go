package hubtest

import (
	"encoding/json"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/testing"
)

func (h *Hub) createSecret(action testing.Action) (bool, runtime.Object, error) {
	secret := action.(testing.CreateAction).GetObject().(*corev1.Secret)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note("create", "Secret "+keyOf(secret.Namespace, secret.Name)); err != nil {
		return true, nil, err
	}
	stored := secret.DeepCopy()
	h.store(stored)
	return true, stored.DeepCopy(), nil
}

// updateSecret replaces a Secret.
func (h *Hub) updateSecret(action testing.Action) (bool, runtime.Object, error) {
	secret := action.(testing.UpdateAction).GetObject().(*corev1.Secret)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note("update", "Secret "+keyOf(secret.Namespace, secret.Name)); err != nil {
		return true, nil, err
	}
	if _, err := h.liveSecret(action, secret.Name); err != nil {
		return true, nil, err
	}
	stored := secret.DeepCopy()
	h.store(stored)
	return true, stored.DeepCopy(), nil
}

// patchSecret merges into a Secret.
func (h *Hub) patchSecret(action testing.Action) (bool, runtime.Object, error) {
	patch := action.(testing.PatchAction)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note("patch", "Secret "+keyOf(action.GetNamespace(), patch.GetName())); err != nil {
		return true, nil, err
	}
	if patch.GetPatchType() != types.MergePatchType {
		return true, nil, unexpected("patch by " + string(patch.GetPatchType()))
	}
	live, err := h.liveSecret(action, patch.GetName())
	if err != nil {
		return true, nil, err
	}
	before, err := json.Marshal(live)
	if err != nil {
		return true, nil, err
	}
	after, err := jsonpatch.MergePatch(before, patch.GetPatch())
	if err != nil {
		return true, nil, err
	}
	changed := &corev1.Secret{}
	if err := json.Unmarshal(after, changed); err != nil {
		return true, nil, err
	}
	if changed.Type != live.Type {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, live.Name, nil)
	}
	h.store(changed)
	return true, changed.DeepCopy(), nil
}

// deleteSecret removes a Secret if the preconditions match.
func (h *Hub) deleteSecret(action testing.Action) (bool, runtime.Object, error) {
	going := action.(testing.DeleteActionImpl)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note("delete", "Secret "+keyOf(action.GetNamespace(), going.Name)); err != nil {
		return true, nil, err
	}
	live, err := h.liveSecret(action, going.Name)
	if err != nil {
		return true, nil, err
	}
	if only := going.DeleteOptions.Preconditions; only != nil && !isMeant(live, only) {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), going.Name, unexpected("mean another one"))
	}
	delete(h.objects, id(live, live.Namespace, live.Name))
	return true, nil, nil
}

// liveSecret returns the Secret on the server. The caller holds the lock.
func (h *Hub) liveSecret(action testing.Action, name string) (*corev1.Secret, error) {
	found, ok := h.objects[id(&corev1.Secret{}, action.GetNamespace(), name)].(*corev1.Secret)
	if !ok {
		return nil, apierrors.NewNotFound(action.GetResource().GroupResource(), name)
	}
	return found, nil
}

func (h *Hub) createConfigMap(action testing.Action) (bool, runtime.Object, error) {
	return h.writeConfigMap("create", action.(testing.CreateAction).GetObject())
}

func (h *Hub) updateConfigMap(action testing.Action) (bool, runtime.Object, error) {
	return h.writeConfigMap("update", action.(testing.UpdateAction).GetObject())
}

func (h *Hub) writeConfigMap(verb string, object runtime.Object) (bool, runtime.Object, error) {
	stored := object.(*corev1.ConfigMap).DeepCopy()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note(verb, "ConfigMap "+keyOf(stored.Namespace, stored.Name)); err != nil {
		return true, nil, err
	}
	h.store(stored)
	return true, stored.DeepCopy(), nil
}
