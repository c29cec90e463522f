package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestLabels_AreValidKeysWithADescription(t *testing.T) {
	key := regexp.MustCompile(`^(fleet\.cattle\.io|objectset\.rio\.cattle\.io|management\.cattle\.io)/[a-z0-9/-]+$`)
	kind := regexp.MustCompile(`^(Label|Annotation|Finalizer|SecretType)[A-Z]`)
	seen := map[string]string{}
	found := constants(t, "labels.go")
	for _, own := range constants(t, "annotation/annotation.go") {
		if !strings.HasPrefix(own.doc, own.name) {
			t.Errorf("annotation.%s needs a sentence, has %q", own.name, own.doc)
		}
		found = append(found, constant{"Annotation" + own.name, own.value, "Annotation" + own.doc})
	}
	for _, constant := range found {
		if !kind.MatchString(constant.name) || !key.MatchString(constant.value) {
			t.Errorf("%s = %q", constant.name, constant.value)
		}
		if !strings.HasPrefix(constant.doc, constant.name) {
			t.Errorf("%s needs a sentence, has %q", constant.name, constant.doc)
		}
		sort := kind.FindStringSubmatch(constant.name)[1]
		if other, ok := seen[sort+constant.value]; ok {
			t.Errorf("%s and %s are the same key", other, constant.name)
		}
		seen[sort+constant.value] = constant.name
	}
	if len(found) < 40 {
		t.Errorf("only %d constants: the file was not read", len(found))
	}
}

type constant struct{ name, value, doc string }

// constants lists the text constants of a file.
func constants(t *testing.T, file string) []constant {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var found []constant
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, constant{spec.Names[0].Name, value, strings.Join(strings.Fields(spec.Doc.Text()), " ")})
		return true
	})
	return found
}
