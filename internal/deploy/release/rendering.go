package release

import (
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/bounded"
	"github.com/fleet-hub/fleet/internal/deploy/schema"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// notesFile is the template with the text for users, which Helm does not parse.
const notesFile = "NOTES.txt"

// rendering validates the values and renders the templates of a chart before Helm does, so that both are limited in time, and
// the size of what is rendered can be checked before Helm parses it. Helm requests the client configuration right before it renders; ToRESTConfig then renders and
// replaces the templates by the rendered text.
type rendering struct {
	*access.Identity
	in Installation
	// capabilities returns what Helm knows of the API server. A field with Helm's configuration would link all clients
	// that the configuration can create.
	capabilities func() *chartutil.Capabilities
	revision     int
	upgrade      bool
	bounds       *bounded.Renderings // nil for none
	// original is the chart with its original templates; nil before it was rendered.
	original *chart.Chart
}

// ToRESTConfig implements Helm's RESTClientGetter.
func (r *rendering) ToRESTConfig() (*rest.Config, error) {
	config, err := r.Identity.ToRESTConfig()
	if err != nil || r.original != nil {
		return config, err
	}
	return config, r.render(engine.New(config))
}

func (r *rendering) render(renderer engine.Engine) error {
	c := r.in.Chart
	if err := r.in.Finish.CheckDependencies(); err != nil {
		return err
	}
	helm, known := HelmOptions(r.in.Options), r.capabilities()
	renderer.EnableDNS = !helm.DisableDNS
	rendered, err := r.bounds.Render(r.in.Set, r.in.Options.ServiceAccount, r.in.Release, r.in.DeploymentID, func() (map[string]string, error) {
		values, err := chartutil.ToRenderValuesWithSchemaValidation(c, r.in.Values, chartutil.ReleaseOptions{
			Name: r.in.Release.Name, Namespace: r.in.Release.Namespace, Revision: r.revision, IsInstall: !r.upgrade, IsUpgrade: r.upgrade,
		}, known, true)
		if err != nil {
			return nil, err
		}
		if given, _ := values["Values"].(chartutil.Values); !helm.SkipSchemaValidation {
			if err := schema.Validate(c, given); err != nil {
				return nil, err
			}
		}
		return renderer.Render(c, values)
	})
	if err != nil {
		return err
	}
	for name, text := range rendered {
		if strings.HasSuffix(name, notesFile) {
			continue
		}
		for _, document := range releaseutil.SplitManifests(text) {
			if err := yamlbound.CheckManifest([]byte(document)); err != nil {
				return fmt.Errorf("YAML parse error in %s: %w", name, err)
			}
		}
	}
	original := *c
	r.original = &original
	replaceTemplates(c, rendered)
	return nil
}

// restore sets the original chart in a release before it is stored.
func (r *rendering) restore(made *release.Release) {
	if r.original != nil {
		made.Chart = r.original
	}
}

// replaceTemplates replaces templates by their rendered text, escaped so that it renders to itself.
func replaceTemplates(c *chart.Chart, rendered map[string]string) {
	templates := make([]*chart.File, 0, len(c.Templates))
	for _, t := range c.Templates {
		if text, found := rendered[path.Join(c.ChartFullPath(), t.Name)]; found {
			t = &chart.File{Name: t.Name, Data: []byte(strings.ReplaceAll(text, "{{", `{{"{{"}}`))}
		}
		templates = append(templates, t)
	}
	c.Templates = templates
	for _, inner := range c.Dependencies() {
		replaceTemplates(inner, rendered)
	}
}
