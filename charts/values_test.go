package charts_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/agentchart"
)

// value is a row of a table in docs/values.md: a value of a chart, by its path, and what it does here.
type value struct {
	// def is what the table says it is by default; "unset" is nothing.
	path, def string
	// what is the first word of the last column: same, differs, stored, ignored or ours.
	what string
}

// documented returns the rows of docs/values.md about a chart, by path.
func documented(t *testing.T, chart string) map[string]value {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "values.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## "+chart+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile("^\\| (`.*`) \\| (.*) \\| ([a-z]+)(.*) \\|$")
	found := map[string]value{}
	for line := range strings.Lines(section) {
		cells := row.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil {
			continue
		}
		for path := range strings.SplitSeq(cells[1], ", ") {
			path = strings.Trim(path, "`")
			if _, twice := found[path]; twice {
				t.Errorf("%s is in the tables twice", path)
			}
			if cells[3] == "ignored" && !strings.HasPrefix(cells[4], " because ") {
				t.Errorf("%s is ignored, and the table does not say why", path)
			}
			found[path] = value{path: path, def: strings.Trim(cells[2], "`"), what: cells[3]}
		}
	}
	return found
}

// schemaOf returns the schema of a chart.
func schemaOf(t *testing.T, chart string) map[string]any {
	t.Helper()
	loaded, err := agentchart.Load(charts.FS, chart)
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{}
	if err := yaml.Unmarshal(loaded.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// leaves returns the paths of all values in a schema that have no values below them.
func leaves(root map[string]any) []string {
	var found []string
	var walk func(path string, schema map[string]any)
	walk = func(path string, schema map[string]any) {
		if ref, ok := schema["$ref"].(string); ok {
			schema = root["definitions"].(map[string]any)[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
		}
		properties, ok := schema["properties"].(map[string]any)
		if !ok {
			found = append(found, path)
			return
		}
		for name, property := range properties {
			walk(strings.TrimPrefix(path+"."+name, "."), property.(map[string]any))
		}
	}
	walk("", root)
	slices.Sort(found)
	return found
}

// isOf reports whether a value is that of the row, or a part of it.
func isOf(leaf, row string) bool { return leaf == row || strings.HasPrefix(leaf, row+".") }

// TestValuesPage_ListsTheSchemaValues compares docs/values.md with the schemas of the charts, in both directions.
func TestValuesPage_ListsTheSchemaValues(t *testing.T) {
	for _, chart := range []string{"fleet", "fleet-agent"} {
		t.Run(chart, func(t *testing.T) {
			rows := documented(t, chart)
			known := leaves(schemaOf(t, chart))
			if len(rows) < 30 || len(known) < 30 {
				t.Fatalf("only %d rows and %d values", len(rows), len(known))
			}
			for _, leaf := range known {
				var of []string
				for row := range rows {
					if isOf(leaf, row) {
						of = append(of, row)
					}
				}
				if len(of) != 1 {
					t.Errorf("%s is in the rows %q, want one", leaf, of)
				}
			}
			for row, is := range rows {
				if !slices.ContainsFunc(known, func(leaf string) bool { return isOf(leaf, row) }) {
					t.Errorf("%s is in the tables, and the chart refuses it", row)
				}
				if !slices.Contains([]string{"same", "differs", "stored", "ignored", "ours"}, is.what) {
					t.Errorf("%s: the tables do not explain %q", row, is.what)
				}
			}
		})
	}
}

// TestValuesPage_StatesTheDefaults compares docs/values.md with values.yaml.
func TestValuesPage_StatesTheDefaults(t *testing.T) {
	for _, chart := range []string{"fleet", "fleet-agent"} {
		t.Run(chart, func(t *testing.T) {
			text, err := fs.ReadFile(charts.FS, chart+"/values.yaml")
			if err != nil {
				t.Fatal(err)
			}
			defaults := parse[map[string]any](t, string(text))
			for path, row := range documented(t, chart) {
				actual, there := at(defaults, path)
				if row.def == "unset" {
					if there {
						t.Errorf("%s: by default it is %v, and the tables say unset", path, actual)
					}
					continue
				}
				var said any
				if err := yaml.Unmarshal([]byte(row.def), &said); err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if text, ok := actual.(string); ok {
					said = strings.Trim(row.def, `"`)
					actual = text
				}
				if !there || !reflect.DeepEqual(said, actual) {
					t.Errorf("%s: by default it is %v, and the tables say %v", path, actual, said)
				}
			}
		})
	}
}

// TestValuesFile_ExplainsEveryValue looks in values.yaml for each value of docs/values.md: its key, its path, or a star for
// all values of a parent. Values below resources are explained together.
func TestValuesFile_ExplainsEveryValue(t *testing.T) {
	for _, chart := range []string{"fleet", "fleet-agent"} {
		file, err := fs.ReadFile(charts.FS, chart+"/values.yaml")
		if err != nil {
			t.Fatal(err)
		}
		text := string(file)
		for path := range documented(t, chart) {
			steps := strings.Split(path, ".")
			said := strings.Contains(text, steps[len(steps)-1]+":") || strings.Contains(text, path) || steps[0] == "resources"
			for i := range steps {
				said = said || strings.Contains(text, strings.Join(steps[:i], ".")+".*")
			}
			if !said {
				t.Errorf("%s/values.yaml does not explain %q", chart, path)
			}
		}
	}
}

// everyValue returns the values file with every value of a chart.
func everyValue(t *testing.T, chart string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "values", chart+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return parse[map[string]any](t, string(text))
}

func TestValuesTestdata_ContainsEveryValue(t *testing.T) {
	for _, chart := range []string{"fleet", "fleet-agent"} {
		every := everyValue(t, chart)
		for path := range documented(t, chart) {
			if _, there := at(every, path); !there {
				t.Errorf("testdata/values/%s.yaml lacks %s", chart, path)
			}
		}
	}
}

// TestEachValue_HasTheDocumentedEffect sets each value alone, and removes each from a file that has all values. If
// docs/values.md says that the value is ignored, neither changes the rendered files; otherwise one of them does.
func TestEachValue_HasTheDocumentedEffect(t *testing.T) {
	bases := map[string]release{"fleet": controllers(""), "fleet-agent": agent("")}
	for chart, base := range bases {
		every, defaults := everyValue(t, chart), parse[map[string]any](t, base.values)
		all, none := rendered(t, base, every), rendered(t, base, defaults)
		for path, row := range documented(t, chart) {
			if strings.HasPrefix(path, "internal.") {
				continue // these depend on the release, or are set by the controllers only
			}
			t.Run(chart+" "+path, func(t *testing.T) {
				given, _ := at(every, path)
				alone := changed(none, rendered(t, base, put(defaults, path, given)))
				without := changed(all, rendered(t, base, put(every, path, nil)))
				got := slices.Sorted(maps.Keys(merge(alone, without)))
				switch {
				case none["error"] != "" || all["error"] != "":
					t.Fatal(none["error"], all["error"])
				case row.what == "ignored" && len(got) > 0:
					t.Errorf("it is ignored, and changed %v", got)
				case row.what == "stored" && !slices.Equal(got, []string{"configmap.yaml"}):
					t.Errorf("it is only stored, and changed %v", got)
				case row.what != "ignored" && len(got) == 0:
					t.Error("it changed nothing")
				}
			})
		}
	}
}

// rendered returns the files of a chart with these values, without the notes. After an error it returns only the file
// "error".
func rendered(t *testing.T, base release, values map[string]any) map[string]string {
	t.Helper()
	base.values = marshal(t, values)
	files, err := render(t, base)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	delete(files, "NOTES.txt")
	return files
}

// changed returns the files that differ.
func changed(before, after map[string]string) map[string]bool {
	found := map[string]bool{}
	for name := range merge(before, after) {
		if before[name] != after[name] {
			found[name] = true
		}
	}
	return found
}

func merge[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// at returns the value at a path, and whether it exists.
func at(values map[string]any, path string) (any, bool) {
	var node any = values
	for step := range strings.SplitSeq(path, ".") {
		inner, ok := node.(map[string]any)
		if !ok {
			return nil, false
		}
		if node, ok = inner[step]; !ok {
			return nil, false
		}
	}
	return node, true
}

// put returns a copy of values with another value at a path; nil removes it.
func put(values map[string]any, path string, given any) map[string]any {
	step, rest, deeper := strings.Cut(path, ".")
	all := maps.Clone(values)
	if all == nil {
		all = map[string]any{}
	}
	switch {
	case deeper:
		inner, _ := all[step].(map[string]any) // nil makes a new one
		all[step] = put(inner, rest, given)
	case given == nil:
		delete(all, step)
	default:
		all[step] = given
	}
	return all
}

func TestPut(t *testing.T) {
	tests := map[string]struct {
		path  string
		given any
		want  map[string]any
	}{
		"another value":    {"a.b", 2, map[string]any{"a": map[string]any{"b": 2}}},
		"one beside":       {"a.c", 2, map[string]any{"a": map[string]any{"b": 1, "c": 2}}},
		"one further down": {"d.e", 2, map[string]any{"a": map[string]any{"b": 1}, "d": map[string]any{"e": 2}}},
		"none":             {"a.b", nil, map[string]any{"a": map[string]any{}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := map[string]any{"a": map[string]any{"b": 1}}
			if diff := cmp.Diff(test.want, put(before, test.path, test.given)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]any{"a": map[string]any{"b": 1}}, before); diff != "" {
				t.Errorf("the original changed:\n%s", diff)
			}
		})
	}
}
