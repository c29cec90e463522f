package kill_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// snapshot returns all objects of a hub with their content, with names that are the same on every hub.
func (h *hub) snapshot(ctx context.Context) ([]parity.Object, error) {
	config := rest.CopyConfig(h.cluster.Config())
	config.WarningHandler = rest.NoWarnings{} // about deprecated resources
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	reader, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds, err := asked.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var all []parity.Object
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, found := range group.APIResources {
			if !slices.Contains(found.Verbs, "list") || passes(found.Kind) {
				continue
			}
			list, err := reader.Resource(version.WithResource(found.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", found.Name, err)
			}
			for i := range list.Items {
				object, err := parity.Expand(parity.Live("hub", plain(&list.Items[i])))
				if err != nil {
					return nil, err
				}
				all = append(all, object)
			}
		}
	}
	return h.named(all), nil
}

// passes reports whether objects of a kind come and go, or belong to the pods and addresses of the chart's
// Deployment and Services, which have random names.
func passes(kind string) bool {
	return slices.Contains([]string{"Event", "Lease", "Pod", "EndpointSlice", "Endpoints", "IPAddress"}, kind)
}

// plain returns an object without fields that always differ between two hubs.
func plain(o *unstructured.Unstructured) *unstructured.Unstructured {
	switch o.GetKind() {
	case "Secret":
		if o.GetLabels()["owner"] == "helm" {
			unstructured.RemoveNestedField(o.Object, "data") // contains the time of the installation, compressed
		}
		if o.GetName() == names.HubKey {
			unstructured.RemoveNestedField(o.Object, "data") // random
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "labels", "kubernetes.io/legacy-token-last-used") // written by the API server, once a day
	case "Service":
		for _, given := range []string{"clusterIP", "clusterIPs", "ports"} {
			unstructured.RemoveNestedField(o.Object, "spec", given) // random
		}
	case "Bundle":
		// A count that became zero again is written, but a count that was always zero is not. Both mean the same.
		if count, _, _ := unstructured.NestedInt64(o.Object, "status", "unavailable"); count == 0 {
			unstructured.RemoveNestedField(o.Object, "status", "unavailable")
		}
	}
	return o
}

// named replaces random names by names of the objects to which they belong.
func (h *hub) named(objects []parity.Object) []parity.Object {
	known := parity.NewNames(objects, map[string]string{
		h.cluster.URL: "<hub>", strings.TrimSpace(string(h.cluster.CA)): "<CA of the hub>", "plane-" + h.cluster.Name: "<plane>",
	})
	for i := range objects {
		objects[i] = known.Of(objects[i])
	}
	return objects
}
