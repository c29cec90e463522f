// Package schema validates the values of charts. It is Helm's validation, but a schema cannot read files of the agent, and what it
// downloads is limited.
package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
)

const (
	// limit is the time for the downloads of a chart.
	limit = time.Minute
	// maxBytes limits the bytes of the downloads of a chart, and maxHeader those of the headers of a response.
	maxBytes  = 5 << 20
	maxHeader = 64 << 10
	// address is the URL of the schema of a chart, as in Helm.
	address = "file:///values.schema.json"
)

// Validate returns an error if values do not fit the schema of a chart, or of a chart that it depends on.
func Validate(c *chart.Chart, values map[string]any) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return validate(ctx, c, values)
}

func validate(ctx context.Context, c *chart.Chart, values map[string]any) error {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: maxHeader}
	defer transport.CloseIdleConnections()
	web := &web{ctx: ctx, client: &http.Client{Transport: transport}, left: maxBytes}
	problems := check(c, values, jsonschema.SchemeURLLoader{"file": refused{}, "http": web, "https": web, "urn": permissive{}})
	if problems == "" {
		return nil
	}
	return errors.New("values don't meet the specifications of the schema(s) in the following chart(s):\n" + problems)
}

// check returns the problems of a chart and of its dependencies, with the names of the charts.
func check(c *chart.Chart, values map[string]any, load jsonschema.URLLoader) (problems string) {
	if c.Schema != nil {
		if err := evaluate(c.Schema, values, load); err != nil {
			problems = c.Name() + ":\n" + err.Error()
		}
	}
	for _, inner := range c.Dependencies() {
		switch given := values[inner.Name()].(type) {
		case nil:
		case map[string]any:
			problems += check(inner, given, load)
		default:
			problems += fmt.Sprintf("%s:\ninvalid type for values: expected object (map), got %T\n", inner.Name(), given)
		}
	}
	return problems
}

// evaluate validates values against one schema.
func evaluate(text []byte, values map[string]any, load jsonschema.URLLoader) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("unable to validate schema: %s", cause)
		}
	}()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(load)
	if err := compiler.AddResource(address, document); err != nil {
		return err
	}
	schema, err := compiler.Compile(address)
	if err != nil {
		return err
	}
	if err := schema.Validate(values); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "jsonschema validation failed with '"+address+"#'\n") + "\n")
	}
	return nil
}

// refused are files, which would be those of the agent.
type refused struct{}

// Load returns an error.
func (refused) Load(string) (any, error) {
	return nil, errors.New("a values schema cannot refer to a file: use an http or https URL, or copy its content into the schema")
}

// permissive are names without an address. Helm accepts all values for them.
type permissive struct{}

// Load returns a schema that accepts everything.
func (permissive) Load(string) (any, error) { return true, nil }

// web downloads schemas.
type web struct {
	ctx    context.Context //nolint:containedctx // the interface has no context
	client *http.Client
	left   int64
}

// Load downloads a schema.
func (w *web) Load(url string) (any, error) {
	request, err := http.NewRequestWithContext(w.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("HTTP request failed for %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP request to %s returned status %d (%s)", url, response.StatusCode, http.StatusText(response.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, w.left+1))
	if err != nil {
		return nil, fmt.Errorf("HTTP request failed for %s: %w", url, err)
	}
	if w.left -= int64(len(text)); w.left < 0 {
		return nil, fmt.Errorf("the schemas that the chart names have more than %d MiB", maxBytes>>20)
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}
