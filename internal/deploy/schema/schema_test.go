package schema

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

func chartOf(name, schema string, inner ...*chart.Chart) *chart.Chart {
	c := &chart.Chart{Metadata: &chart.Metadata{Name: name}}
	if schema != "" {
		c.Schema = []byte(schema)
	}
	c.SetDependencies(inner...)
	return c
}

// Charts that helm install accepts are accepted, and the messages are the same.
func TestSchema_IsEvaluatedAsByHelm(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/port.json" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"$defs": {"port": {"type": "integer", "maximum": 65535}}}`))
	}))
	defer server.Close()
	const start = "values don't meet the specifications of the schema(s) in the following chart(s):\n"
	port := `{"properties": {"port": {"$ref": "` + server.URL + `/port.json#/$defs/port"}}}`
	for name, test := range map[string]struct {
		chart  *chart.Chart
		values map[string]any
		valid  bool
	}{
		"no schema":              {chartOf("web", ""), map[string]any{"a": 1}, true},
		"fits":                   {chartOf("web", `{"required": ["a"]}`), map[string]any{"a": 1}, true},
		"does not fit":           {chartOf("web", `{"required": ["a"]}`), map[string]any{}, false},
		"not JSON":               {chartOf("web", `{`), map[string]any{}, false},
		"not a schema":           {chartOf("web", `{"type": 1}`), map[string]any{}, false},
		"parts of its own":       {chartOf("web", `{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}`), map[string]any{"a": 1}, false},
		"another draft":          {chartOf("web", `{"$schema": "http://json-schema.org/draft-07/schema#", "required": ["a"]}`), map[string]any{}, false},
		"a URL, and it fits":     {chartOf("web", port), map[string]any{"port": 80}, true},
		"a URL":                  {chartOf("web", port), map[string]any{"port": 80_000}, false},
		"a URL that is missing":  {chartOf("web", `{"$ref": "`+server.URL+`/gone.json"}`), map[string]any{}, false},
		"a URN":                  {chartOf("web", `{"$ref": "urn:example:x"}`), map[string]any{"a": 1}, true},
		"another scheme":         {chartOf("web", `{"$ref": "ftp://h/x"}`), map[string]any{}, false},
		"of a dependency":        {chartOf("web", "", chartOf("db", `{"required": ["a"]}`)), map[string]any{"db": map[string]any{}}, false},
		"dependency is no table": {chartOf("web", "", chartOf("db", "")), map[string]any{"db": "x"}, false},
		"dependency is not set":  {chartOf("web", "", chartOf("db", `{"required": ["a"]}`)), map[string]any{"db": nil}, true},
		"of both":                {chartOf("web", `{"required": ["b"]}`, chartOf("db", `{"required": ["a"]}`)), map[string]any{"db": map[string]any{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err, want := Validate(test.chart, test.values), chartutil.ValidateAgainstSchema(test.chart, test.values)
			if (err == nil) != test.valid || err != nil && err.Error() != start+want.Error() {
				t.Errorf("error:\n%v\nwant:\n%v", err, want)
			}
		})
	}
}

func TestSchemaThatNamesAFileOfTheAgent_IsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(`{"const": "confidential"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"$ref": "file://` + path + `"}`))
	}))
	defer server.Close()
	for name, schema := range map[string]string{
		"a reference":                 `{"$ref": "file://` + path + `"}`,
		"relative to an ID":           `{"$id": "file://` + filepath.Dir(path) + `/x", "$ref": "token"}`,
		"from a downloaded schema":    `{"$ref": "` + server.URL + `"}`,
		"as a meta-schema":            `{"$schema": "file://` + path + `"}`,
		"relative to the schema file": `{"$ref": ".` + path + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(chartOf("web", schema), map[string]any{})
			if err == nil || strings.Contains(err.Error(), "confidential") || !strings.Contains(err.Error(), "use an http or https URL, or copy its content into the schema") {
				t.Error(err)
			}
		})
	}
}

func TestDownloadedSchema_IsLimited(t *testing.T) {
	stopped := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write([]byte(`{"title": "` + strings.Repeat("x", maxBytes) + `"}`))
		case "/half":
			_, _ = w.Write([]byte(`{"title": "` + strings.Repeat("x", maxBytes/2) + `"}`))
		case "/silent":
			<-stopped
		}
	}))
	defer server.Close()
	defer close(stopped)
	for name, test := range map[string]struct{ schema, want string }{
		"a large one":   {`{"$ref": "` + server.URL + `/large"}`, "more than 5 MiB"},
		"several":       {`{"allOf": [{"$ref": "` + server.URL + `/half?1"}, {"$ref": "` + server.URL + `/half?2"}]}`, "more than 5 MiB"},
		"no response":   {`{"$ref": "` + server.URL + `/silent"}`, "context deadline exceeded"},
		"a smaller one": {`{"$ref": "` + server.URL + `/half"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if test.want == "context deadline exceeded" {
				limit = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := validate(ctx, chartOf("web", test.schema), map[string]any{})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
