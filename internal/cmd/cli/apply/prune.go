package apply

import (
	"bufio"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/pack"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// gone returns the Bundles that an earlier call has made and this one has not.
func (w *writer) gone(ctx context.Context, name string, targets []*target) ([]*fleet.Bundle, error) {
	client := w.cluster.Bundles(w.cluster.Namespace)
	lister := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	})
	selector := labels.Set{fleet.LabelRepoName: name}
	if _, err := selector.AsValidatedSelector(); err != nil {
		return nil, nil // no object can have this label
	}
	var old []*fleet.Bundle
	err := lister.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(item runtime.Object) error {
		bundle, isBundle := item.(*fleet.Bundle)
		isMade := func(t *target) bool { return t.Name == bundle.Name }
		if isBundle && bundle.DeletionTimestamp == nil && !slices.ContainsFunc(targets, isMade) {
			old = append(old, bundle)
		}
		return nil
	})
	return old, err
}

// delete deletes Bundles.
func (w *writer) delete(ctx context.Context, old []*fleet.Bundle) error {
	for _, bundle := range old {
		w.report.Log("deleting Bundle " + bundle.Name)
		options := metav1.NewPreconditionDeleteOptions(string(bundle.UID))
		err := w.cluster.Bundles(bundle.Namespace).Delete(ctx, bundle.Name, *options)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// addOverwrites notes in the new Bundles which objects they share with Bundles that will be deleted, so that agents do
// not delete these objects.
func addOverwrites(old []*fleet.Bundle, bundles []*pack.Bundle) {
	byName := map[string][]fleet.BundleResource{}
	for _, bundle := range old {
		for _, resource := range bundle.Spec.Resources {
			byName[resource.Name] = append(byName[resource.Name], resource)
		}
	}
	for _, bundle := range bundles {
		for _, resource := range bundle.Spec.Resources {
			if len(byName[resource.Name]) == 0 {
				continue
			}
			object, found := objectIn(resource)
			same := func(old fleet.BundleResource) bool {
				other, isObject := objectIn(old)
				return isObject && other == object
			}
			if found && slices.ContainsFunc(byName[resource.Name], same) {
				bundle.Spec.Overwrites = append(bundle.Spec.Overwrites, object)
			}
		}
	}
}

// objectIn returns the object in a file. The file must be plain text with one object.
func objectIn(resource fleet.BundleResource) (object fleet.OverwrittenResource, found bool) {
	if resource.Encoding != content.EncodingPlain {
		return object, false
	}
	text := regexp.MustCompile(`\{\{[^\n]*?\}\}`).ReplaceAllString(resource.Content, "TEMPLATED")
	if yamlbound.CheckManifest([]byte(text)) != nil {
		return object, false
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	first, err := reader.Read()
	if err != nil {
		return object, false
	}
	if _, err := reader.Read(); !errors.Is(err, io.EOF) {
		return object, false
	}
	var read struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(first, &read); err != nil || read.Kind == "" {
		return object, false
	}
	return fleet.OverwrittenResource{Kind: read.Kind, Name: read.Metadata.Name, Namespace: read.Metadata.Namespace}, true
}
