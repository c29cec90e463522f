package cloudconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const header = "#cloud-config"

// Parse returns the files and commands of a text. The error is an *Error.
func Parse(text []byte) (*Config, error) {
	if problem := checkText(text); problem != nil {
		return nil, problem
	}
	root, problem := decode(text)
	if problem != nil {
		return nil, problem
	}
	p := &parser{files: map[string]int{}}
	p.document(root)
	if p.problem != nil {
		return nil, p.problem
	}
	return &p.config, nil
}

// checkText checks what is cheaper to check before the text is parsed as YAML.
func checkText(text []byte) *Error {
	if len(text) > MaxBytes {
		return &Error{Line: 1, Problem: fmt.Sprintf("the text has %d bytes; at most %d are accepted", len(text), MaxBytes)}
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if strings.TrimRight(string(first), " \t\r") != header {
		return &Error{Line: 1, Problem: "the first line must be " + header}
	}
	if !utf8.Valid(text) {
		return &Error{Line: 1, Problem: "the text must be UTF-8; write binary content with encoding: base64"}
	}
	return nil
}

// decode returns the value of the only document, or nil if the text has no document.
func decode(text []byte) (*yaml.Node, *Error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, yamlError(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Error{Line: second.Line, Problem: "only one YAML document is accepted"}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	return first.Content[0], nil
}

// yamlError keeps the line of a parser's error.
func yamlError(err error) *Error {
	const noLine = "the text is not valid YAML"
	text, found := strings.CutPrefix(err.Error(), "yaml: line ")
	number, problem, isCut := strings.Cut(text, ": ")
	line, convErr := strconv.Atoi(number)
	if !found || !isCut || convErr != nil {
		return &Error{Line: 1, Problem: noLine}
	}
	if isFromParser(problem) {
		line++ // the library counts these lines from 0
	}
	return &Error{Line: max(line, 1), Problem: noLine + ": " + problem}
}

// isFromParser reports whether a problem was found by the library's parser. Other problems are its scanner's.
func isFromParser(problem string) bool {
	for _, missing := range []string{"<", "node content", "'-' indicator", "key", "','"} {
		if strings.HasPrefix(problem, "did not find expected "+missing) {
			return true
		}
	}
	return false
}
