package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/cut"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// StartTimeout limits how long Check waits for the API server and the CRDs.
const StartTimeout = 30 * time.Second

// Errors that keep the controllers from starting.
var (
	// ErrCRDsMissing means that kinds of our group are not served.
	ErrCRDsMissing = errors.New("CustomResourceDefinitions are missing or not established")
	// ErrConfigMalformed means that the ConfigMap does not contain a valid configuration.
	ErrConfigMalformed = errors.New("the configuration is malformed")
)

// Check refuses a start that would otherwise fail later and less clearly. It waits for the API server and the CRDs
// until the timeout (StartTimeout if 0), and asks again soon, whatever pause an overloaded one wants. Problems that only a
// person can fix are returned at once. It returns the configuration.
func Check(ctx context.Context, o Options, timeout time.Duration) (config.Config, error) {
	if timeout == 0 {
		timeout = StartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(kube.RetrySoon(o.Own.Config))
	if err != nil {
		return config.Config{}, fmt.Errorf("building client: %w", err)
	}
	if err := awaitCRDs(ctx, client, o); err != nil {
		if ctx.Err() != nil {
			return config.Config{}, fmt.Errorf("%w (waited %s)", err, timeout)
		}
		return config.Config{}, err
	}
	return loadConfig(ctx, client, o.Env.Namespace, o.Version, o.Log)
}

// awaitCRDs polls until the CRDs are served with all fields, ctx ends, or only a person can help. It returns the error
// of the last completed attempt, and not that the time is over.
func awaitCRDs(ctx context.Context, client kubernetes.Interface, o Options) error {
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	fields := newSchemas(o)
	var last error
	for {
		err := checkCRDs(ctx, client, o)
		if err == nil {
			err = fields.check(ctx, client)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && last != nil:
			return lasting(last, o)
		case !mayHeal(err):
			return err
		case last == nil:
			o.Log.Info("waiting for the API server and the CRDs", "error", lasting(err, o))
		}
		last = err
		select {
		case <-ctx.Done():
			return lasting(last, o)
		case <-again.C:
		}
	}
}

// mayHeal reports whether waiting can help.
func mayHeal(err error) bool {
	return errors.Is(err, ErrCRDsMissing) || errors.Is(err, foreign.ErrUnreachable) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTooManyRequests(err)
}

// lasting adds the server's address to errors about reaching it.
func lasting(err error, o Options) error {
	if errors.Is(err, foreign.ErrUnreachable) {
		return fmt.Errorf("connecting to %s: %w", o.Own.Config.Host, err)
	}
	return err
}

// checkCRDs checks which kinds of our group are served. Discovery lists a kind once its CRD is established.
func checkCRDs(ctx context.Context, client kubernetes.Interface, o Options) error {
	served := map[string]bool{}
	var list metav1.APIResourceList
	path := "/apis/" + fleet.SchemeGroupVersion.String()
	err := client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Into(&list)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("discovering the kinds of %s: %w", fleet.SchemeGroupVersion, foreign.Classify(err))
	}
	for _, resource := range list.APIResources {
		served[resource.Name] = true
	}
	var missing []string
	for _, k := range kinds() {
		if k.gvk.Group == fleet.SchemeGroupVersion.Group && !served[k.resource] {
			missing = append(missing, k.resource+"."+k.gvk.Group)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	sort.Strings(missing)
	return fmt.Errorf("%w: %s; install them with: helm install fleet-crd charts/fleet-crd --namespace %s --create-namespace",
		ErrCRDsMissing, strings.Join(missing, ", "), o.Env.Namespace)
}

// loadConfig reads the ConfigMap from the server. Without the ConfigMap or its key, it returns the default.
func loadConfig(ctx context.Context, client kubernetes.Interface, namespace, version string, log *slog.Logger) (config.Config, error) {
	found, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, names.ControllerConfig, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return config.Default(version), nil
	}
	if err != nil {
		return config.Config{}, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, names.ControllerConfig, foreign.Classify(err))
	}
	parsed, warnings, err := config.Parse([]byte(found.Data[names.ConfigKey]), config.Default(version))
	if err != nil {
		return config.Config{}, fmt.Errorf("%w: ConfigMap %s/%s, key %s: %w", ErrConfigMalformed, namespace, names.ControllerConfig, names.ConfigKey, err)
	}
	for _, warning := range warnings {
		log.Warn("invalid configuration value ignored", "warning", warning)
	}
	return parsed, nil
}

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

// mostFields is how many missing fields of a CRD an error names.
const mostFields = 3

func (s *schemas) compare(embedded []apiextensions.CustomResourceDefinition, served []*apiextensions.CustomResourceDefinition) error {
	var lacking []string
	var first *apiextensions.CustomResourceDefinition
	for i, found := range served {
		if found == nil {
			continue
		}
		if missing := crds.Missing(&embedded[i], found); len(missing) > 0 {
			lacking = append(lacking, found.Name+" ("+cut.Names(missing, mostFields)+")")
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
