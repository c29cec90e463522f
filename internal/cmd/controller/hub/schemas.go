package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// ErrCRDsOutdated means that the API server would drop fields that this release writes.
var ErrCRDsOutdated = errors.New("the CustomResourceDefinitions are older than this controller")

// schemas compares the CRDs of this release with those of the server.
type schemas struct {
	// embedded reads the CRDs of this release once, in parallel with the requests to the server.
	embedded func() ([]apiextensions.CustomResourceDefinition, error)
	options  Options
}

func newSchemas(o Options) *schemas {
	s := &schemas{options: o, embedded: sync.OnceValues(func() ([]apiextensions.CustomResourceDefinition, error) { return crds.Embedded(charts.FS) })}
	go func() { _, _ = s.embedded() }() // the next caller gets the error
	return s
}

// check reads the CRD of each kind of our group, all in parallel. A kind without a CRD is served by another API
// server, with unknown fields.
func (s *schemas) check(ctx context.Context, client kubernetes.Interface) error {
	embedded, err := s.embedded()
	if err != nil {
		return err
	}
	served := make([]*apiextensions.CustomResourceDefinition, len(embedded))
	asking, ctx := errgroup.WithContext(ctx)
	for i := range embedded {
		asking.Go(func() error {
			found, err := readCRD(ctx, client, embedded[i].Name)
			served[i] = found
			return err
		})
	}
	switch err := asking.Wait(); {
	case apierrors.IsForbidden(err):
		// The chart is older than the image. This works unless fields are dropped, which cannot be checked.
		s.options.Log.Warn("cannot check whether the CustomResourceDefinitions belong to this release", "error", err)
		return nil
	case err != nil:
		return err
	}
	return s.compare(embedded, served)
}

func (s *schemas) compare(embedded []apiextensions.CustomResourceDefinition, served []*apiextensions.CustomResourceDefinition) error {
	var lacking []string
	var first *apiextensions.CustomResourceDefinition
	for i, found := range served {
		if found == nil {
			continue
		}
		if missing := crds.Missing(&embedded[i], found); len(missing) > 0 {
			lacking = append(lacking, found.Name+" ("+few(missing)+")")
			if first == nil {
				first = found
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return fmt.Errorf("%w, and the API server would drop what it writes to %s; upgrade them with: %s",
		ErrCRDsOutdated, strings.Join(lacking, ", "), upgradeCommand(first, s.options.Env.Namespace))
}

// few joins the first of many names.
func few(fields []string) string {
	const most = 3
	if len(fields) <= most {
		return strings.Join(fields, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(fields[:most], ", "), len(fields)-most)
}

// upgradeCommand returns the command that upgrades the CRD's release, or that takes over a CRD not installed by Helm.
func upgradeCommand(crd *apiextensions.CustomResourceDefinition, namespace string) string {
	release, in := crd.Annotations["meta.helm.sh/release-name"], crd.Annotations["meta.helm.sh/release-namespace"]
	if release == "" || in == "" {
		return fmt.Sprintf("helm upgrade --install fleet-crd charts/fleet-crd --namespace %s --take-ownership", namespace)
	}
	return fmt.Sprintf("helm upgrade %s charts/fleet-crd --namespace %s", release, in)
}

// readCRD returns a CRD, or nil if it does not exist.
func readCRD(ctx context.Context, client kubernetes.Interface, name string) (*apiextensions.CustomResourceDefinition, error) {
	body, err := client.Discovery().RESTClient().Get().
		AbsPath("/apis/"+apiextensions.SchemeGroupVersion.String()+"/customresourcedefinitions/"+name).
		SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, foreign.Classify(err))
	}
	found := &apiextensions.CustomResourceDefinition{}
	if err := json.Unmarshal(body, found); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	return found, nil
}
