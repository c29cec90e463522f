// Package output prints results as a table, as JSON, as YAML, or as names.
//
//	result (a struct with JSON names) ─► Print
//	rows, facts                       ─► Rows, Facts (tables)
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Format is a format of results: the value of the flag -o.
type Format string

// The formats. The field names of JSON and YAML are stable.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
	// Name prints only the names of objects, as resource/name, one in each line.
	Name Format = "name"
)

// Bind declares the flag -o.
func (f *Format) Bind(flags *pflag.FlagSet) {
	flags.VarP(f, "output", "o", "format of the result: table, json, yaml or name")
}

// String returns the name of the format.
func (f *Format) String() string { return string(*f) }

// Type returns the placeholder of the flag's value in the help.
func (*Format) Type() string { return "format" }

// Set sets the format, or returns an error if there is no such format.
func (f *Format) Set(text string) error {
	switch format := Format(text); format {
	case Table, JSON, YAML, Name:
		*f = format
		return nil
	}
	return fmt.Errorf("unknown format %q: use table, json, yaml or name", text)
}

// Print prints a result as JSON or YAML. Other formats are printed as YAML.
func Print(out io.Writer, format Format, result any) error {
	if format == JSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	document, err := yaml.Marshal(result)
	if err != nil {
		return fmt.Errorf("encoding result as YAML: %w", err)
	}
	_, err = out.Write(document)
	return err
}

// One prints the result of a verb about one object: as JSON or YAML, as its name (resource/name), or as a sentence.
func One(out io.Writer, format Format, result any, name, sentence string) error {
	switch format {
	case JSON, YAML:
		return Print(out, format, result)
	case Name:
		sentence = name
	}
	_, err := fmt.Fprintln(out, Line(sentence))
	return err
}

// Objects prints objects as a user would write them: without status and creation time. JSON is one document, in which several
// objects are a List, as kubectl prints them. Other formats are printed as YAML.
func Objects(out io.Writer, format Format, objects ...any) error {
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		fields, err := written(object)
		if err != nil {
			return fmt.Errorf("encoding object: %w", err)
		}
		items = append(items, fields)
	}
	if format == JSON && len(items) > 1 {
		items = []any{map[string]any{"apiVersion": "v1", "kind": "List", "items": items}}
	}
	for n, item := range items {
		if n > 0 {
			fmt.Fprintln(out, "---")
		}
		if err := Print(out, format, item); err != nil {
			return err
		}
	}
	return nil
}

// written returns the fields of an object that a user writes.
func written(object any) (fields map[string]any, err error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return fields, nil
}

// longestCell is the number of characters of a cell that are printed.
const longestCell = 2048

// Rows prints a table as kubectl does. Cells must not contain secrets. Control characters in cells are replaced and long
// cells are shortened, because clusters choose many of the texts.
func Rows(out io.Writer, header []string, rows [][]string) error {
	writer := printers.GetNewTabWriter(out)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, 0, len(row))
		for _, cell := range row {
			cells = append(cells, Line(Shorten(cell, longestCell)))
		}
		if _, err := fmt.Fprintln(writer, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return writer.Flush()
}

// Facts prints lines of a label and a text, with the texts below each other.
func Facts(out io.Writer, facts [][2]string) error {
	writer := printers.GetNewTabWriter(out)
	for _, fact := range facts {
		fmt.Fprintf(writer, "%s\t%s\n", fact[0], Line(fact[1]))
	}
	return writer.Flush()
}

// Line returns a text without control characters, so that a text that a cluster has chosen cannot add lines or control
// the terminal.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return ' '
		}
		return r
	}, text)
}

// Shorten returns a text of at most limit characters. It ends with an ellipsis if something is left out.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	characters := []rune(text[:min(len(text), (limit+1)*utf8.UTFMax)])
	if len(characters) <= limit {
		return text
	}
	return string(characters[:limit-1]) + "…"
}

// Count returns a number with a noun, whose plural ends with s.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
