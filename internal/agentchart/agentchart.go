// Package agentchart renders charts/fleet-agent, the one definition of the agent, without a cluster
// and without a helm binary.
//
//	importing.AgentValues ─► values of the chart ─► Helm's engine ─► objects (an import applies them)
//	                                                             └─► agent.yaml (the agent's Bundle carries it)
//
// An admin's `helm install` renders the same chart. The same settings give the same Deployment, byte for
// byte, in all three ways, so that handing an agent over from one to the other restarts nothing.
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

// ManifestName is the name of the one resource of the agent's Bundle. Its content hash, and so the
// Bundle's, covers the name.
const ManifestName = "agent.yaml"

// ErrBootstrapWithoutConfig is returned for values with an import identity but no configuration:
// nobody deploys an agent like that.
var ErrBootstrapWithoutConfig = errors.New("an import identity is given without a configuration")

// embedded is the chart as it ships, parsed on first use and never written to.
//
//nolint:gochecknoglobals // parsing costs more than rendering, and the chart is a constant
var embedded = sync.OnceValues(func() (*chart.Chart, error) { return Load(charts.FS, "fleet-agent") })

// Render is the agent as typed objects with apiVersion and kind, in the order in which to apply them:
// the Secret and the ConfigMap first, if they are among them, everything a pod needs before the
// Deployment. The namespace they live in is not among them. What is rendered depends on v:
//
//   - with Bootstrap and Config: all of an import that makes the agent register anew;
//   - with Config only: the same without the Secret, so that the agent keeps its identity;
//   - with neither: the objects of the agent's Bundle.
//
// PriorityClass and PodDisruptionBudget are part of the first two, as far as they are asked for. An error means
// that v holds something that the chart's schema refuses, or limits that contradict each other; its text says
// which.
func Render(v importing.AgentValues) ([]runtime.Object, error) {
	values, err := chartValues(v)
	if err != nil {
		return nil, err
	}
	definition, err := embedded()
	if err != nil {
		return nil, err
	}
	// The engine adds to the chart's values while it renders: everybody gets their own map.
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

// Manifest is agent.yaml of the agent's Bundle: the objects of Render without Secret and ConfigMap, as
// YAML documents with sorted keys. It is what the hash of the Bundle's content
// covers: another byte restarts nothing, but redeploys every agent.
func Manifest(v importing.AgentValues) ([]byte, error) {
	v.Bootstrap, v.Config = nil, nil
	rendered, err := Render(v)
	if err != nil {
		return nil, err
	}
	documents := make([][]byte, 0, len(rendered))
	for _, object := range rendered {
		document, err := document(object)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("\n---\n")), nil
}

// document is an object as YAML, without the empty status that its Go type always has.
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
