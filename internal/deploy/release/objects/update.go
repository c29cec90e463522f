package objects

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"helm.sh/helm/v3/pkg/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/retry"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Annotations with the release to which an object belongs, according to Helm.
const (
	ReleaseNameAnnotation      = "meta.helm.sh/release-name"
	ReleaseNamespaceAnnotation = "meta.helm.sh/release-namespace"
)

// Update implements kube.Interface. It creates or patches the objects of target. It deletes the objects of
// original and of failed revisions that are not in target.
func (c *Client) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	result := &kube.Result{}
	former, err := c.formerLists(original)
	if err != nil {
		return result, err
	}
	others, err := c.otherLists()
	if err != nil {
		return result, err
	}
	if c.Only != nil {
		c.ignored = drift.Input{Rules: drift.RulesOf(c.Diff), Autoscalers: drift.AutoscalersOf(objectsIn(target).List())}
	}
	var mu sync.Mutex
	err = inBatches(c.concerned(target), func(info *resource.Info) error {
		created, err := c.update(former, others, info, force)
		mu.Lock()
		defer mu.Unlock()
		if created {
			result.Created = append(result.Created, info)
		} else {
			result.Updated = append(result.Updated, info)
		}
		return err
	})
	if err != nil {
		return result, err
	}
	result.Deleted, err = c.deleteSurplus(former, target)
	return result, errors.Join(err, c.lacking(target))
}

// lacking returns an error if target lacks an object that is to be changed: Build leaves out objects whose kind was deleted.
// It looks at what Build made of the manifest, so that a kind that is deleted later makes the request for the object fail
// instead.
func (c *Client) lacking(target kube.ResourceList) error {
	there := map[manifest.Ref]bool{}
	for _, info := range target {
		there[refOf(info)] = true
	}
	var lacking []string
	for ref := range c.Only {
		if !there[ref] {
			lacking = append(lacking, ref.Text())
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return fmt.Errorf("changing %s: the API server had no matches for kind: create its CustomResourceDefinition again", slices.Min(lacking))
}

// DeleteLeftovers deletes the objects of the revisions in Leftovers that a manifest does not have. Objects that a service account
// may not delete stay: an earlier revision with another service account may have made them.
func (c *Client) DeleteLeftovers(text string) error {
	if len(c.Leftovers) == 0 {
		return nil
	}
	target, err := c.Build(strings.NewReader(text), false)
	if err != nil {
		return err
	}
	former, err := c.formerLists(nil)
	if err != nil {
		return err
	}
	_, errs := c.deleteAll(surplusOf(former, target), metav1.DeletePropagationBackground, c.mayDelete)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool {
		return c.identity.Account != "" && apierrors.IsForbidden(err) && outcome.ReasonOf(err) == conditions.ReasonForbidden
	})...)
}

// deleteSurplus deletes the objects of former revisions that are not in target, and returns them.
func (c *Client) deleteSurplus(former []kube.ResourceList, target kube.ResourceList) (kube.ResourceList, error) {
	deleted, errs := c.deleteAll(surplusOf(former, target), metav1.DeletePropagationBackground, c.mayDelete)
	return deleted.Deleted, errors.Join(errs...)
}

// surplusOf returns the objects of former revisions that are not in target, each once.
func surplusOf(former []kube.ResourceList, target kube.ResourceList) (surplus kube.ResourceList) {
	for _, list := range former {
		surplus = append(surplus, list.Difference(target).Difference(surplus)...)
	}
	return surplus
}

// concerned returns the objects of a list that may be changed.
func (c *Client) concerned(list kube.ResourceList) kube.ResourceList {
	if c.Only == nil {
		return list
	}
	return list.Filter(func(info *resource.Info) bool { return c.Only[refOf(info)] })
}

