package conditions_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateDocs = flag.Bool("update-docs", false, "write docs/conditions.md from conditions.go")

// docs/conditions.md is generated from the comments of the constants.
func TestConditionsPage_IsUpToDate(t *testing.T) {
	const page = "../../../../../docs/conditions.md"
	blocks := documented(t)
	if len(blocks) < 6 {
		t.Fatalf("found %d blocks: the constants are read wrongly", len(blocks))
	}
	types, reasons := blocks[0], blocks[1:]
	want := "# Conditions and reasons\n\n" +
		"What the objects report: `kubectl describe`, or `kubectl get -o yaml` under `status.conditions`. A condition that is not\n" +
		"True has a reason and a message. The message names the objects and says what to do. A condition heals by itself when its\n" +
		"cause is gone. For example:\n\n" +
		"```\n$ kubectl get clusters.fleet.cattle.io -n fleet-default east -o jsonpath='{.status.conditions[?(@.type==\"Imported\")]}'\n" +
		`{"type":"Imported","status":"False","reason":"KubeconfigMissing","message":"Secret fleet-default/east-kubeconfig does not exist: …"}` +
		"\n```\n\n## Conditions\n\n| type | meaning |\n|---|---|\n" + rows(types.constants)
	for _, block := range reasons {
		title, hint, _ := strings.Cut(block.doc, ". To see them: ")
		want += "\n## " + strings.TrimSuffix(title, ".") + "\n\n"
		if hint != "" {
			want += "```\n" + hint + "\n```\n\n"
		}
		want += "| reason | meaning, and what to do |\n|---|---|\n" + rows(block.constants)
	}
	if *updateDocs {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/conditions.md is not what conditions.go says; run this test with -update-docs (-want +got):\n%s", diff)
	}
}

type constant struct{ name, value, doc string }

// meaning returns what the comment says of the value.
func (c constant) meaning() string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(c.doc, c.name), " means that "), ", ")
}

// documentedBlock is a block of constants, with its comment.
type documentedBlock struct {
	doc       string
	constants []constant
}

// documented reads the text constants of conditions.go, in their blocks and order.
func documented(t *testing.T) (found []documentedBlock) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range file.Decls {
		decl, ok := declared.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		block := documentedBlock{doc: strings.Join(strings.Fields(decl.Doc.Text()), " ")}
		for _, spec := range decl.Specs {
			if constant, isText := documentedOf(t, spec.(*ast.ValueSpec)); isText {
				block.constants = append(block.constants, constant)
			}
		}
		if len(block.constants) > 0 {
			found = append(found, block)
		}
	}
	return found
}

// documentedOf returns a constant with its comment, and false for one that is no text.
func documentedOf(t *testing.T, spec *ast.ValueSpec) (constant, bool) {
	t.Helper()
	if len(spec.Values) == 0 {
		return constant{}, false
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return constant{}, false
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return constant{spec.Names[0].Name, value, strings.Join(strings.Fields(spec.Doc.Text()), " ")}, true
}

// constants lists the text constants of conditions.go.
func constants(t *testing.T) (all []constant) {
	t.Helper()
	for _, block := range documented(t) {
		all = append(all, block.constants...)
	}
	return all
}

func rows(constants []constant) string {
	var text strings.Builder
	for _, c := range constants {
		text.WriteString("| `" + c.value + "` | " + c.meaning() + " |\n")
	}
	return text.String()
}
