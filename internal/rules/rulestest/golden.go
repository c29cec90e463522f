package rulestest

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// goldenTable is a file in testdata with one section for each row of a table. The row's name is the heading.
type goldenTable struct {
	path     string
	sections map[string]string
	told     map[string]bool
}

const sectionHead = "# "

// GoldenOf reads the file. At the end of the test, sections without a row are an error, or are removed by -update.
func GoldenOf(t *testing.T, name string) *goldenTable {
	t.Helper()
	g := &goldenTable{path: filepath.Join("testdata", name+".golden"), sections: map[string]string{}, told: map[string]bool{}}
	content, err := os.ReadFile(g.path)
	if err != nil && (!golden.Updating() || !os.IsNotExist(err)) {
		t.Fatal(err)
	}
	for _, section := range strings.Split("\n"+string(content), "\n"+sectionHead)[1:] {
		head, body, _ := strings.Cut(section, "\n")
		g.sections[head] = strings.TrimSuffix(body, "\n") + "\n"
	}
	t.Cleanup(func() { g.finish(t) })
	return g
}

// Expect compares the text of a row with its section.
func (g *goldenTable) Expect(t *testing.T, sentence, got string) {
	t.Helper()
	g.told[sentence] = true
	if golden.Updating() {
		g.sections[sentence] = got
		return
	}
	if diff := cmp.Diff(g.sections[sentence], got); diff != "" {
		t.Errorf("%s, %q (-want +got; -update rewrites it):\n%s", g.path, sentence, diff)
	}
}

func (g *goldenTable) finish(t *testing.T) {
	if t.Failed() || flag.Lookup("test.run").Value.String() != "" {
		return // not all rows have run
	}
	var content strings.Builder
	for _, sentence := range slices.Sorted(maps.Keys(g.sections)) {
		switch {
		case g.told[sentence]:
			fmt.Fprintf(&content, "%s%s\n%s\n", sectionHead, sentence, g.sections[sentence])
		case !golden.Updating():
			t.Errorf("%s: section %q has no row (-update removes it)", g.path, sentence)
		}
	}
	if !golden.Updating() {
		return
	}
	if err := os.WriteFile(g.path, []byte(strings.TrimSuffix(content.String(), "\n")), 0o600); err != nil {
		t.Error(err)
	}
}

// YAML returns a value as readable YAML: without empty fields, with bytes as text, with durations as Go writes them,
// and with one line for each object. The objects themselves are compared completely in one other place.
func YAML(t *testing.T, value any) string { return inYAML(t, value, true) }

// FullYAML is like YAML, with complete objects.
func FullYAML(t *testing.T, value any) string { return inYAML(t, value, false) }

func inYAML(t *testing.T, value any, brief bool) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(encoded, &plain); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(forPeople("", plain, brief))
	if err != nil {
		t.Fatal(err)
	}
	return bearer.ReplaceAllStringFunc(string(text), func(token string) string {
		parsed, err := protocol.ParseAccountToken(token)
		if err != nil {
			return token
		}
		return "<token of " + parsed.AccountUID + ">"
	})
}

var bearer = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

func forPeople(key string, value any, brief bool) any {
	switch v := value.(type) {
	case map[string]any:
		if brief && v["kind"] != nil && v["metadata"] != nil {
			return objectLine(v)
		}
		entries := map[string]any{}
		for name, entry := range v {
			if entry = forPeople(childKey(key, name), entry, brief); !isEmpty(entry) {
				entries[name] = entry
			}
		}
		return entries
	case []any:
		entries := []any{}
		for _, entry := range v {
			entries = append(entries, forPeople(key, entry, brief))
		}
		return entries
	}
	return scalar(key, value)
}

// scalar decodes bytes, and writes durations with their unit.
func scalar(key string, value any) any {
	switch v := value.(type) {
	case string:
		if key == "APIServerCA" || key == "Kubeconfig" || key == secretData {
			return strings.ReplaceAll(decoded(v), HubCA, RedactedPEM)
		}
	case float64:
		if key == "Lifetime" {
			return time.Duration(v).String()
		}
	}
	return value
}

// secretData is the key of a Secret's data, in which all values are bytes.
const secretData = "data"

func childKey(parent, name string) string {
	if parent == secretData {
		return secretData
	}
	return name
}

// objectLine returns an object without its content.
func objectLine(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	line := fmt.Sprint(object["kind"], " ")
	if meta["namespace"] != nil {
		line += fmt.Sprint(meta["namespace"], "/")
	}
	line += fmt.Sprint(meta["name"])
	if object["type"] != nil {
		line += fmt.Sprint(" of type ", object["type"])
	}
	return line
}

func decoded(text string) string {
	if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
		return string(plain)
	}
	return text
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0001-01-01T00:00:00Z"
	case bool:
		return !v
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// Lines returns one line for each object.
func Lines(t *testing.T, objects []runtime.Object) []string {
	t.Helper()
	var told []string
	for _, object := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, objectLine(fields))
	}
	return told
}