// formerLists returns the objects of the revision from which an upgrade starts, and of the failed revisions after
// it.
func (c *Client) formerLists(original kube.ResourceList) ([]kube.ResourceList, error) {
	lists := []kube.ResourceList{copyOf(original)}
	for _, number := range c.Leftovers {
		list, err := c.Build(strings.NewReader(c.Old[number]), false)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// otherLists returns the objects of the manifests in Former.
func (c *Client) otherLists() ([]kube.ResourceList, error) {
	lists := make([]kube.ResourceList, 0, len(c.Former))
	for _, text := range c.Former {
		list, err := c.Build(strings.NewReader(text), false)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// copyOf copies a list. Adopted objects are in both lists that Helm passes, and the originals are changed while
// others are read.
func copyOf(list kube.ResourceList) kube.ResourceList {
	kept := make(kube.ResourceList, 0, len(list))
	for _, info := range list {
		same := *info
		kept = append(kept, &same)
	}
	return kept
}

// UpdateThreeWayMerge implements kube.InterfaceThreeWayMerge. Update already does a three-way merge.
func (c *Client) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return c.Update(original, target, force)
}

// update brings one object to the state of target. It removes fields that former revisions set and target does not
// have, and if the object belongs to another release, also those that others set.
func (c *Client) update(former, others []kube.ResourceList, target *resource.Info, force bool) (created bool, err error) {
	if err := c.confine(target); err != nil {
		return false, err
	}
	accepted := others
	if len(former) > 0 && !c.Undeployed {
		accepted = append(slices.Clone(others), former[0]) // the other lists of former are failed revisions
	}
	live, err := c.helper(target).Get(target.Namespace, target.Name)
	if apierrors.IsNotFound(err) {
		return true, c.create(target, accepted...)
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", describeInfo(target), err)
	}
	writer := c.checking(target, accepted...)
	if force {
		answer, err := c.send(target, func() (runtime.Object, error) {
			return writer.Replace(target.Namespace, target.Name, true, c.keepIgnored(target.Object, target, live, true))
		})
		return false, c.took(target, answer, err)
	}
	if owner, known := ownerOf(live); known && owner != c.release {
		former = slices.Concat(others, former) // others first: the first patch makes the object ours
	}
	for _, before := range versionsOf(target, former) {
		if live, err = c.patch(writer, before, target, live); err != nil {
			return false, err
		}
	}
	return false, c.took(target, live, nil)
}

// patch sends the patch from before to target, and returns the object after it. If the object has changed since live was read,
// patch reads it again.
func (c *Client) patch(writer *resource.Helper, before runtime.Object, target *resource.Info, live runtime.Object) (runtime.Object, error) {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if live == nil {
			if live, err = c.helper(target).Get(target.Namespace, target.Name); err != nil {
				return fmt.Errorf("reading %s: %w", describeInfo(target), err)
			}
		}
		wanted := *target
		wanted.Object = c.keepIgnored(target.Object, target, live, false)
		patchType, patch, err := threeWayPatch(c.keepIgnored(before, target, live, false), &wanted, live)
		if err != nil {
			return fmt.Errorf("comparing %s: %w", describeInfo(target), err)
		}
		if string(patch) == "{}" {
			return nil
		}
		answer, err := c.send(target, func() (runtime.Object, error) {
			return writer.Patch(target.Namespace, target.Name, patchType, patch, nil)
		})
		if err != nil {
			live = nil // outdated
			return c.took(target, nil, err)
		}
		live = answer
		return nil
	})
	return live, err
}

// versionsOf returns an object as former revisions had it. If they did not have it, it returns target, so that no
// fields of other writers are removed.
func versionsOf(target *resource.Info, former []kube.ResourceList) []runtime.Object {
	var versions []runtime.Object
	for _, list := range former {
		if found := list.Get(target); found != nil {
			versions = append(versions, found.Object)
		}
	}
	if len(versions) == 0 {
		return []runtime.Object{target.Object}
	}
	return versions
}

// took records the API server's answer.
func (c *Client) took(target *resource.Info, answer runtime.Object, err error) error {
	if err != nil {
		return fmt.Errorf("changing %s: %w", describeInfo(target), err)
	}
	if err := target.Refresh(answer, true); err != nil {
		return fmt.Errorf("reading the API server's answer for %s: %w", describeInfo(target), err)
	}
	c.remember(target)
	return nil
}

// threeWayPatch returns the patch that brings live to target and removes fields that are in before but not in
// target. It is "{}" if nothing changes.
func threeWayPatch(before runtime.Object, target *resource.Info, live runtime.Object) (types.PatchType, []byte, error) {
	versions, err := copiesOf(before, target.Object, live)
	if err != nil {
		return "", nil, err
	}
	if target.Mapping.GroupVersionKind.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		encodeSecret(versions[0], versions[1])
	}
	versioned := kube.AsVersioned(target)
	if _, unknown := versioned.(runtime.Unstructured); unknown {
		texts, err := encode(versions)
		if err != nil {
			return "", nil, err
		}
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(texts[0], texts[1], texts[2],
			mergepatch.RequireKeyUnchanged("apiVersion"), mergepatch.RequireKeyUnchanged("kind"),
			mergepatch.RequireMetadataKeyUnchanged("name"))
		return types.MergePatchType, patch, err
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(versioned)
	if err != nil {
		return "", nil, fmt.Errorf("reading the schema: %w", err)
	}
	whole := replaceLists(versions[0], versions[1], versions[2], lookup)
	texts, err := encode(versions)
	if err != nil {
		return "", nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(texts[0], texts[1], texts[2], lookup, true)
	if err != nil || !whole {
		return types.StrategicMergePatchType, patch, err
	}
	patch, err = wholeListsPatch(live, texts[2], patch, lookup)
	return types.MergePatchType, patch, err
}

// encodeSecret encodes the text in two versions of a Secret. The API server stores no stringData, so that a key that is no longer
// there would stay in data. If target has no data, only the former keys go: other writers may have added some.
func encodeSecret(before, target map[string]any) {
	_, hadText := before["stringData"].(map[string]any)
	drift.EncodeStrings(before)
	drift.EncodeStrings(target)
	if hadText && target["data"] == nil {
		target["data"] = map[string]any{}
	}
}

// wholeListsPatch applies a strategic merge patch to current, the live object without the lists that replaceLists has removed.
// It returns the JSON merge patch that makes the same of the live object. The API server cannot apply the strategic merge patch:
// it sorts such a list by its key, even if the patch replaces the list. The patch applies to this version of the live object only,
// because it contains items of other writers.
func wholeListsPatch(live runtime.Object, current, patch []byte, lookup strategicpatch.LookupPatchMeta) ([]byte, error) {
	merged, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(current, patch, lookup)
	if err != nil {
		return nil, fmt.Errorf("merging: %w", err)
	}
	text, err := json.Marshal(live)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	out, err := jsonmergepatch.CreateThreeWayJSONMergePatch(text, merged, text)
	if u, ok := live.(*unstructured.Unstructured); err == nil && ok && string(out) != "{}" && u.GetResourceVersion() != "" {
		return jsonpatch.MergeMergePatches(out, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, u.GetResourceVersion()))
	}
	return out, err
}

// copiesOf returns copies of the content of three versions of an object.
func copiesOf(objects ...runtime.Object) (versions [3]map[string]any, err error) {
	for i, object := range objects {
		if versions[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(object.DeepCopyObject()); err != nil {
			return versions, fmt.Errorf("copying: %w", err)
		}
	}
	return versions, nil
}

func encode(versions [3]map[string]any) (texts [3][]byte, err error) {
	for i, version := range versions {
		if texts[i], err = json.Marshal(version); err != nil {
			return texts, fmt.Errorf("encoding: %w", err)
		}
	}
	return texts, nil
}

// mayDelete reports whether an object that left the release may be deleted. The annotation helm.sh/resource-policy
// of the live object may forbid it.
func (c *Client) mayDelete(info *resource.Info) (bool, error) {
	ours, err := c.isOurs(info)
	if err != nil || !ours {
		return false, err
	}
	object, ok := info.Object.(*unstructured.Unstructured)
	return ok && object.GetAnnotations()[kube.ResourcePolicyAnno] != kube.KeepPolicy, nil
}

// isOurs reads an object and reports whether it belongs to this release. A deleted object does not, and neither does
// one that another release needs.
func (c *Client) isOurs(info *resource.Info) (bool, error) {
	if c.isKept(info) {
		return false, nil
	}
	return c.belongs(info)
}

// read reads an object into info and reports whether it exists. If the API server no longer has the resource, but the kind in
// another version, the next attempt finds that version.
func (c *Client) read(info *resource.Info) (exists bool, err error) {
	err = info.Get()
	switch {
	case err == nil:
		return true, nil
	case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		c.identity.Reset()
		if _, unserved := c.identity.Served(info.Mapping.GroupVersionKind); meta.IsNoMatchError(unserved) {
			return false, nil
		}
	case apierrors.IsNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("reading %s: %w", describeInfo(info), err)
}

// belongs reads an object and reports whether its marks name this release.
func (c *Client) belongs(info *resource.Info) (bool, error) {
	deployed, _ := info.Object.(*unstructured.Unstructured)
	if exists, err := c.read(info); !exists {
		return false, err
	}
	owner, known := ownerOf(info.Object)
	live, ok := info.Object.(*unstructured.Unstructured)
	if c.Foreign || c.isOutside(info) { // a manifest alone does not prove that the object belongs to this release
		return ok && known && owner == c.release && live.GetLabels()[fleet.LabelSetHash] == c.Set, nil
	}
	if known {
		return owner == c.release, nil
	}
	// Helm's annotations were removed: the label of the set still identifies the owner.
	return ok && deployed != nil && live.GetLabels()[fleet.LabelSetHash] != "" &&
		live.GetLabels()[fleet.LabelSetHash] == deployed.GetLabels()[fleet.LabelSetHash], nil
}

// ownerOf returns the release in the annotations of an object.
func ownerOf(object runtime.Object) (owner placement.Release, known bool) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return placement.Release{}, false
	}
	annotations := u.GetAnnotations()
	name, known := annotations[ReleaseNameAnnotation]
	return placement.Release{Namespace: annotations[ReleaseNamespaceAnnotation], Name: name}, known
}
