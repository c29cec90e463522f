package templating

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"text/template"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Limits and marks of templating.
const (
	// clusterLabelPrefix, at the beginning of a value, stands for the label named after it.
	clusterLabelPrefix = "global.fleet.clusterLabels."
	// actionBegins and actionEnds are around what a template does.
	actionBegins, actionEnds = "${", "}"
	// maxValuesDepth is how deep values may be nested.
	maxValuesDepth = 50
	// maxRendered is how many bytes the templates of one cluster may write together: far more than fits into
	// the Secret the values end up in, which holds 1 MiB.
	maxRendered = 4 << 20
	// maxLevels is how deep objects and lists may be nested in values that templates may be in. In YAML, each line
	// is indented that deep.
	maxLevels = 200
	// maxKept is how many bytes of values are remembered as YAML, or parsed.
	maxKept = 8 << 20
	// costSize is about how many bytes it takes to remember what a text costs.
	costSize = 128
)

var (
	// ErrValuesTooDeep means that values are nested more than 50 levels deep.
	ErrValuesTooDeep = errors.New("values are nested too deep")
	// ErrRenderedTooLarge means that a template writes more than values may hold.
	ErrRenderedTooLarge = errors.New("the template's output is too large")
)

// Templater fills in what options take from a cluster. It is made once for many
// clusters, which mostly have the same templates, and is not safe for concurrent use.
type Templater struct {
	work *work
	// functions are made for the first template there is, which takes a while.
	functions template.FuncMap
	parsed    map[string]*template.Template
	// texts are values as YAML, by what they are as JSON.
	texts map[string]string
	// costs are what texts cost of the budget, which is the same for most clusters, by the hashes of the
	// texts: with a seed, so that texts cannot be chosen to have the same.
	costs map[uint64]cost
	seed  maphash.Seed
	// kept is how many bytes the templates in parsed, the texts and the costs take.
	kept int
	// budget is what is left for the YAML of one cluster, and room how many bytes its templates may still write.
	budget yamlbound.Budget
	room   int
}

// cost is what reading a text as YAML costs. With an error it must not be read.
type cost struct {
	of  yamlbound.Budget
	err error
}

// NewTemplater is ready for use.
func NewTemplater() *Templater {
	return &Templater{
		work: &work{}, parsed: map[string]*template.Template{}, texts: map[string]string{},
		costs: map[uint64]cost{}, seed: maphash.MakeSeed(),
	}
}

// Template fills in what the values of merged options take from one cluster: its
// labels, annotations, names and template values. A cluster
// without labels is left out, as its deployment IDs demand. It changes options,
// which must not be shared. What an error says does not name the cluster.
func (t *Templater) Template(options *fleet.BundleDeploymentOptions, cluster *fleet.Cluster) error {
	labels := visibleLabels(cluster.Labels)
	if len(labels) == 0 {
		return nil
	}
	if options.Helm == nil {
		options.Helm = &fleet.HelmOptions{}
		return nil
	}
	helm := options.Helm
	if helm.Values == nil || helm.Values.Data == nil {
		helm.Values = &fleet.GenericMap{Data: map[string]any{}}
	}
	if helm.TemplateValues == nil && len(helm.Values.Data) == 0 {
		return nil
	}
	if err := checkLevels(helm.Values.Data, 0); err != nil {
		return err
	}
	if err := substituteLabels(helm.Values.Data, labels, 0); err != nil {
		return err
	}
	if helm.DisablePreProcess {
		return nil
	}
	t.work.left, t.budget, t.room = maxWork, yamlbound.ForValues(), maxRendered
	return t.render(helm, templateData(cluster, labels))
}

// render runs the values, then each of the template values, and puts the results
// of the latter over the former.
func (t *Templater) render(helm *fleet.HelmOptions, data map[string]any) error {
	text, err := t.text(helm.Values.Data)
	if err != nil {
		return fmt.Errorf("helm.values: %w", err)
	}
	rendered, err := t.renderYAML("values", text, data)
	if err != nil {
		return fmt.Errorf("helm.values: %w", err)
	}
	values, ok := rendered.(map[string]any)
	if !ok && rendered != nil {
		return fmt.Errorf("helm.values: the template gives a %T instead of an object", rendered)
	}
	if values == nil {
		values = map[string]any{}
	}
	for _, key := range slices.Sorted(maps.Keys(helm.TemplateValues)) {
		value, err := t.renderYAML(key, helm.TemplateValues[key], data)
		if err != nil {
			return fmt.Errorf("helm.templateValues.%s: %w", key, err)
		}
		values[key] = value
	}
	helm.Values.Data = values
	return nil
}

// text is how values are written as YAML, which takes a while and is the same for most clusters.
func (t *Templater) text(values map[string]any) (string, error) {
	asJSON, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	if text, done := t.texts[string(asJSON)]; done {
		return text, nil
	}
	budget := yamlbound.ForValues()
	if err := budget.Spend(asJSON); err != nil {
		return "", err
	}
	if err := indentation(values, 0, new(int)); err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(asJSON)
	if err != nil {
		return "", err
	}
	t.keep(len(asJSON) + len(text))
	t.texts[string(asJSON)] = string(text)
	return string(text), nil
}

// keep makes room for what is remembered.
func (t *Templater) keep(length int) {
	if t.kept += length; t.kept > maxKept {
		clear(t.texts)
		clear(t.parsed)
		clear(t.costs)
		t.kept = length
	}
}

