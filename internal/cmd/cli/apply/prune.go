package apply

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// made returns the Bundles that calls with the same name have made.
func (w *writer) made(ctx context.Context, name string) ([]*fleet.Bundle, error) {
	selector, exists := selectorOf(name)
	if !exists {
		return nil, nil
	}
	found, err := access.Select(ctx, w.cluster.Bundles(w.cluster.Namespace), metav1.ListOptions{LabelSelector: selector}, nil)
	return found, explain("listing Bundles in "+w.cluster.Namespace, err)
}

// selectorOf returns the selector of what calls with a name have made. It reports false if no object can have the label,
// because the name is not a valid value.
func selectorOf(name string) (selector string, exists bool) {
	set := labels.Set{fleet.LabelRepoName: name}
	_, err := set.AsValidatedSelector()
	return set.String(), err == nil
}

// prune deletes the Bundles and ImageScans that are gone.
func (w *writer) prune(ctx context.Context, name string, old []*fleet.Bundle, targets []*target) error {
	for _, bundle := range old {
		w.report.Log("deleting Bundle " + bundle.Name)
		options := metav1.NewPreconditionDeleteOptions(string(bundle.UID))
		err := w.cluster.Bundles(bundle.Namespace).Delete(ctx, bundle.Name, *options)
		if err != nil && !apierrors.IsNotFound(err) {
			return explain(fmt.Sprintf("deleting Bundle %s/%s", bundle.Namespace, bundle.Name), err)
		}
	}
	return w.pruneScans(ctx, name, targets)
}

// addOverwrites notes in the new Bundles which objects they share with Bundles that will be deleted, so that agents do
// not delete these objects.
func addOverwrites(old []*fleet.Bundle, targets []*target) {
	byName := map[string][]fleet.BundleResource{}
	for _, bundle := range old {
		for _, resource := range bundle.Spec.Resources {
			byName[resource.Name] = append(byName[resource.Name], resource)
		}
	}
	for _, bundle := range targets {
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
