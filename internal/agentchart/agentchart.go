// Package agentchart renders charts/fleet-agent, the only definition of the agent, without a cluster and without
// a helm binary.
//
//	importing.AgentValues ─► values of the chart ─► Helm's engine ─► objects (an import applies them)
//	                                                             └─► agent.yaml (the agent's Bundle contains it)
//
// `helm install` by an admin renders the same chart. In all three cases, the same settings give the same
// Deployment, byte for byte, so that a switch from one to another does not restart the agent.
package agentchart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// ManifestName is the name of the only resource of the agent's Bundle. The content hash, and so the Bundle's
// hash, includes it.
const ManifestName = "agent.yaml"

// ErrBootstrapWithoutConfig is returned for values with an import identity but without a configuration. There is
// no deployment mode for that.
var ErrBootstrapWithoutConfig = errors.New("an import identity is given without a configuration")

// embedded is the embedded chart. It is parsed on first use and never changed.
//
//nolint:gochecknoglobals // parsing costs more than rendering, and the chart is a constant
var embedded = sync.OnceValues(func() (*chart.Chart, error) { return Load(charts.FS, "fleet-agent") })

// Render returns the objects of the agent as typed objects with apiVersion and kind, in the order in which to
// apply them: the Secret and the ConfigMap first, if present, and everything a pod needs before the Deployment.
// It does not return the namespace. The objects depend on v:
//
//   - with Bootstrap and Config: all objects of an import that makes the agent register again;
//   - with Config only: the same without the Secret, so that the agent keeps its identity;
//   - with neither: the objects of the agent's Bundle.
//
// PriorityClass and PodDisruptionBudget are included if v asks for them, in the third case only with
// SchedulingInBundle. An error means that the chart's schema rejects v or that its limits contradict each other. The
// text names the value.
func Render(v importing.AgentValues) ([]runtime.Object, error) {
	values, err := chartValues(v)
	if err != nil {
		return nil, err
	}
	definition, err := embedded()
	if err != nil {
		return nil, err
	}
	// The engine changes the chart's values while it renders, so each call gets its own map.
	options := chartutil.ReleaseOptions{Name: names.Agent, Namespace: v.Namespace, Revision: 1, IsInstall: true}
	scope, err := chartutil.ToRenderValues(definition, values, options, nil)
	if err != nil {
		return nil, fmt.Errorf("checking the agent's settings: %w", err)
	}
	files, err := engine.Render(definition, scope)
	if err != nil {
		return nil, fmt.Errorf("rendering the agent's chart: %w", err)
	}
	return objects(files)
}

// Manifest returns agent.yaml of the agent's Bundle: the objects of Render without Secret and ConfigMap, as YAML
// documents with sorted keys. The hash of the Bundle's content covers it: a changed byte restarts nothing, but
// redeploys every agent.
func Manifest(v importing.AgentValues) ([]byte, error) {
	v.Bootstrap, v.Config = nil, nil
	rendered, err := Render(v)
	if err != nil {
		return nil, err
	}
	return Documents(rendered...)
}

// Documents returns objects as YAML documents with sorted keys.
func Documents(objects ...runtime.Object) ([]byte, error) {
	documents := make([][]byte, 0, len(objects))
	for _, object := range objects {
		document, err := document(object)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("\n---\n")), nil
}

// document returns an object as YAML, without the empty status of its Go type.
func document(object runtime.Object) ([]byte, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	delete(fields, "status")
	text, err := yaml.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	return text, nil
}
