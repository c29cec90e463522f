// Command apidocs writes the reference of the API from the CRDs of a chart. It repeats no fields that have the same schema
// as earlier ones, and lists no fields of Kubernetes' own types.
//
//	go run -C dev/tools ./apidocs ../../charts/fleet-crd ../../docs/api.md
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const intro = `# API reference

Generated from the CRDs by ` + "`make generate`" + `. Group and version of all kinds are ` + "`fleet.cattle.io/v1alpha1`" + `. A field marked
*required* has to be set. ` + "`[]`" + ` stands for each item of a list, and ` + "`.*`" + ` for each value of a map.
`

// kubernetes maps names of fields to their types of Kubernetes' API, whose fields are not listed.
var kubernetes = map[string]string{
	"agentAffinity": "Affinity", "agentEnvVars": "EnvVar list", "agentResources": "ResourceRequirements", "agentTolerations": "Toleration list",
}

// A definition is the part of a CustomResourceDefinition that the page shows.
type definition struct{ Spec definitionSpec }

type definitionSpec struct {
	Names    struct{ Kind string }
	Versions []struct {
		Schema struct{ OpenAPIV3Schema schema }
	}
}

type schema struct {
	Type, Description           string
	Properties                  map[string]schema
	Required                    []string
	Items, AdditionalProperties *schema
}

func main() {
	text, err := reference(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(text), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// reference returns the page. Kinds that users write have the shortest names, and come first.
func reference(chart string) (string, error) {
	ours, err := read(filepath.Join(chart, "crd-bases"))
	others, otherErr := read(filepath.Join(chart, "crd-others"))
	if err := errors.Join(err, otherErr); err != nil {
		return "", err
	}
	p := page{seen: map[string]string{}}
	p.WriteString(intro)
	slices.SortStableFunc(ours, func(a, b definition) int { return cmp.Compare(len(a.Spec.Names.Kind), len(b.Spec.Names.Kind)) })
	for _, crd := range ours {
		p.kind(crd.Spec.Names.Kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	p.WriteString("\n## Kinds without effect\n\nTheir CRDs are installed and their objects are stored, but nothing acts on them:\n\n")
	for _, crd := range others {
		p.WriteString("* `" + crd.Spec.Names.Kind + "`\n")
	}
	return p.String(), nil
}

// read returns the CRDs of a folder, sorted by file name.
func read(folder string) (crds []definition, err error) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.yaml")) // fails only for an invalid pattern
	for _, file := range files {
		var crd definition
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, &crd)
		}
		if err != nil {
			return nil, fmt.Errorf("reading CRD %s: %w", file, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

type page struct {
	strings.Builder
	seen map[string]string // from schemas to the places where their fields are listed
}

func (p *page) kind(kind string, root schema) {
	fmt.Fprintf(p, "\n## %s\n\n%s\n\n| field | type | description |\n|---|---|---|\n", kind, oneLine(root.Description))
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(root.Properties, name)
	}
	p.fields(kind, "", root)
}

// field writes the row of a field, and the rows of its fields.
func (p *page) field(kind, path string, s schema, required bool) {
	typeName, inner, suffix := typeOf(path, s)
	description := map[bool]string{true: "*required* "}[required] + oneLine(s.Description)
	key, _ := json.Marshal(inner.Properties)
	place, listed := p.seen[string(key)]
	if listed {
		description, inner.Properties = description+" Fields: see "+place+".", nil
	} else if len(inner.Properties) > 1 {
		p.seen[string(key)] = "`" + path + "` of [" + kind + "](#" + strings.ToLower(kind) + ")"
	}
	fmt.Fprintf(p, "| `%s` | %s | %s |\n", path, typeName, strings.TrimSpace(description))
	p.fields(kind, path+suffix+".", inner)
}

func (p *page) fields(kind, prefix string, of schema) {
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		p.field(kind, prefix+name, of.Properties[name], slices.Contains(of.Required, name))
	}
}

// typeOf returns the type of a field, the schema whose fields follow, and what stands between the paths of both.
func typeOf(path string, s schema) (name string, inner schema, suffix string) {
	if own, known := kubernetes[path[strings.LastIndex(path, ".")+1:]]; known {
		return own, inner, ""
	} else if _, isSelector := s.Properties["matchLabels"]; isSelector {
		return "LabelSelector", inner, ""
	} else if s.Items != nil {
		name, inner, suffix = typeOf("[]", *s.Items)
		return name + " list", inner, "[]" + suffix
	} else if s.AdditionalProperties != nil {
		name, inner, suffix = typeOf(".*", *s.AdditionalProperties)
		return "map of " + name, inner, ".*" + suffix
	}
	return cmp.Or(s.Type, "integer or string"), s, ""
}

// oneLine returns a description as a cell of a table.
func oneLine(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(text), " "))
}