// checkLevels returns ErrValuesTooDeep if objects or lists are nested more than maxLevels deep.
func checkLevels(value any, depth int) error {
	if depth > maxLevels {
		return ErrValuesTooDeep
	}
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			if err := checkLevels(inner, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range value {
			if err := checkLevels(inner, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// indentation adds up how far the lines of values will be indented in YAML.
func indentation(value any, depth int, sum *int) error {
	if *sum += 2 * depth; *sum > maxRendered {
		return ErrRenderedTooLarge
	}
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			if err := indentation(inner, depth+1, sum); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range value {
			if err := indentation(inner, depth+1, sum); err != nil {
				return err
			}
		}
	}
	return nil
}

// cost is what a text costs that is read as YAML; an error means that it costs too much.
func (t *Templater) cost(text string) (yamlbound.Budget, error) {
	key := maphash.String(t.seed, text)
	known, found := t.costs[key]
	if !found {
		budget := yamlbound.ForValues()
		known.of, known.err = budget.Cost([]byte(text))
		t.keep(costSize + len(fmt.Sprint(known.err))) // an error may quote the text
		t.costs[key] = known
	}
	return known.of, known.err
}

// renderYAML runs a template and reads what it writes as YAML. Whole numbers keep
// all their digits.
func (t *Templater) renderYAML(name, text string, data map[string]any) (any, error) {
	written, err := t.run(name, text, data)
	if err != nil {
		return nil, err
	}
	cost, err := t.cost(written)
	if err != nil {
		return nil, err
	}
	if err := t.budget.Take(cost); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSON([]byte(written))
	if err != nil {
		return nil, err
	}
	var value any
	if err := utiljson.Unmarshal(asJSON, &value); err != nil {
		return nil, err
	}
	return value, nil
}

// run returns what a template writes; a text that is no template stays as it is.
func (t *Templater) run(name, text string, data map[string]any) (string, error) {
	if !strings.Contains(text, actionBegins) {
		if t.room -= len(text); t.room < 0 {
			return "", ErrRenderedTooLarge
		}
		return text, nil
	}
	parsed, err := t.parse(name, text)
	if err != nil {
		return "", err
	}
	out := limited{room: &t.room}
	if err := parsed.Execute(&out, data); err != nil {
		return "", err
	}
	return out.String(), nil
}

func (t *Templater) parse(name, text string) (*template.Template, error) {
	key := name + "\x00" + text
	if parsed, done := t.parsed[key]; done {
		return parsed, nil
	}
	if strings.Count(text, actionBegins) > maxActions {
		return nil, fmt.Errorf("%w: the template has more than %d actions", ErrTooMuchWork, maxActions)
	}
	if t.functions == nil {
		t.functions = functions(t.work)
	}
	parsed, err := template.New(name).Delims(actionBegins, actionEnds).Option("missingkey=error").Funcs(t.functions).Parse(text)
	if err != nil {
		return nil, err
	}
	if err := countTurns(parsed, t.functions); err != nil {
		return nil, err
	}
	t.keep(len(key))
	t.parsed[key] = parsed
	return parsed, nil
}

// limited collects a template's output while there is room.
type limited struct {
	strings.Builder
	room *int
}

func (l *limited) Write(p []byte) (int, error) {
	if *l.room -= len(p); *l.room < 0 {
		return 0, ErrRenderedTooLarge
	}
	return l.Builder.Write(p)
}

// templateData is what templates can refer to.
func templateData(cluster *fleet.Cluster, labels map[string]string) map[string]any {
	values := map[string]any{}
	if cluster.Spec.TemplateValues != nil && cluster.Spec.TemplateValues.Data != nil {
		values = cluster.Spec.TemplateValues.DeepCopy().Data
	}
	return map[string]any{
		"ClusterNamespace":   cluster.Namespace,
		"ClusterName":        cluster.Name,
		"ClusterLabels":      anyMap(labels),
		"ClusterAnnotations": anyMap(Visible(cluster.Annotations)),
		"ClusterValues":      values,
	}
}

// anyMap is the kind of map that the templates' functions for maps take.
func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for key, value := range in {
		out[key] = value
	}
	return out
}

// Visible are the entries that belong to users.
func Visible(in map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range in {
		if !strings.HasPrefix(key, "kubectl.kubernetes.io/") && !strings.Contains(key, "cattle.io/") {
			out[key] = value
		}
	}
	return out
}

// visibleLabels are the users' labels and those by which Fleet and the cluster's
// manager describe a cluster.
func visibleLabels(in map[string]string) map[string]string {
	out := Visible(in)
	for key, value := range in {
		if strings.HasPrefix(key, "fleet.cattle.io/") || strings.HasPrefix(key, "management.cattle.io/") {
			out[key] = value
		}
	}
	return out
}

// substituteLabels replaces strings that stand for a label, in objects and in
// objects within lists. A label that is missing gives an empty string.
func substituteLabels(values map[string]any, labels map[string]string, depth int) error {
	if depth > maxValuesDepth {
		return ErrValuesTooDeep
	}
	for key, value := range values {
		switch value := value.(type) {
		case string:
			if label, found := strings.CutPrefix(value, clusterLabelPrefix); found {
				values[key] = labels[label]
			}
		case map[string]any:
			if err := substituteLabels(value, labels, depth+1); err != nil {
				return err
			}
		case []any:
			for _, element := range value {
				if object, isObject := element.(map[string]any); isObject {
					if err := substituteLabels(object, labels, depth+1); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
