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

// Limits and markers of templating.
const (
	// clusterLabelPrefix at the beginning of a value marks it as a reference to the label whose key follows.
	clusterLabelPrefix = "global.fleet.clusterLabels."
	// actionBegins and actionEnds enclose the actions of a template.
	actionBegins, actionEnds = "${", "}"
	// maxValuesDepth limits how deep values may be nested.
	maxValuesDepth = 50
	// maxRendered limits the bytes that the templates of one cluster may write together. It is far more than fits into
	// the Secret for the values, which holds 1 MiB.
	maxRendered = 4 << 20
	// maxLevels limits how deep objects and lists may be nested in values that may contain templates. In YAML, each
	// level adds to the indentation of every line.
	maxLevels = 200
	// maxKept limits the bytes of values that are cached as YAML or as parsed templates.
	maxKept = 8 << 20
	// costSize estimates the bytes for one cached cost.
	costSize = 128
)

var (
	// ErrValuesTooDeep means that values are nested more than 50 levels deep.
	ErrValuesTooDeep = errors.New("values are nested too deep")
	// ErrRenderedTooLarge means that a template writes more than values may hold.
	ErrRenderedTooLarge = errors.New("the template's output is too large")
)

// Templater inserts cluster data into options. It is created once for many clusters, which mostly share their
// templates. It is not safe for concurrent use.
type Templater struct {
	work *work
	// functions are created when the first template is parsed, because that takes time.
	functions template.FuncMap
	parsed    map[string]*template.Template
	// texts caches values as YAML, by their JSON.
	texts map[string]string
	// costs caches the budget that each text needs, by the hash of the text. Most clusters share their texts. The hash
	// has a random seed, so that texts with equal hashes cannot be constructed.
	costs map[uint64]cost
	seed  maphash.Seed
	// kept is the number of bytes that parsed, texts and costs use.
	kept int
	// budget is the remaining budget for the YAML of one cluster. room is the number of bytes that its templates may
	// still write.
	budget yamlbound.Budget
	room   int
}

// cost is the budget needed to parse a text as YAML. If err is set, the text must not be parsed.
type cost struct {
	of  yamlbound.Budget
	err error
}

// NewTemplater returns a Templater that is ready for use.
func NewTemplater() *Templater {
	return &Templater{
		work: &work{}, parsed: map[string]*template.Template{}, texts: map[string]string{},
		costs: map[uint64]cost{}, seed: maphash.MakeSeed(),
	}
}

// Template replaces the templates in merged options with data of a cluster: its labels, annotations, names and
// template values. A cluster without labels is skipped, which its deployment IDs depend on. Template changes options,
// which must not be shared. Its errors do not name the cluster.
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

// render renders the values, then each of the template values, and puts the results of the latter over the former.
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

// text returns values as YAML. The result is cached, because encoding takes time and most clusters share the values.
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

// keep counts cached bytes, and clears the caches when they exceed the limit.
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

// indentation adds up the indentation that values will have in YAML.
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

// cost returns the budget that is needed to parse a text as YAML, or an error if that is too much.
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

// renderYAML runs a template and parses its output as YAML. Integers keep all their digits.
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

// run returns the output of a template. A text without actions is returned unchanged.
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

// limited collects a template's output up to the remaining room.
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

// templateData returns the data that templates can refer to.
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

// anyMap converts a map to the type that template functions for maps accept.
func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for key, value := range in {
		out[key] = value
	}
	return out
}

// Visible returns the entries that belong to users.
func Visible(in map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range in {
		if !strings.HasPrefix(key, "kubectl.kubernetes.io/") && !strings.Contains(key, "cattle.io/") {
			out[key] = value
		}
	}
	return out
}

// visibleLabels returns the users' labels, and the labels with which Fleet and the cluster's manager describe a
// cluster.
func visibleLabels(in map[string]string) map[string]string {
	out := Visible(in)
	for key, value := range in {
		if strings.HasPrefix(key, "fleet.cattle.io/") || strings.HasPrefix(key, "management.cattle.io/") {
			out[key] = value
		}
	}
	return out
}

// substituteLabels replaces strings that refer to a label, in objects and in objects within lists. A reference to a
// missing label becomes an empty string.
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
