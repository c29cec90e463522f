package source

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
)

// hookMark is the annotation that separates hooks from other objects while they are kustomized together. It is
// never deployed.
const hookMark = "fleet.cattle.io/rendered-hook"

// mostNamesakes limits how many hooks of a chart with a kustomization may have the same kind, namespace and name.
const mostNamesakes = 20

// kustomizesHooks reports whether the rendered objects have to be kustomized together with the hooks.
func (f *PostRenderer) kustomizesHooks() bool {
	return f.Package.Style.Kustomization != "" && f.Package.Style.Chart != ""
}

// FinishHooks does for the hooks of a release what Run does for its other objects. It is called before the release
// is stored, and therefore before any hook runs. If it returns true, Helm has to run again, and Run then returns the
// kustomized objects of this run: a kustomization needs the hooks together with the other objects, but Helm's
// post-renderer does not get the hooks.
func (f *PostRenderer) FinishHooks(r *release.Release) (again bool, err error) {
	if f.kustomized {
		r.Hooks = slices.Concat(f.hooks, f.plainHooks)
		return false, nil
	}
	hooks := make([][]*unstructured.Unstructured, len(r.Hooks))
	for i, hook := range r.Hooks {
		objects, err := manifest.Parse([]byte(hook.Manifest))
		if err != nil {
			return false, fmt.Errorf("hook %s: %w", hook.Path, err)
		}
		hooks[i] = objects
	}
	objects := f.rendered
	if f.kustomizesHooks() {
		var built []*unstructured.Unstructured
		var builtHooks [][]*unstructured.Unstructured
		if err := f.limit(func() (err error) {
			built, builtHooks, err = kustomizeWithHooks(f.Package, f.rendered, hooks)
			return err
		}); err != nil {
			return false, err
		}
		objects, hooks = built, builtHooks
	}
	finished, err := f.finishHooks(r.Hooks, hooks)
	if err != nil {
		return false, err
	}
	if !f.kustomizesHooks() {
		r.Hooks = slices.Concat(finished, f.plainHooks)
		return false, nil
	}
	f.rendered, f.hooks, f.kustomized = objects, finished, true
	return true, nil
}

// withoutHooks separates objects that are not templates and have the annotation of a hook. Helm only looks for it in
// templates. An object whose annotation names no kind of hook that Helm knows stays with the others.
func withoutHooks(objects []*unstructured.Unstructured) (others []*unstructured.Unstructured, hooks []*release.Hook, err error) {
	for _, object := range objects {
		if object.GetAnnotations()[release.HookAnnotation] == "" {
			others = append(others, object)
			continue
		}
		text, err := manifest.Format([]*unstructured.Unstructured{object})
		if err != nil {
			return nil, nil, err
		}
		path := strings.ToLower(object.GetKind()) + "/" + object.GetName()
		read, _, err := releaseutil.SortManifests(map[string]string{path: string(text)}, nil, releaseutil.InstallOrder)
		if err != nil {
			return nil, nil, fmt.Errorf("hook %s: %w", path, err)
		}
		if len(read) == 0 {
			others = append(others, object)
		}
		hooks = append(hooks, read...)
	}
	return others, hooks, nil
}

// finishHooks finishes hooks with the given objects. It drops hooks without objects.
func (f *PostRenderer) finishHooks(hooks []*release.Hook, objects [][]*unstructured.Unstructured) ([]*release.Hook, error) {
	var finished []*release.Hook
	for i, hook := range hooks {
		if len(objects[i]) == 0 {
			continue
		}
		for _, object := range objects[i] {
			if err := f.finish(object); err != nil {
				return nil, fmt.Errorf("hook %s: %w", hook.Path, err)
			}
		}
		text, err := manifest.Format(objects[i])
		if err != nil {
			return nil, err
		}
		finished = append(finished, withManifest(hook, string(text)))
	}
	return finished, nil
}

// withManifest returns a copy of a hook with another manifest. The annotations of the manifest define when the
// hook runs. If the manifest is a List, the definition of the original hook is kept, because the items lack the
// annotations.
func withManifest(hook *release.Hook, manifest string) *release.Hook {
	read, _, err := releaseutil.SortManifests(map[string]string{hook.Path: manifest}, nil, releaseutil.InstallOrder)
	if err == nil && len(read) == 1 {
		read[0].Manifest = manifest
		return read[0]
	}
	same := *hook
	same.Manifest = manifest
	return &same
}

// kustomizeWithHooks builds a bundle's kustomization over the objects and hooks that Helm rendered. Kustomize does
// not accept two objects with the same name, so hooks with the name of another hook or object are built in
// additional rounds.
func kustomizeWithHooks(p *Package, objects []*unstructured.Unstructured, hooks [][]*unstructured.Unstructured) (
	kustomized []*unstructured.Unstructured, kustomizedHooks [][]*unstructured.Unstructured, err error) {
	waiting, err := markHooks(hooks)
	if err != nil {
		return nil, nil, err
	}
	found := make([][]*unstructured.Unstructured, len(hooks))
	for round := 0; round == 0 || len(waiting) > 0; round++ {
		if round > mostNamesakes {
			return nil, nil, fmt.Errorf("kustomize: more than %d hooks have the name of %s %s", mostNamesakes, waiting[0].GetKind(), waiting[0].GetName())
		}
		var input []*unstructured.Unstructured
		if round == 0 {
			input, waiting = withoutNamesakes(objects, waiting)
			input = append(objects[:len(objects):len(objects)], input...)
		} else {
			input, waiting = withoutNamesakes(nil, waiting)
			others, _ := withoutNamesakes(input, objects)
			input = append(input, others...)
		}
		built, err := kustomize(p, input)
		if err != nil {
			return nil, nil, err
		}
		for _, object := range built {
			if i, isHook := takeHookMark(object, len(hooks)); isHook {
				found[i] = append(found[i], object)
			} else if round == 0 {
				kustomized = append(kustomized, object)
			}
		}
	}
	return kustomized, found, nil
}

// markHooks returns the objects of all hooks, each annotated with the index of its hook.
func markHooks(hooks [][]*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var marked []*unstructured.Unstructured
	for i := range hooks {
		for _, object := range hooks[i] {
			if err := checkMetadata(object); err != nil {
				return nil, err
			}
			annotations := object.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[hookMark] = strconv.Itoa(i)
			object.SetAnnotations(annotations)
			marked = append(marked, object)
		}
	}
	return marked, nil
}

// takeHookMark removes the mark from an object and returns the index of its hook.
func takeHookMark(object *unstructured.Unstructured, hooks int) (number int, isHook bool) {
	annotations := object.GetAnnotations()
	mark, marked := annotations[hookMark]
	if !marked {
		return 0, false
	}
	delete(annotations, hookMark)
	object.SetAnnotations(annotations)
	number, err := strconv.Atoi(mark)
	return number, err == nil && number >= 0 && number < hooks
}

// withoutNamesakes picks the objects of a list whose kind, namespace and name differ from all of others and from
// the objects picked before.
func withoutNamesakes(others, list []*unstructured.Unstructured) (picked, rest []*unstructured.Unstructured) {
	key := func(object *unstructured.Unstructured) string {
		return strings.Join([]string{object.GetAPIVersion(), object.GetKind(), cmp.Or(object.GetNamespace(), "default"), object.GetName()}, "|")
	}
	taken := map[string]bool{}
	for _, object := range others {
		taken[key(object)] = true
	}
	for _, object := range list {
		if taken[key(object)] {
			rest = append(rest, object)
			continue
		}
		taken[key(object)] = true
		picked = append(picked, object)
	}
	return picked, rest
}
