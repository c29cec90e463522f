package deploy

import (
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// notesFile is the template whose text is for people: Helm does not parse it.
const notesFile = "NOTES.txt"

// rendering renders the templates of a chart in Helm's place, and measures what they give before Helm parses it. Helm asks
// for the configuration of a client right before it renders. What it then finds in the chart is the text that was rendered.
type rendering struct {
	*identity
	in       installation
	config   *action.Configuration
	revision int
	upgrade  bool
	// original is the chart with its templates as they are, once they were rendered.
	original *chart.Chart
}

// ToRESTConfig implements Helm's RESTClientGetter.
func (r *rendering) ToRESTConfig() (*rest.Config, error) {
	config, err := r.identity.ToRESTConfig()
	if err != nil || r.original != nil {
		return config, err
	}
	return config, r.render(config)
}

func (r *rendering) render(config *rest.Config) error {
	c := r.in.Package.Chart
	values, err := chartutil.ToRenderValuesWithSchemaValidation(c, r.in.Values, chartutil.ReleaseOptions{
		Name: r.in.Release.Name, Namespace: r.in.Release.Namespace, Revision: r.revision, IsInstall: !r.upgrade, IsUpgrade: r.upgrade,
	}, r.config.Capabilities, true)
	if err != nil {
		return err
	}
	renderer := engine.New(config)
	renderer.EnableDNS = !helmOptions(r.in.Options).DisableDNS
	rendered, err := renderer.Render(c, values)
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

// restore gives a release its chart back, for the history.
func (r *rendering) restore(made *release.Release) {
	if r.original != nil {
		made.Chart = r.original
	}
}

// replaceTemplates puts what was rendered in the place of the templates, so that it is rendered to itself.
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
